"""Answers of a model on pairs of groups, and the stability of clusters under resampling."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.project.sql import chunks, placeholders

Repetition = tuple[Literal["seed", "bootstrap"], int]
"""A kind of resampling and its number, from 0."""


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """The answer of a model on two groups; None or empty for what was not asked.

    Attributes:
        sides: Key of the pair, see `MergeState.sides_key`; A is the larger group.
        likelihood_ratio, yes, yes_reversed, reason, label, description, model: As in `engine.goals.records.Evidence`.
        calls, seconds: Requests and time that the answer took.
    """

    sides: str
    likelihood_ratio: float | None
    yes: float | None
    yes_reversed: float | None
    reason: str
    label: str
    description: str
    model: str
    calls: int
    seconds: float


_ANSWER = (
    "sides, likelihood_ratio, yes, yes_reversed, reason, label, description, model, calls, seconds"
)


def register(conn: sqlite3.Connection, clustering_id: int, config_hash: str) -> None:
    """Makes the answers of a configuration those that are shown for a clustering; called before its first ones."""
    conn.execute("UPDATE clustering SET pair_config = ? WHERE id = ?", (config_hash, clustering_id))


def add(
    conn: sqlite3.Connection, config_hash: str, run_id: int, answers: Sequence[PairAnswer]
) -> None:
    """Stores answers; an earlier answer on the same pair is replaced."""
    conn.executemany(
        f"INSERT OR REPLACE INTO pair_answer (config_hash, run_id, {_ANSWER})"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                config_hash, run_id, a.sides, a.likelihood_ratio, a.yes, a.yes_reversed, a.reason, a.label,
                a.description, a.model, a.calls, a.seconds,
            )
            for a in answers
        ],
    )  # fmt: skip


def answers(
    conn: sqlite3.Connection, config_hash: str | None, sides: Sequence[str]
) -> dict[str, PairAnswer]:
    """The answers on these pairs under a configuration, by key; a pair that was not asked is absent."""
    found: dict[str, PairAnswer] = {}
    for keys in chunks(sides):
        for row in conn.execute(
            f"SELECT {_ANSWER} FROM pair_answer WHERE config_hash = ? AND sides IN ({placeholders(keys)})",
            (config_hash, *keys),
        ):
            found[row[0]] = PairAnswer(*row)
    return found


def every_answer(conn: sqlite3.Connection, config_hash: str | None) -> dict[str, PairAnswer]:
    """All answers under a configuration, by key."""
    rows = conn.execute(f"SELECT {_ANSWER} FROM pair_answer WHERE config_hash = ?", (config_hash,))
    return {row[0]: PairAnswer(*row) for row in rows}


def count(conn: sqlite3.Connection, config_hash: str | None) -> int:
    """Number of pairs answered on under a configuration."""
    sql = "SELECT count(*) FROM pair_answer WHERE config_hash = ?"
    return int(conn.execute(sql, (config_hash,)).fetchone()[0])


def cost(conn: sqlite3.Connection, config_hash: str | None) -> tuple[float, float] | None:
    """(requests, seconds) of a pair on average; None before any was asked about."""
    row = conn.execute(
        "SELECT avg(calls), avg(seconds) FROM pair_answer WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    return None if row[0] is None else (float(row[0]), float(row[1]))


# Stability


def add_repetition(
    conn: sqlite3.Connection,
    clustering_id: int,
    config_hash: str,
    run_id: int,
    repetition: Repetition,
    ari: float,
    jaccard: Mapping[int, float],
    labels: bytes | None = None,
) -> None:
    """Stores one repetition: adjusted Rand index with the clustering, Jaccard of each cluster by number, and the
    labels that it gave (int32 for each conversation of the clustering in id order, -1 for outliers)."""
    kind, number = repetition
    conn.execute(
        "INSERT INTO stability (clustering_id, config_hash, kind, repetition, run_id, ari, labels)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (clustering_id, config_hash, kind, number, run_id, ari, labels),
    )
    conn.executemany(
        "INSERT INTO cluster_stability (clustering_id, config_hash, kind, repetition, number, jaccard)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (clustering_id, config_hash, kind, number, cluster, value)
            for cluster, value in jaccard.items()
        ],
    )


def missing_repetitions(
    conn: sqlite3.Connection, clustering_id: int, config_hash: str, wanted: Iterable[Repetition]
) -> list[Repetition]:
    """Those of the wanted repetitions that are not stored yet, in their order."""
    have = set(
        conn.execute(
            "SELECT kind, repetition FROM stability WHERE clustering_id = ? AND config_hash = ?",
            (clustering_id, config_hash),
        )
    )
    return [one for one in wanted if one not in have]


def stability(conn: sqlite3.Connection, clustering_id: int) -> dict[int, float]:
    """Mean Jaccard of each cluster under the bootstraps of the newest measurement; empty before any."""
    return dict(
        conn.execute(
            "SELECT number, avg(jaccard) FROM cluster_stability WHERE clustering_id = ?1"
            " AND kind = 'bootstrap' AND config_hash = (SELECT config_hash FROM stability"
            " WHERE clustering_id = ?1 ORDER BY run_id DESC LIMIT 1) GROUP BY number",
            (clustering_id,),
        ).fetchall()
    )


def latest_stability(conn: sqlite3.Connection, clustering_id: int) -> str | None:
    """Config hash of the newest measurement of stability; None before any."""
    found = conn.execute(
        "SELECT config_hash FROM stability WHERE clustering_id = ? ORDER BY run_id DESC LIMIT 1",
        (clustering_id,),
    ).fetchone()
    return None if found is None else str(found[0])


def repetitions(conn: sqlite3.Connection, clustering_id: int) -> int:
    """Number of stored repetitions of a clustering, under any configuration."""
    sql = "SELECT count(*) FROM stability WHERE clustering_id = ?"
    return int(conn.execute(sql, (clustering_id,)).fetchone()[0])


def agreements(
    conn: sqlite3.Connection, clustering_id: int, config_hash: str
) -> list[tuple[Repetition, float, bytes | None]]:
    """(repetition, ARI with the clustering, labels as stored) of every repetition that is stored."""
    return [
        ((kind, number), float(ari), labels)
        for kind, number, ari, labels in conn.execute(
            "SELECT kind, repetition, ari, labels FROM stability WHERE clustering_id = ?"
            " AND config_hash = ? ORDER BY kind, repetition",
            (clustering_id, config_hash),
        )
    ]
