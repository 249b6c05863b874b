"""Stores the stability of clusterings under resampling, and counts the states of conversations by group.

Counts take a *map of groups*: two bytes for each conversation id from 0 on, the number of its group, big-endian; 0 is
no group. So SQLite counts in one pass over a table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Literal

from engine.base.conversation import State
from engine.completeness.records import StateCounts
from engine.completeness.tables import score_sets
from engine.completeness.tables.scores import state_sql
from engine.project.sql import snapshot

RepetitionKey = tuple[Literal["seed", "bootstrap"], int]
"""A kind of resampling and its number, from 0."""


# Stability


def add_repetition(
    conn: sqlite3.Connection,
    clustering_id: int,
    config_hash: str,
    run_id: int,
    repetition: RepetitionKey,
    ari: float,
    jaccard: Mapping[int, float],
) -> None:
    """Stores one repetition: its adjusted Rand index with the clustering, and the Jaccard similarity of each cluster by
    number."""
    kind, number = repetition
    conn.execute(
        "INSERT INTO stability (clustering_id, config_hash, kind, repetition, run_id, ari)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (clustering_id, config_hash, kind, number, run_id, ari),
    )
    conn.executemany(
        "INSERT INTO cluster_stability (clustering_id, config_hash, kind, repetition, number, jaccard)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (clustering_id, config_hash, kind, number, cluster, value)
            for cluster, value in jaccard.items()
        ],
    )


def agreements(
    conn: sqlite3.Connection, clustering_id: int, config_hash: str
) -> list[tuple[RepetitionKey, float]]:
    """Returns each stored repetition with its adjusted Rand index with the clustering, by kind and number."""
    return [
        ((kind, number), float(ari))
        for kind, number, ari in conn.execute(
            "SELECT kind, repetition, ari FROM stability WHERE clustering_id = ?"
            " AND config_hash = ? ORDER BY kind, repetition",
            (clustering_id, config_hash),
        )
    ]


def stability(conn: sqlite3.Connection, clustering_id: int) -> dict[int, float]:
    """Returns the mean Jaccard similarity of each cluster under the bootstraps of the newest measurement, by number;
    empty before any."""
    return dict(
        conn.execute(
            "SELECT number, avg(jaccard) FROM cluster_stability WHERE clustering_id = ?1"
            " AND kind = 'bootstrap' AND config_hash = (SELECT config_hash FROM stability"
            " WHERE clustering_id = ?1 ORDER BY run_id DESC LIMIT 1) GROUP BY number",
            (clustering_id,),
        ).fetchall()
    )


def repetition_count(conn: sqlite3.Connection, clustering_id: int) -> int:
    """Returns the number of stored repetitions of a clustering, under any configuration."""
    sql = "SELECT count(*) FROM stability WHERE clustering_id = ?"
    return int(conn.execute(sql, (clustering_id,)).fetchone()[0])


# Counts by group

BYTES_PER_GROUP = 2

_GROUP_NUMBER = f"substr(?, {{}} * {BYTES_PER_GROUP} + 1, {BYTES_PER_GROUP})"
"""SQL for the two bytes of a conversation in a map of groups, none (which are the number 0) beyond its end; its id is
to be filled in. `substr` counts from 1."""

_States = dict[str, tuple[int, int]]
"""For each state the number of conversations in it, and how many of them are at or above the threshold."""


def states(
    conn: sqlite3.Connection, groups: bytes, sizes: dict[int, int]
) -> dict[int, StateCounts]:
    """Returns how many conversations of each group are in each state.

    Args:
        groups: The map of groups; see the module.
        sizes: Conversations of each group; those without a score are unscored.
    """
    with snapshot(conn):
        rule = score_sets.rule(conn)
        expression, values = state_sql(rule)
        rows = conn.execute(
            f"SELECT {_GROUP_NUMBER.format('s.conversation_id')} AS place, {expression}, count(*),"
            " sum(s.p_end_normalised >= ?)"
            " FROM score AS s WHERE s.config_hash = ? AND s.p_end_normalised IS NOT NULL"
            " GROUP BY 1, 2",
            (groups, *values, rule.threshold, score_sets.hash_in_force(conn)),
        ).fetchall()
    counts_by_group: dict[int, _States] = {}
    for group_bytes, state, count, above_threshold in rows:
        counts_by_group.setdefault(int.from_bytes(group_bytes, "big"), {})[state] = (
            count,
            above_threshold,
        )
    return {
        group: _state_counts(counts_by_group.get(group, {}), size) for group, size in sizes.items()
    }


def months(conn: sqlite3.Connection, groups: bytes) -> list[tuple[str, int, int, StateCounts]]:
    """Returns (month, group, conversations, their states) for each month as "2026-01" and each group, the oldest first;
    0 is no group. A conversation without a date is in no month.

    Args:
        groups: The map of groups; see the module.
    """
    with snapshot(conn):
        rule = score_sets.rule(conn)
        expression, values = state_sql(rule)
        counts = conn.execute(
            f"SELECT substr(c.created_at, 1, 7), {_GROUP_NUMBER.format('c.id')}, {expression}, count(*),"
            " coalesce(sum(s.p_end_normalised >= ?), 0)"
            " FROM conversation AS c LEFT JOIN score AS s"
            " ON s.conversation_id = c.id AND s.config_hash = ?"
            " WHERE c.created_at IS NOT NULL GROUP BY 1, 2, 3",
            (groups, *values, rule.threshold, score_sets.hash_in_force(conn)),
        ).fetchall()
    states_by_key: dict[tuple[str, int], _States] = {}
    for month, group_bytes, state, count, above_threshold in counts:
        key = month, int.from_bytes(group_bytes, "big")
        states_by_key.setdefault(key, {})[state] = count, above_threshold
    rows = []
    for (month, group), state_counts in sorted(states_by_key.items(), key=lambda item: item[0]):
        size = sum(count for count, _ in state_counts.values())
        rows.append((month, group, size, _state_counts(state_counts, size)))
    return rows


def scored(conn: sqlite3.Connection, config_hash: str | None) -> int:
    """Returns how many conversations have a score under a configuration."""
    sql = "SELECT count(*) FROM score WHERE config_hash = ?"
    return int(conn.execute(sql, (config_hash,)).fetchone()[0])


def _state_counts(counts: _States, size: int) -> StateCounts:
    """Returns the counts of a group of this size; members without a score are unscored."""
    complete, incomplete, borderline = (
        counts.get(state, (0, 0))[0]
        for state in (State.COMPLETE, State.INCOMPLETE, State.BORDERLINE)
    )
    unscored = size - complete - incomplete - borderline
    above = sum(above for _, above in counts.values())
    return StateCounts(complete, incomplete, borderline, unscored, above)
