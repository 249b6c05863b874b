"""Export of plays with their transcripts, a JSON object each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from engine.conversations.tables.imported import names
from engine.simulate import tables as plays
from engine.simulate.records import PlayRow


def transcript_lines(
    conn: sqlite3.Connection, wanted: Sequence[int] | None = None
) -> Iterator[dict[str, Any]]:
    """Each play with its result, and every model call of it with the reply.

    Args:
        wanted: Ids of conversations: their plays in this order; None for all plays, in the order they were played.
    """
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
        # Rows are small; the transcripts are read one play at a time.
        yield from list(plays.all_plays(conn))
        return
    for conversation_id in wanted:
        yield from plays.of_conversation(conn, conversation_id)


def _name(conn: sqlite3.Connection, row: PlayRow) -> str | None:
    if row.conversation_id is None:
        return None
    return names(conn, [row.conversation_id])[row.conversation_id]
