"""Selects the conversations that a run works on."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection
from dataclasses import dataclass, field

from engine.base.errors import UsageError
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.tables import conversations, selecting


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of the conversations of a project; all of them by default.

    Attributes:
        filter: Selects the conversations that match it.
        names: Selects those that have one of these ids in their source; None for any.
        limit: Selects only so many, the first ones in id order; None for all.
    """

    filter: Filter = field(default_factory=Filter)
    names: Collection[str] | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        check_limit(self.limit)

    def ids(self, conn: sqlite3.Connection) -> array[int]:
        """Returns the ids of the selected conversations, in id order."""
        ids = selecting.ids(conn, ListQuery(self.filter))
        if self.names is not None:
            ids = conversations.with_external_ids(conn, ids, self.names)
        return ids[: self.limit]


def check_limit(limit: int | None) -> None:
    """Refuses a negative limit, which would count from the end.

    Raises:
        UsageError: The limit is negative.
    """
    if limit is not None and limit < 0:
        raise UsageError(f"limit is {limit}.", "Give the most conversations, 0 or more, or None.")


ALL = Selection()
