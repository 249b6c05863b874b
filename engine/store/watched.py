"""How far `workbench watch` has told each conversation, so that a later watch goes on from there."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from engine.store.sql import utc_now


@dataclass(frozen=True, slots=True)
class ToldEntry:
    """A conversation of which so many boundaries were told; `p` is the probability at the last of them."""

    conversation_id: int
    boundaries: int
    p: float | None


def told(conn: sqlite3.Connection) -> dict[int, int]:
    """Number of boundaries that were told, by conversation; empty before the first watch."""
    return dict(conn.execute("SELECT conversation_id, boundaries FROM watched"))


def begin(conn: sqlite3.Connection, entries: Sequence[ToldEntry]) -> None:
    """Stores what was there before the first watch as told and ended."""
    _put(conn, entries, ended=True)


def put(conn: sqlite3.Connection, entries: Sequence[ToldEntry]) -> None:
    """Stores what was told just now."""
    _put(conn, entries, ended=False)


def _put(conn: sqlite3.Connection, entries: Sequence[ToldEntry], *, ended: bool) -> None:
    now = utc_now()
    conn.executemany(
        "INSERT OR REPLACE INTO watched (conversation_id, boundaries, p, grew_at, ended)"
        " VALUES (?, ?, ?, ?, ?)",
        ((one.conversation_id, one.boundaries, one.p, now, int(ended)) for one in entries),
    )


def quiet(conn: sqlite3.Connection, since: str) -> list[ToldEntry]:
    """The conversations that have not ended, and did not grow after a moment in UTC as `utc_now` writes it."""
    return [
        ToldEntry(*row)
        for row in conn.execute(
            "SELECT conversation_id, boundaries, p FROM watched WHERE ended = 0 AND grew_at <= ?"
            " ORDER BY conversation_id",
            (since,),
        )
    ]


def end(conn: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Stores that the end of these conversations was told; they go on if they grow."""
    conn.executemany("UPDATE watched SET ended = 1 WHERE conversation_id = ?", ((i,) for i in ids))


def running(conn: sqlite3.Connection) -> set[int]:
    """The conversations that have not ended."""
    return {row[0] for row in conn.execute("SELECT conversation_id FROM watched WHERE ended = 0")}
