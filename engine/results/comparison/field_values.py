"""The values of a field and the conversations that have each, for comparing a project by the field."""

from __future__ import annotations

import sqlite3
from array import array
from difflib import get_close_matches

from engine.base.errors import NotFound, UsageError
from engine.conversations.filter_fields import FIELDS_WITH_KEYS
from engine.conversations.filters import Term
from engine.conversations.tables import facets
from engine.conversations.tables.fields import SOURCES
from engine.questions.tables.verdicts import CURRENT_TAGS

MOST_VALUES = 200
"""Values of a field of metadata that is offered; what has more is an id or a text."""
TIMES = {"year": 4, "month": 7, "day": 10}
"""Fields of the time, with the number of characters of a date that they take."""

_TAGS = f"SELECT conversation_id, tag AS value FROM ({CURRENT_TAGS})"

_DATE = "[12][0-9][0-9][0-9]-[01][0-9]*"
_EPOCH = "6e8 AND 5e9 OR number BETWEEN 6e11 AND 5e12"
"""Texts that begin with a year and a month; seconds and milliseconds since 1970 of the years in which logs are."""

_ROWS = {
    "source": SOURCES,
    "tag": _TAGS,
    **{
        name: f"SELECT id AS conversation_id, substr(created_at, 1, {length}) AS value"
        f" FROM conversation WHERE length(created_at) >= {length}"
        for name, length in TIMES.items()
    },
}


def conversations_by_value(conn: sqlite3.Connection, field: str) -> dict[str, array[int]]:
    """Ids of conversations by the value of a field, ascending. A conversation with several values is under each.

    Raises:
        UsageError: There is no such field, or no conversation has it.
    """
    if field in _ROWS:
        rows = conn.execute(f"{_ROWS[field]} ORDER BY 1")
    elif field in facets.FIELDS or field.partition(".")[0] in FIELDS_WITH_KEYS:
        rows = conn.execute(
            "SELECT conversation_id, value FROM facet JOIN conversation_facet ON facet_id = facet.id"
            " WHERE key = ? ORDER BY 1",
            (field,),
        )
    else:
        raise UsageError(f"Nothing can be compared by {field!r}.", _known(conn, field))
    by_value: dict[str, array[int]] = {}
    for key, value in rows:
        by_value.setdefault(value, array("q")).append(key)
    if not by_value and field in TIMES:
        raise NotFound("No conversation has a date.", _dates_elsewhere(conn))
    if not by_value:
        raise NotFound(f"No conversation has a {field}.", _known(conn, field))
    return by_value


def fields(conn: sqlite3.Connection) -> list[str]:
    """The fields of which conversations have at least two values, and of metadata and truth at most `MOST_VALUES`."""
    fields_with_values = [
        name
        for name, sql in _ROWS.items()
        if conn.execute(f"SELECT count(DISTINCT value) > 1 FROM ({sql})").fetchone()[0]
    ]
    rows = conn.execute(
        "SELECT key FROM facet WHERE id IN (SELECT facet_id FROM conversation_facet)"
        " GROUP BY key HAVING count(*) BETWEEN 2 AND ? ORDER BY key LIKE '%.%', key",
        (MOST_VALUES,),
    )
    return [*fields_with_values, *(row[0] for row in rows if row[0] != facets.COPIES)]


def term_of(field: str, value: str) -> Term:
    """The term of a filter that selects the conversations with a value of a field."""
    return Term("date" if field in TIMES else field, ":", (value,))


def _dates_elsewhere(conn: sqlite3.Connection) -> str:
    """Where dates are instead, and how they can be used."""
    rows = conn.execute(
        "SELECT key FROM facet WHERE key LIKE 'meta.%' GROUP BY key"
        f" HAVING min(coalesce(value GLOB '{_DATE}' OR number BETWEEN {_EPOCH}, 0)) ORDER BY key LIMIT 5"
    )
    names = [row[0] for row in rows]
    if not names:
        return "A mapping says where a log has them: `created_at` in docs/mapping-files.md."
    name = names[0]
    return (
        f"Dates are in {', '.join(names)}. `--by {name}` compares by its values; for months, import into a new project"
        f' with a mapping that has `created_at = "{name.partition(".")[2]}"` (`workbench mapping`).'
    )


def _known(conn: sqlite3.Connection, field: str) -> str:
    dotted = [key for name in FIELDS_WITH_KEYS for key in facets.keys(conn, f"{name}.")]
    names = [*_ROWS, *facets.FIELDS, *dotted]
    near = get_close_matches(field, names, 3)
    fields = ", ".join(near or [*_ROWS, *facets.FIELDS, *dotted[:8]])
    return f"Fields: {fields}." if not near else f"Did you mean {fields}?"
