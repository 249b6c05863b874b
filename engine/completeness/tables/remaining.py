"""Remaining tasks: what a model says is left to do in conversations below the threshold."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from engine.completeness.records import RemainingRow
from engine.completeness.tables import score_sets, scores


@dataclass(frozen=True, slots=True)
class RemainingEntry:
    """What a model says is left to do; `reason` says why when `text` is empty."""

    conversation_id: int
    text: str
    reason: str | None = None


def add(
    conn: sqlite3.Connection,
    config_hash: str,
    score_config_hash: str,
    run_id: int,
    entries: Sequence[RemainingEntry],
) -> None:
    """Stores remaining tasks generated under `config_hash` for scores of `score_config_hash`."""
    conn.executemany(
        "INSERT INTO remaining (conversation_id, config_hash, score_config_hash, run_id, text, reason)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (e.conversation_id, config_hash, score_config_hash, run_id, e.text, e.reason)
            for e in entries
        ],
    )


def ids_without(conn: sqlite3.Connection, config_hash: str, score_config_hash: str) -> array[int]:
    """Ids of conversations below the threshold without remaining tasks under `config_hash`; in id order."""
    have = {
        row[0]
        for row in conn.execute(
            "SELECT conversation_id FROM remaining WHERE config_hash = ?", (config_hash,)
        )
    }
    return array("q", (i for i in scores.below_threshold(conn, score_config_hash) if i not in have))


def current(conn: sqlite3.Connection, conversation_id: int) -> RemainingRow | None:
    """The newest remaining tasks that belong to the current score."""
    row = conn.execute(
        "SELECT config_hash, text, reason FROM remaining WHERE conversation_id = ?"
        " AND score_config_hash = ? ORDER BY run_id DESC LIMIT 1",
        (conversation_id, score_sets.score_config(conn)),
    ).fetchone()
    return None if row is None else RemainingRow(conversation_id, *row)
