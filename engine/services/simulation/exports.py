"""Plays with their transcripts, as lines of JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from engine.records.simulation import PlayRow
from engine.store import conversations, plays


def transcript_lines(
    conn: sqlite3.Connection, wanted: Sequence[int] | None = None
) -> Iterator[dict[str, Any]]:
    """Each play with its result and every call with its reply: those that came out as the conversations that are
    wanted, in their order, or all in the order in which they were played."""
    models = {one.config_hash: dict(one.models) for one in plays.settings_of(conn)}
    for row in _rows(conn, wanted):
        yield {
            "key": row.key,
            "kind": row.kind,
            "config": row.config_hash,
            "models": models[row.config_hash],
            "conversation": _name(conn, row),
            "reason": row.reason,
            "result": dict(row.result),
            "calls": [asdict(line) for line in plays.transcript(conn, row.id)],
        }


def _rows(conn: sqlite3.Connection, wanted: Sequence[int] | None) -> Iterator[PlayRow]:
    if wanted is None:
        # All at once: rows are small, and the transcripts are read while the list is gone through.
        yield from list(plays.all_plays(conn))
        return
    for conversation_id in wanted:
        yield from plays.of_conversation(conn, conversation_id)


def _name(conn: sqlite3.Connection, row: PlayRow) -> str | None:
    if row.conversation_id is None:
        return None
    return conversations.rows(conn, [row.conversation_id])[0].external_id
