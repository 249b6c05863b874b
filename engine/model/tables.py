"""Stores replies of models, so that nothing is asked or paid for twice.

Replies of endpoints are in a cache by request, a file in the cache folder that may be deleted at any time. Replies that
results of a project were made of are in the project, by a hash of the call and the model.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.base.files import create_private_file, create_private_folder
from engine.project.sql import rows_in

MOST_BYTES = 500_000_000
"""Size of the cache of replies above which the least recently used ones are deleted."""

KEPT_SHARE = 0.9
"""Share of `MOST_BYTES` that is left after a deletion, so that not every further reply deletes some."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS reply (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, bytes INTEGER NOT NULL, used REAL NOT NULL
) STRICT, WITHOUT ROWID
"""
"""The table of the cache: a reply under the hash of its request, its length and when it was used last (seconds since
the epoch)."""


class ReplyCache:
    """The cache of the replies of endpoints, a `Replies` of `engine.model.endpoints.sender`; any thread may use it."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """Opens the file; replaces a file that is not such a cache."""
        create_private_folder(path.parent)
        self._guard = threading.Lock()
        self._most_bytes = most_bytes
        try:
            self._conn = _open(path)
        except sqlite3.DatabaseError:
            path.unlink(missing_ok=True)
            self._conn = _open(path)
        self._stored_bytes = self._sum_bytes()
        self._evict()

    def get(self, key: str) -> str | None:
        """Returns the reply stored under a key, or None."""
        with self._guard:
            row = self._conn.execute("SELECT value FROM reply WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            self._conn.execute("UPDATE reply SET used = ? WHERE key = ?", (time.time(), key))
        (value,) = row
        return str(value)

    def put(self, key: str, value: str) -> None:
        """Stores a reply."""
        row = (key, value, len(value), time.time())
        with self._guard:
            self._conn.execute("INSERT OR REPLACE INTO reply VALUES (?, ?, ?, ?)", row)
            self._stored_bytes += len(value)
            self._evict()

    def close(self) -> None:
        """Closes the file."""
        with self._guard:
            self._conn.close()

    def _evict(self) -> None:
        """Deletes the least recently used replies if all together have more bytes than they may.

        The sum is computed anew then, since `put` counts a replaced reply twice, and not those that other processes
        store.
        """
        if self._stored_bytes <= self._most_bytes:
            return
        # Each reply with the bytes of itself and of all that were used after it.
        sums = "SELECT key, sum(bytes) OVER (ORDER BY used DESC, key) AS upto FROM reply"
        self._conn.execute(
            f"DELETE FROM reply WHERE key IN (SELECT key FROM ({sums}) WHERE upto > ?)",
            (self._most_bytes * KEPT_SHARE,),
        )
        self._stored_bytes = self._sum_bytes()

    def _sum_bytes(self) -> int:
        """Returns the bytes of all replies together."""
        (total,) = self._conn.execute("SELECT coalesce(sum(bytes), 0) FROM reply").fetchone()
        return int(total)


def _open(path: Path) -> sqlite3.Connection:
    """Returns a connection to the cache, which is created if it is not there."""
    create_private_file(path)  # what SQLite keeps beside it is for the same people
    conn = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30.0)
    try:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = OFF")  # replies lost in a power cut are requested again
        conn.execute(_SCHEMA)
    except BaseException:
        conn.close()
        raise
    return conn


StoredReply = tuple[str, str, str | None]
"""The text of a reply, how it stopped, and a note or None."""


def replies(conn: sqlite3.Connection, keys: Sequence[str]) -> dict[str, StoredReply]:
    """Returns the stored replies by key of the call; calls without a stored reply are absent."""
    query = "SELECT key, text, stopped, note FROM call_reply WHERE key IN"
    rows = rows_in(conn, query, [bytes.fromhex(key) for key in keys])
    return {key.hex(): (text, stopped, note) for key, text, stopped, note in rows}


def add_replies(conn: sqlite3.Connection, new_replies: Iterable[tuple[str, StoredReply]]) -> None:
    """Stores replies by key; an existing reply is kept."""
    conn.executemany(
        "INSERT INTO call_reply (key, text, stopped, note) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (key) DO NOTHING",
        ((bytes.fromhex(key), *reply) for key, reply in new_replies),
    )
