"""Stores how far `workbench watch` has reported each conversation, so that a later watch goes on from there.

A *boundary* is a place in a conversation at which it may have ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_FIRST = "(SELECT min(grew_at) FROM watched)"
"""SQL for the moment of the first watch, at which all past conversations were stored. A conversation that came or grew
since has a later moment."""

WATCHED: Mapping[str, str] = {
    "past": f"SELECT conversation_id FROM watched WHERE grew_at = {_FIRST}",
    "new": f"SELECT conversation_id FROM watched WHERE grew_at > {_FIRST}",
    "running": "SELECT conversation_id FROM watched WHERE ended = 0",
}
"""Queries of the conversations that were there before the first watch and did not grow since, of those that came or
grew since, and of those that have not ended."""


@dataclass(frozen=True, slots=True)
class WatchedEntry:
    """How far a conversation was reported.

    Attributes:
        conversation_id: Id of the conversation.
        boundaries: Number of its boundaries that were reported.
        p: Probability of the end at the last of them; None where there is none.
    """

    conversation_id: int
    boundaries: int
    p: float | None


def reported_boundaries(conn: sqlite3.Connection) -> dict[int, int]:
    """Returns the number of boundaries that were reported, by conversation; empty before the first watch."""
    return dict(conn.execute("SELECT conversation_id, boundaries FROM watched"))


def put(
    conn: sqlite3.Connection, entries: Sequence[WatchedEntry], now: str, *, ended: bool
) -> None:
    """Stores conversations that grew as reported.

    Args:
        now: The present moment in UTC, as `utc_now` writes it.
        ended: Whether they have ended, as those that were there before the first watch.
    """
    conn.executemany(
        "INSERT OR REPLACE INTO watched (conversation_id, boundaries, p, grew_at, ended)"
        " VALUES (?, ?, ?, ?, ?)",
        ((entry.conversation_id, entry.boundaries, entry.p, now, int(ended)) for entry in entries),
    )


def quiet_entries(conn: sqlite3.Connection, since: str) -> list[WatchedEntry]:
    """Returns the conversations that have not ended, and did not grow after a moment in UTC as `utc_now` writes it."""
    return [
        WatchedEntry(*row)
        for row in conn.execute(
            "SELECT conversation_id, boundaries, p FROM watched WHERE ended = 0 AND grew_at <= ?"
            " ORDER BY conversation_id",
            (since,),
        )
    ]


def mark_ended(conn: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Stores that the end of these conversations was reported; they go on if they grow."""
    conn.executemany(
        "UPDATE watched SET ended = 1 WHERE conversation_id = ?", ((key,) for key in ids)
    )


def running_ids(conn: sqlite3.Connection) -> set[int]:
    """Returns the conversations that have not ended."""
    return {row[0] for row in conn.execute(WATCHED["running"])}
