"""The writer thread, which owns the only writing connection."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from engine.base.errors import ProjectMoved
from engine.project.write_lock import WriteLock

T = TypeVar("T")

MAX_LOG_BYTES = 4 << 20
"""Length of SQLite's log above which it is written into the file, as SQLite itself would do."""

_Work = tuple[Callable[[sqlite3.Connection], Any], bool, "Future[Any]"]
"""A function, whether it is run in a transaction, and the future that gets its result."""


class Writer:
    """Runs functions one after another, each in a transaction of its own, on a file that is still what it was.

    The thread is a daemon, so that quitting never waits for it; a transaction that is cut short is undone by
    SQLite at the next open.
    """

    def __init__(self, conn: sqlite3.Connection, lock: WriteLock) -> None:
        self._conn = conn
        self._lock = lock
        conn.execute("PRAGMA wal_autocheckpoint = 0")
        conn.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}")
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="project-writer", daemon=True)
        self._thread.start()

    def submit(
        self, fn: Callable[[sqlite3.Connection], T], *, transaction: bool = True
    ) -> Future[T]:
        """Queues `fn`; the future has its result once the transaction is committed, or a ProjectMoved.

        Args:
            transaction: Without one, `fn` is run as it is, on whatever became of the file.

        Raises:
            RuntimeError: the writer is closed, or `submit` is called from inside a transaction, whose own
                end the caller would wait for.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a write inside a write would wait for itself")
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise RuntimeError("the project is closed")
            self._queue.put((fn, transaction, future))
        return future

    def close(self, timeout: float) -> bool:
        """Lets what is queued finish, or interrupts it after `timeout` seconds; returns whether the thread ended."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._conn.interrupt()
            self._thread.join(1.0)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        """Runs what is queued, one after another, until the writer is closed."""
        while (work := self._queue.get()) is not None:
            fn, transaction, future = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = self._in_transaction(fn) if transaction else fn(self._conn)
            except BaseException as error:  # noqa: BLE001 - belongs to the caller, who waits on the future
                future.set_exception(error)
            else:
                future.set_result(result)
            # a result may be large, and this frame waits long
            del work, fn, future

    def _in_transaction(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a function in one transaction, on a file that is still what it was before and after it."""
        self._lock.check()
        self._conn.execute("BEGIN IMMEDIATE")
        try:
            result = fn(self._conn)
            self._lock.check()  # it may have taken long
            self._conn.execute("COMMIT")
        except BaseException as error:
            if self._conn.in_transaction:  # a full disk may have ended it already
                self._conn.execute("ROLLBACK")
            if isinstance(error, sqlite3.DatabaseError):
                self._lock.check()  # what looks damaged may have been overwritten
            raise
        self._fold_large_log()
        return result

    def _fold_large_log(self) -> None:
        """Does what SQLite would do by itself, between two looks at the file, so that writes of others are noticed.

        Raises:
            ProjectMoved: Another program wrote into the file while it was written.
        """
        try:
            if self._lock.log_size() <= MAX_LOG_BYTES:
                self._lock.check()
                return
            self._lock.sync_log()  # SQLite waits for that, and the file is not looked at meanwhile
            self._lock.check()
            # it goes on with a part if readers need the rest, and the next write tries again
            _, frames, written = self._conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._lock.note_write(frames if frames == written else 0)
        except FileNotFoundError:
            return  # of the log; the next look at the file says where it went
        except ProjectMoved as moved:
            if moved.overwritten:
                raise
            # what was committed gets into the file at the next write, or at the end
