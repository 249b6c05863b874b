"""The thread that owns the only connection by which a project is written.

SQLite writes each transaction into its *log* (the file `-wal`) first; *folding* the log writes its pages into the
project file.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from engine.base.errors import ProjectMoved
from engine.project.write_lock import WriteLock

MAX_LOG_BYTES = 4 << 20
"""Length of SQLite's log above which it is folded, as SQLite itself would do."""

T = TypeVar("T")
"""The result of a write."""

_Work = tuple[Callable[[sqlite3.Connection], Any], bool, "Future[Any]"]
"""A function, whether it runs in a transaction, and the future that gets its result."""


class Writer:
    """Runs functions one after another, each in a transaction of its own, on a file that no other program has changed.

    The thread is a daemon, so that quitting never waits for it; SQLite undoes a transaction that is cut short when the
    file is opened next.
    """

    def __init__(self, conn: sqlite3.Connection, lock: WriteLock) -> None:
        """Starts the thread; `conn` is the writing connection, and `lock` the lock of the project, which is held."""
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
        """Queues `fn` and returns a future, which has the result once the transaction is committed, or ProjectMoved.

        Args:
            transaction: Whether `fn` runs in a transaction; without one the file is not checked either.

        Raises:
            RuntimeError: The writer is closed, or `submit` is called from inside a write, for whose end the caller
                would wait.
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
        """Finishes the queued writes, or interrupts them after `timeout` seconds; returns whether the thread ended."""
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
        """Runs the queued functions one after another until the writer is closed."""
        while (work := self._queue.get()) is not None:
            fn, transaction, future = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = self._in_transaction(fn) if transaction else fn(self._conn)
            except BaseException as error:  # noqa: BLE001 - raised where the caller waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)
            # a result may be large, and this frame waits long
            del work, fn, future

    def _in_transaction(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a function in one transaction, and checks before and after that no other program changed the file."""
        self._lock.check()
        self._conn.execute("BEGIN IMMEDIATE")
        try:
            result = fn(self._conn)
            self._lock.check()  # `fn` may have taken long
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
        """Folds a log that is longer than `MAX_LOG_BYTES`.

        SQLite would do this by itself; here it happens between two checks of the file, so that writes of other programs
        are noticed.

        Raises:
            ProjectMoved: Another program wrote into the file meanwhile.
        """
        try:
            if self._lock.log_size() <= MAX_LOG_BYTES:
                self._lock.check()
                return
            self._lock.sync_log()  # SQLite waits for that, and the file is not looked at meanwhile
            self._lock.check()
            # only a part is folded if readers need the rest; the next write tries again
            _, frames, written = self._conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._lock.note_write(frames if frames == written else 0)
        except FileNotFoundError:
            return  # the log is gone; the next check says where the project went
        except ProjectMoved as moved:
            if moved.overwritten:
                raise
            # what was committed gets into the file at the next write, or at the end
