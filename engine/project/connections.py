"""Opens connections to the database of a project, keeps the reading connection of each thread, and translates errors of
SQLite and of the operating system into messages that say what to do."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.base.errors import ProjectDamaged, ProjectError, ProjectReadOnly
from engine.base.files import disk_full_error, is_disk_full

_BUSY_MILLISECONDS = 5000
"""How long SQLite waits for a lock that another connection holds."""

_MAX_INTERRUPTS = 20
"""Number of times that a query is interrupted before its connection is left to its thread."""

_INTERRUPT_SECONDS = 0.05
"""How long a query has to end after each interrupt."""

_FILE_LIMIT_CODES = (
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)
"""Error codes of SQLite where the system refuses to make a file larger for another reason than a full disk."""

_PRIMARY_CODE_BITS = 0xFF
"""The bits of an extended error code of SQLite that are its primary code."""


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
        in_use: A lock that the thread holds while it reads.
    """

    def __init__(self, conn: sqlite3.Connection, thread: threading.Thread) -> None:
        """Makes a reader that is not in use."""
        self.conn = conn
        self.thread = thread
        self.in_use = threading.RLock()

    def close(self) -> None:
        """Interrupts a running query and closes the connection, unless another thread may be inside it.

        Python crashes when a connection is closed under a running query; one that is left open here is closed
        when its thread drops it.
        """
        self.conn.interrupt()
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


@contextmanager
def translate_sqlite_errors(path: str, written: str = "") -> Iterator[None]:
    """Turns errors of SQLite in the block into a ProjectError; most other errors pass.

    Errors of values that are no text or no JSON where they must be, and of JSON nested without end or with endless
    numbers, also show damage and are turned into one.

    Args:
        path: The project.
        written: The file that is written, where that is another file.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(path, written or path, error) from error
    except (ValueError, RecursionError) as error:
        of_value = isinstance(error, UnicodeDecodeError | json.JSONDecodeError | RecursionError)
        if not of_value and "integer string conversion" not in str(error):
            raise
        raise damaged(path, error) from error


@contextmanager
def translate_file_errors(path: str, written: str = "") -> Iterator[None]:
    """Turns errors of SQLite and of the system in the block into a ProjectError; see `translate_sqlite_errors`."""
    try:
        with translate_sqlite_errors(path, written):
            yield
    except OSError as error:
        raise _from_system(path, written or path, error) from error


def _from_sqlite(path: str, written: str, error: sqlite3.Error) -> ProjectError:
    """Returns the error for a person that an error of SQLite means; arguments as in `translate_sqlite_errors`."""
    name, written_name = os.path.basename(path), os.path.basename(written)
    code, primary = _code(error), primary_code(error)
    if lacks_space(error, Path(written).parent):
        return disk_full_error(written_name)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ProjectError(
            f"Another program keeps {name} locked.", "Close whatever else has the file open."
        )
    if primary == sqlite3.SQLITE_READONLY:
        return ProjectReadOnly(
            f"{name} cannot be written.", "Check the permissions of the file and of its folder."
        )
    # the error of Python on bytes that are no text has no code
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or (
        not code and "decode to UTF-8" in str(error)
    ):
        return damaged(path, error)
    if primary == sqlite3.SQLITE_CANTOPEN:
        return ProjectError(
            f"{name} cannot be opened.", "Check the permissions of the file and of its folder."
        )
    if written != path:
        return ProjectError(
            f"{name} could not be read, or {written_name} not be written ({error})."
        )
    return ProjectError(f"{name} could not be read or written ({error}).")


def lacks_space(error: sqlite3.Error, folder: Path) -> bool:
    """Returns whether an error of SQLite on a file in the folder comes from a full disk or a limit on file sizes."""
    primary = primary_code(error)
    return (
        primary == sqlite3.SQLITE_FULL
        or _code(error) in _FILE_LIMIT_CODES
        or (primary == sqlite3.SQLITE_IOERR and is_disk_full(error, folder))
    )


def primary_code(error: sqlite3.Error) -> int:
    """Returns the kind of an error of SQLite: its code without the details; 0 for an error without a code."""
    return _code(error) & _PRIMARY_CODE_BITS


def _code(error: sqlite3.Error) -> int:
    """Returns the extended code of an error of SQLite; 0 for an error of Python's own, which has none."""
    return int(getattr(error, "sqlite_errorcode", None) or 0)


def damaged(path: str, symptom: object) -> ProjectError:
    """Returns the error that says that the project at `path` is damaged, with the symptom of the damage."""
    return ProjectDamaged(
        f"{os.path.basename(path)} is damaged ({symptom}).",
        "See `workbench restore FILE` for backups, or save what can still be read: `workbench repair FILE -o NEW`.",
    )


def _from_system(path: str, written: str, error: OSError) -> ProjectError:
    """Returns the error for a person that an error of the system means; arguments as in `translate_sqlite_errors`."""
    name = os.path.basename(path)
    if is_disk_full(error):
        return disk_full_error(os.path.basename(written))
    if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
        return ProjectError(
            f"The file system of {name} offers no locks.", "Keep projects on a local disk."
        )
    if written != path:
        return ProjectError(
            f"{os.path.basename(written)} cannot be written: {error.strerror or error}."
        )
    return ProjectError(f"{name} cannot be opened: {error.strerror or error}.")
