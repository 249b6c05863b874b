"""Answers of a model on pairs of groups, and the stability of clusters under resampling."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.project.sql import chunks, placeholders



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












