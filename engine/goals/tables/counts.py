"""Statistics of groups of conversations: states, periods, leaves.

Groups are a replay of decisions and are in no table. So the caller passes a map of groups, two bytes for each
conversation id, and SQLite counts in one pass over a table."""

from __future__ import annotations

import sqlite3
from statistics import median
from typing import Literal

from engine.base.outcomes import (
    State,
)
from engine.completeness.records import (
    StateCounts,
)
from engine.completeness.tables import score_sets
from engine.completeness.tables.scores import state_sql
from engine.project.sql import snapshot

WIDTH = 2
"""Bytes of a group number, big-endian, in a map of groups: one for each id from 0 on; 0 is no group."""

_GROUP = f"substr(?, {{}} * {WIDTH} + 1, {WIDTH})"

_States = dict[str, tuple[int, int]]
"""How many conversations are in a state, and how many of them are at or above the threshold."""


def states(
    conn: sqlite3.Connection, groups: bytes, sizes: dict[int, int]
) -> dict[int, StateCounts]:
    """How many conversations of each group are in each state.

    Args:
        groups: The map of groups.
        sizes: Conversations of each group; those without a score are unscored.
    """
    with snapshot(conn):
        rule = score_sets.rule(conn)
        expression, values = state_sql(rule)
        rows = conn.execute(
            f"SELECT {_GROUP.format('s.conversation_id')} AS place, {expression}, count(*),"
            " sum(s.p_end_normalised >= ?)"
            " FROM score AS s WHERE s.config_hash = ? AND s.p_end_normalised IS NOT NULL"
            " GROUP BY 1, 2",
            (groups, *values, rule.threshold, score_sets.score_config(conn)),
        ).fetchall()
    found: dict[int, _States] = {}
    for place, state, count, above in rows:
        found.setdefault(number(place), {})[state] = count, above
    return {group: _states(found.get(group, {}), size) for group, size in sizes.items()}


def periods(
    conn: sqlite3.Connection, groups: bytes, by: Literal["month", "import"]
) -> list[tuple[str, int, int, StateCounts]]:
    """(period, group, conversations, their states), the periods oldest first; 0 is no group.

    A conversation without a date is in no month.
    """
    # each is answered from one index: that of dates, or that of sources
    period, rows = {
        "month": ("substr(c.created_at, 1, 7)", "WHERE c.created_at IS NOT NULL"),
        "import": ("c.source_id", ""),
    }[by]
    with snapshot(conn):
        labels = dict(conn.execute("SELECT id, label FROM source"))
        rule = score_sets.rule(conn)
        expression, values = state_sql(rule)
        counts = conn.execute(
            f"SELECT {period}, {_GROUP.format('c.id')}, {expression}, count(*),"
            " coalesce(sum(s.p_end_normalised >= ?), 0)"
            " FROM conversation AS c LEFT JOIN score AS s"
            " ON s.conversation_id = c.id AND s.config_hash = ?"
            f" {rows} GROUP BY 1, 2, 3 ORDER BY 1",
            (groups, *values, rule.threshold, score_sets.score_config(conn)),
        ).fetchall()
    found: dict[tuple[str, int], _States] = {}
    for name, place, state, count, above in counts:
        key = str(labels[name] if by == "import" else name), number(place)
        counted = found.setdefault(key, {})
        before = counted.get(state, (0, 0))
        counted[state] = before[0] + count, before[1] + above
    first = {name: at for at, (name, _) in reversed(list(enumerate(found)))}
    ordered = sorted(found, key=lambda key: (first[key[0]], key[1]))
    return [
        (name, group, size, _states(found[name, group], size))
        for (name, group) in ordered
        for size in [sum(count for count, _ in found[name, group].values())]
    ]


def leaves(conn: sqlite3.Connection, groups: bytes, config_hash: str | None) -> dict[int, float]:
    """Median leaves of the trees of each group under a configuration; groups without trees are absent."""
    found: dict[int, list[int]] = {}
    for place, count in conn.execute(
        f"SELECT {_GROUP.format('conversation_id')}, leaves FROM tree"
        " WHERE config_hash = ? AND reason IS NULL",
        (groups, config_hash),
    ):
        found.setdefault(number(place), []).append(count)
    return {group: float(median(counts)) for group, counts in found.items()}


def scored(conn: sqlite3.Connection, config_hash: str | None) -> int:
    """How many conversations have a score under a configuration."""
    sql = "SELECT count(*) FROM score WHERE config_hash = ?"
    return int(conn.execute(sql, (config_hash,)).fetchone()[0])


def grown(conn: sqlite3.Connection, config_hash: str | None) -> int:
    """How many trees there are under a configuration."""
    sql = "SELECT count(*) FROM tree WHERE config_hash = ?"
    return int(conn.execute(sql, (config_hash,)).fetchone()[0])


def number(place: bytes) -> int:
    """The group number at a place of the map; 0 beyond its end."""
    return int.from_bytes(place, "big")


def _states(counts: _States, size: int) -> StateCounts:
    complete, incomplete, borderline = (
        counts.get(state, (0, 0))[0]
        for state in (State.COMPLETE, State.INCOMPLETE, State.BORDERLINE)
    )
    unscored = size - complete - incomplete - borderline
    above = sum(above for _, above in counts.values())
    return StateCounts(complete, incomplete, borderline, unscored, above)
