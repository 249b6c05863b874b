"""Where the further requests of a conversation begin: the index of a user's message for each request after the first.

What the program finds and what a person says are one table. A person's word on a message stays when requests are found
anew; with a text that is replaced all of it goes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from engine.store.sql import chunks, placeholders

MANY = "SELECT conversation_id, 1 + sum(begins) AS requests FROM request_start GROUP BY conversation_id"
"""(conversation_id, requests): number of requests of conversations with a row; all others have one."""


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
            "SELECT conversation_id, message FROM request_start"
            f" WHERE begins AND conversation_id IN ({placeholders(keys)})"
            " ORDER BY conversation_id, message",
            keys,
        ):
            found.setdefault(key, []).append(message)
    return found
