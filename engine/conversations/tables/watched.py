"""How far `workbench watch` has reported each conversation, so that a later watch goes on from there."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.project.idset import read_ids

_FIRST = "(SELECT min(grew_at) FROM watched)"
"""The moment of the first watch, at which all past conversations were stored; one that grew since has a later one."""

WATCHED: Mapping[str, str] = {
    "past": f"SELECT conversation_id FROM watched WHERE grew_at = {_FIRST}",
    "new": f"SELECT conversation_id FROM watched WHERE grew_at > {_FIRST}",
    "running": "SELECT conversation_id FROM watched WHERE ended = 0",
}
"""Queries of the conversations that were there before the first watch and did not grow since, of those that came or
grew since, and of those that have not ended."""

_ENDED = f"FROM watched WHERE ended = 1 AND grew_at > {_FIRST} AND p IS NOT NULL"
"""Condition of a conversation that came or grew since the first watch, has ended and has a probability."""
_ENDED_ORDER = "ORDER BY grew_at, conversation_id"
"""Order in which conversations that ended grew last."""
ENDED_PLACES = f"SELECT conversation_id, row_number() OVER ({_ENDED_ORDER}) AS place {_ENDED}"
"""Query of (conversation_id, place): the place, from 1, of each conversation that came or grew since the first watch,
has ended and has a probability, in the order in which they grew last."""


@dataclass(frozen=True, slots=True)
class WatchedEntry:
    """A conversation of which so many boundaries were reported; `p` is the probability at the last of them."""

    conversation_id: int
    boundaries: int
    p: float | None


def reported_boundaries(conn: sqlite3.Connection) -> dict[int, int]:
    """Returns the number of boundaries that were reported, by conversation; empty before the first watch."""
    return dict(conn.execute("SELECT conversation_id, boundaries FROM watched"))


def store_first_watch(conn: sqlite3.Connection, entries: Sequence[WatchedEntry], now: str) -> None:
    """Stores what was there before the first watch as reported and ended; `now` in UTC, as `utc_now` writes it."""
    _put(conn, entries, now, ended=True)


def put_reported(conn: sqlite3.Connection, entries: Sequence[WatchedEntry], now: str) -> None:
    """Stores what was reported just now."""
    _put(conn, entries, now, ended=False)


def _put(
    conn: sqlite3.Connection, entries: Sequence[WatchedEntry], now: str, *, ended: bool
) -> None:
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
    conn.executemany("UPDATE watched SET ended = 1 WHERE conversation_id = ?", ((i,) for i in ids))


def running_ids(conn: sqlite3.Connection) -> set[int]:
    """Returns the conversations that have not ended."""
    return {row[0] for row in conn.execute(WATCHED["running"])}


def past_ids(conn: sqlite3.Connection) -> array[int]:
    """Returns the ids of the conversations that were there before the first watch and did not grow since."""
    return read_ids(conn, WATCHED["past"])


def past_complete(conn: sqlite3.Connection, threshold: float) -> tuple[int, int]:
    """Of those, how many have a probability of at least the threshold, and how many have one."""
    complete, scored = conn.execute(
        f"SELECT count(*) FILTER (WHERE p >= ?), count(p) FROM watched WHERE grew_at = {_FIRST}",
        (threshold,),
    ).fetchone()
    return complete, scored


def ended(conn: sqlite3.Connection) -> list[tuple[str, float]]:
    """When each conversation that came or grew since and has ended grew last, and its last probability; in the order of
    that time. Without those that have no probability."""
    return conn.execute(f"SELECT grew_at, p {_ENDED} {_ENDED_ORDER}").fetchall()
