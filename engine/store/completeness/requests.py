"""Where the further requests of a conversation begin: for each the index of a message of the user, never their first.

What the program finds and what a person says are one table. A person's word on a message stays when requests are found
anew; with a text that is replaced all of it goes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from engine.store.sql import MESSAGE_BITS, chunks, placeholders

# By the ids of messages and with the order fixed: left to choose, SQLite took 61 s for 40,000 starts, so 0.02 s.
_STARTS_SQL = (
    "SELECT start.conversation_id, start.message FROM request_start AS start"
    f" CROSS JOIN message AS own ON own.id = (start.conversation_id << {MESSAGE_BITS}) + start.message"
    " WHERE start.begins AND own.role = 'user' AND EXISTS (SELECT 1 FROM message AS earlier"
    f" WHERE earlier.id >= start.conversation_id << {MESSAGE_BITS} AND earlier.id < own.id"
    " AND earlier.role = 'user')"
)
"""SQL of (conversation_id, message): a message of the user after their first one, so that both what is counted and what
is shown has a message of the user in each request."""

REQUEST_COUNTS_SQL = f"SELECT conversation_id, 1 + count(*) AS requests FROM ({_STARTS_SQL}) GROUP BY conversation_id"
"""SQL of (conversation_id, requests): number of requests of conversations with a further one; all others have one."""


def put_found(conn: sqlite3.Connection, found: Iterable[tuple[int, Sequence[int]]]) -> None:
    """Replaces what was found in these conversations; messages on which a person said something stay as they are."""
    for key, messages in found:
        conn.execute("DELETE FROM request_start WHERE conversation_id = ? AND found", (key,))
        conn.executemany(
            "INSERT OR IGNORE INTO request_start (conversation_id, message, found, begins, annotator)"
            " VALUES (?, ?, 1, 1, '')",
            [(key, message) for message in messages],
        )


def mark(
    conn: sqlite3.Connection, conversation_id: int, message: int, annotator: str, *, begins: bool
) -> None:
    """Stores that a person says that a message begins a request, or that it does not."""
    conn.execute(
        "INSERT OR REPLACE INTO request_start (conversation_id, message, found, begins, annotator)"
        " VALUES (?, ?, 0, ?, ?)",
        (conversation_id, message, int(begins), annotator),
    )


def starts(conn: sqlite3.Connection, wanted: Sequence[int]) -> dict[int, list[int]]:
    """Messages that begin a further request, ascending, by conversation; those without one are left out."""
    found: dict[int, list[int]] = {}
    for keys in chunks(wanted):
        for key, message in conn.execute(
            f"{_STARTS_SQL} AND start.conversation_id IN ({placeholders(keys)})"
            " ORDER BY start.conversation_id, start.message",
            keys,
        ):
            found.setdefault(key, []).append(message)
    return found
