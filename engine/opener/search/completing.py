"""The values of the fields of filters that occur in a project, with numbers of conversations, for completion."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from engine.base.outcomes import (
    State,
)
from engine.conversations.filter_fields import DOTTED, FIELDS
from engine.conversations.filters import Filter, Term
from engine.conversations.tables import facets
from engine.goals.tables import groups as goal_groups
from engine.opener.search.field_values import SOURCES, TAGS
from engine.opener.search.query import in_state, matching
from engine.project import settings
from engine.project.idset import IdSet
from engine.project.sql import snapshot
from engine.questions.tables.second_verdicts import NAMED_OPINIONS
from engine.questions.tables.verdicts import CURRENT_VERDICTS

Values = Sequence[tuple[str, int | None]]
MOST = 200
"""Values that are offered."""
MOST_FOR_KEYS = 50_000
"""Conversations of a project in which keys are counted; a million with five keys each would take nine seconds."""

_MONTHS = "SELECT id AS conversation_id, substr(created_at, 1, 7) AS value FROM conversation"
_BY_ROW = {
    "tag": TAGS,
    "verdict": f"SELECT conversation_id, verdict AS value FROM ({CURRENT_VERDICTS})",
    "annotator": f"SELECT conversation_id, annotator AS value FROM ({NAMED_OPINIONS})",
    "source": SOURCES,
    "date": _MONTHS,
}


def values(conn: sqlite3.Connection, field: str, rest: Filter, limit: int = MOST) -> Values:
    """Values of a field (as `Term.field`) with the number of conversations that match the rest of the filter.

    The most frequent come first, months in their order. For `meta` and `truth` they are the keys. Fields whose values
    are not counted, such as numbers, have none.

    Raises:
        WorkbenchError: The rest of the filter cannot be answered.
    """
    with snapshot(conn):
        among = matching(conn, rest)
        if field in ("goal", "also"):
            return goal_groups.counts(conn, among, second=field == "also")[:limit]
        if field in DOTTED:
            names = facets.keys(conn, f"{field}.")
            counted = len(among.flags) <= MOST_FOR_KEYS
            return [
                (name.partition(".")[2], facets.count(conn, name, among) if counted else None)
                for name in names[:limit]
            ]
        if field in facets.FIELDS or "." in field:
            return facets.values(conn, field, among, limit)
        if field == "state":
            return _states(conn, among)
        if field == "disagreement":
            return _choices(conn, rest, field, FIELDS[field].choices)
        if field in _BY_ROW:
            return _by_row(conn, _BY_ROW[field], among, limit, in_order=field == "date")
    return []


def _states(conn: sqlite3.Connection, among: IdSet) -> Values:
    rule, config = settings.rule(conn), settings.score_config(conn)
    chosen, flags = among.condition("conversation_id")
    found = []
    for state in State:
        sql, parameters = in_state(rule, config, state)
        row = conn.execute(
            f"SELECT count(*) FROM ({sql}) WHERE {chosen}", (*parameters, *flags)
        ).fetchone()
        number = len(among) - row[0] if state is State.UNSCORED else row[0]
        found.append((str(state), int(number)))
    return found


def _choices(
    conn: sqlite3.Connection, rest: Filter, field: str, choices: tuple[str, ...]
) -> Values:
    return [
        (choice, len(matching(conn, Filter((*rest.terms, Term(field, ":", (choice,)))))))
        for choice in choices
    ]


def _by_row(
    conn: sqlite3.Connection, rows: str, among: IdSet, limit: int, *, in_order: bool
) -> Values:
    chosen, flags = among.condition("conversation_id")
    return conn.execute(
        f"SELECT value, count(*) FROM ({rows}) WHERE value IS NOT NULL AND {chosen} GROUP BY value"
        f" ORDER BY {'value DESC' if in_order else '2 DESC, 1'} LIMIT ?",
        (*flags, limit),
    ).fetchall()
