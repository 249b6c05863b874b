"""Opens connections to the database of a project, and keeps the reading connection of each thread."""

from __future__ import annotations

import os
import sqlite3
import threading
import urllib.parse
from collections.abc import Callable

_BUSY_MILLISECONDS = 5000
"""How long SQLite waits for a lock that another connection holds."""

_MAX_INTERRUPTS = 20
"""Number of times that a query is interrupted before its connection is left to its thread."""

_INTERRUPT_SECONDS = 0.05
"""How long a query has to end after each interrupt."""


def file_uri(path: str, mode: str = "ro") -> str:
    """Returns the URI by which SQLite opens a file; the mode is `ro` to read it, `rw` to write it."""
    return f"file:{urllib.parse.quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"


def connect(path: str, mode: str, *, immutable: bool = False) -> sqlite3.Connection:
    """Opens a connection that any thread may use and that begins no transaction by itself.

    Args:
        mode: `ro` to read the file, `rw` to write it.
        immutable: Whether the file is read without locks and without its log, as nobody changes it.

    Raises:
        sqlite3.Error: The file cannot be opened.
    """
    conn = sqlite3.connect(
        file_uri(path, mode) + ("&immutable=1" if immutable else ""),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_MILLISECONDS / 1000,
    )
    conn.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    return conn


def fold_log(conn: sqlite3.Connection) -> None:
    """Writes the content of the log (the file `-wal`, where SQLite writes first) into the file, and empties the log."""
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def find_damage(conn: sqlite3.Connection) -> str | None:
    """Returns what SQLite finds wrong in the file, such as a missing value where there must be one; None if nothing."""
    (answer,) = conn.execute("PRAGMA quick_check(1)").fetchone()
    return None if answer == "ok" else str(answer)


class Reader:
    """One thread's connection.

    Attributes:
        conn: The connection, which only reads.
        thread: The thread that it belongs to.
        handed_out: Whether the thread has the connection itself, so that nobody else knows when it is in use.
        in_use: A lock that the thread holds while it reads.
    """

    def __init__(self, conn: sqlite3.Connection, thread: threading.Thread) -> None:
        """Makes a reader that is neither handed out nor in use."""
        self.conn = conn
        self.thread = thread
        self.handed_out = False
        self.in_use = threading.RLock()

    def close(self) -> None:
        """Interrupts a running query and closes the connection, unless another thread may be inside it.

        Python crashes when a connection is closed under a running query; one that is left open here is closed
        when its thread drops it.
        """
        self.conn.interrupt()
        other_thread_lives = (
            self.thread is not threading.current_thread() and self.thread.is_alive()
        )
        if self.handed_out and other_thread_lives:
            return
        for _ in range(_MAX_INTERRUPTS):
            if self.in_use.acquire(timeout=_INTERRUPT_SECONDS):
                self.conn.close()
                self.in_use.release()
                return
            self.conn.interrupt()  # the last one may have come between two queries


class Readers:
    """The readers of one project, one for each thread that reads."""

    def __init__(self, open_connection: Callable[[], sqlite3.Connection]) -> None:
        """Makes no reader yet; `open_connection` opens a connection that only reads."""
        self._open_connection = open_connection
        self._local = threading.local()
        self._readers: list[Reader] = []
        self._guard = threading.Lock()

    def of_this_thread(self) -> Reader:
        """Returns this thread's reader; when it has to open one, it closes those of threads that have ended."""
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            conn = self._open_connection()
            reader = self._local.reader = Reader(conn, threading.current_thread())
            with self._guard:
                for ended in [other for other in self._readers if not other.thread.is_alive()]:
                    self._readers.remove(ended)
                    ended.conn.close()
                self._readers.append(reader)
        return reader

    def close(self) -> None:
        """Closes all readers; see `Reader.close`."""
        with self._guard:
            readers = list(self._readers)
            self._readers.clear()
        for reader in readers:
            reader.close()
