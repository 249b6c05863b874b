"""Saved filters, the chosen columns and the last view of the conversation list, and what was looked at already."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, get_args

from engine.base.errors import FilterError
from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery, parse_filter
from engine.project import settings
from engine.project.project import Project

_SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)
_FILTERS = "filters"
"""Setting: saved filters, text by name (`workbench filters`)."""
_COLUMNS = "list.columns"
"""Setting: the columns of the list of conversations, in order."""
_VIEW = "list.view"
"""Setting: what the list of conversations showed last: filter, order, conversation."""
_SEEN = "overview.seen"
"""Setting: results that were opened from the overview, which it does not show as new."""


class SavedViews:
    """Saved filters and view settings of one project. Reading is quick; writing raises ProjectReadOnly.

    Another version of the program may have written other values; a value that is not understood counts as absent.
    """

    def __init__(self, project: Project) -> None:
        self._project = project

    def filters(self) -> dict[str, str]:
        """The saved filters: their text by name, in the order of names."""
        return dict(sorted(_texts(self._read(_FILTERS)).items()))

    def save_filter(self, name: str, text: str) -> None:
        """Saves a filter; one of the same name is replaced."""

        def add(conn: sqlite3.Connection) -> None:
            settings.put(conn, _FILTERS, {**_texts(settings.get(conn, _FILTERS)), name: text})

        self._project.write(add)

    def delete_filter(self, name: str) -> None:
        """Deletes a filter; does nothing where there is none of that name."""

        def take(conn: sqlite3.Connection) -> None:
            kept = _texts(settings.get(conn, _FILTERS))
            kept.pop(name, None)
            settings.put(conn, _FILTERS, kept)

        self._project.write(take)

    def columns(self) -> list[str] | None:
        """Keys of the columns of the list, in order; None where nobody has chosen any."""
        found = self._read(_COLUMNS)
        return [key for key in found if isinstance(key, str)] if isinstance(found, list) else None

    def save_columns(self, columns: Sequence[str]) -> None:
        """Remembers the columns of the list."""
        self._put(_COLUMNS, list(columns))

    def view(self) -> tuple[ListQuery, int | None]:
        """What the list showed last, and the id of the conversation under its cursor."""
        found = self._read(_VIEW)
        if not isinstance(found, dict):
            return ListQuery(), None
        conversation = found.get("conversation")
        try:
            wanted = parse_filter(str(found.get("filter", "")))
        except FilterError:
            return ListQuery(), None
        named = (key for key in _SORT_KEYS if key == found.get("sort"))
        sort: SortKey = next(named, "id")
        query = ListQuery(wanted, sort, found.get("descending") is True)
        return query, conversation if isinstance(conversation, int) else None

    def save_view(self, query: ListQuery, conversation_id: int | None) -> None:
        """Remembers what the list shows."""
        view = {
            "filter": str(query.filter),
            "sort": query.sort,
            "descending": query.descending,
            "conversation": conversation_id,
        }
        self._put(_VIEW, view)

    def seen(self) -> frozenset[str]:
        """Keys of the results that a person opened from the overview."""
        found = self._read(_SEEN)
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    def save_seen(self, key: str) -> None:
        """Remembers that a result was opened; `key` names it and what it was made of."""

        def add(conn: sqlite3.Connection) -> None:
            found = settings.get(conn, _SEEN)
            kept = found if isinstance(found, list) else []
            settings.put(conn, _SEEN, sorted({*map(str, kept), key}))

        self._project.write(add)

    def _read(self, key: str) -> Any:
        with self._project.reading() as conn:
            return settings.get(conn, key)

    def _put(self, key: str, value: Any) -> None:
        self._project.write(lambda conn: settings.put(conn, key, value))


def _texts(found: Any) -> dict[str, str]:
    return (
        {str(k): v for k, v in found.items() if isinstance(v, str)}
        if isinstance(found, dict)
        else {}
    )
