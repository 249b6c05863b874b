"""Opening, reading, writing and closing a project file."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from engine.base.errors import (
    NameTaken,
    NotAProject,
    ProjectError,
    ProjectLinked,
    ProjectLocked,
    ProjectMissing,
    ProjectMoved,
    ProjectReadOnly,
    ProjectTooNew,
    ProjectTooOld,
)
from engine.base.files import remove_leftovers
from engine.project import runs, settings
from engine.project.backups import copy_whole, free_name
from engine.project.failures import damaged, translate_file_errors, translate_sqlite_errors
from engine.project.schema import (
    APPLICATION_ID,
    FIRST_SCHEMA,
    LAST_COMMIT_FOR_EARLIER_SCHEMAS,
    SCHEMA,
    foreign_object,
    migrate,
)
from engine.project.write_lock import ProjectFile, WriteLock, check_readable, has_log
from engine.project.writer import Writer

T = TypeVar("T")

_BUSY_MS = 5000
_OF_DAMAGE = (AttributeError, LookupError, TypeError, ValueError)
"""What code raises that got a value from a damaged file that no sound file has."""

_INTERRUPTS = 20
_NO_SIDE_FILES = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_NOT_OURS = "It was not written by this program; choose another file."


class Project:
    """An open project file. `write` and `reader` may be used from any thread, and in no process but the one that
    opened it.

    Attributes:
        path: As given by the caller.
        read_only: Why nothing can be written, a few words; None for a writable project. A project that another program
                moves or changes becomes read-only at the next write.
        waits_for_writer: Whether it is read-only because another one writes it.
    """

    def __init__(
        self,
        path: str,
        real: str,
        *,
        read_only: str | None,
        immutable: bool,
        file: ProjectFile,
        lock: WriteLock | None,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.waits_for_writer = False
        self._hint = ""
        self._real = real
        self._file = file
        self._pid = os.getpid()
        self._moved: ProjectMoved | None = None
        self._immutable = immutable
        self._lock = lock
        self._local = threading.local()
        self._readers: list[_Reader] = []
        self._guard = threading.Lock()
        self._closed = False
        self._conn: sqlite3.Connection | None = None
        self._writer: Writer | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        read_only: bool = False,
        upgrade: bool = False,
    ) -> Project:
        """Opens a project.

        A project that someone else is writing, or that the system does not let us write, opens read-only and
        `read_only` says why. An older file is copied beside itself and then migrated. Runs that an earlier
        process left running are marked as interrupted.

        Args:
            create: Make a new project where there is none.
            read_only: Never write, not even when it would be possible.
            upgrade: With `read_only`, still bring an older file up to date, since it cannot be read as it is.

        Raises:
            ProjectError: nothing there, not a project, a newer one, damaged, no permission, disk full.
        """
        given = os.fspath(path)
        real = os.path.realpath(given)
        remove_leftovers(Path(real).parent)
        with translate_file_errors(real):
            exists = _check_place(given, real, create and not read_only)
            if read_only:
                opened = cls._open_upgraded if upgrade else cls._open_for_reading
                return opened(given, real, _NotWritable("opened for reading only"))
            try:
                return cls._open_for_writing(given, real, create=not exists or create)
            except _NotWritable as reason:
                return cls._open_beside(given, real, reason, exists)

    @classmethod
    def _open_beside(cls, given: str, real: str, reason: _NotWritable, exists: bool) -> Project:
        """Opens for reading what cannot be written; says so of a file that another process is just making."""
        making = ProjectLocked(
            f"{given} is being made or brought up to date: {reason}.",
            "Wait until that one has ended, then try again.",
        )
        if not exists:
            raise (
                making
                if reason.locked
                else ProjectError(
                    f"{given} cannot be created: {reason}.", "Choose a folder you can write to."
                )
            ) from reason
        try:
            return cls._open_for_reading(given, real, reason)
        except (NotAProject, ProjectTooOld):
            if reason.locked:
                raise making from reason
            raise

    @classmethod
    def _open_upgraded(cls, given: str, real: str, why: _NotWritable) -> Project:
        with contextlib.suppress(ProjectTooOld):
            return cls._open_for_reading(given, real, why)
        try:
            cls._open_for_writing(given, real, create=False).close()
        except _NotWritable as reason:
            why = reason
        return cls._open_for_reading(given, real, why)

    @classmethod
    def _open_for_writing(cls, given: str, real: str, *, create: bool) -> Project:
        if os.path.exists(real) and not os.access(real, os.W_OK):
            raise _NotWritable("the file is write-protected")
        lock = WriteLock(real)
        try:
            lock.acquire(create=create)
        except ProjectLocked as locked:
            raise _NotWritable(locked.message, locked=True) from locked
        except ProjectLinked as linked:
            raise _NotWritable(linked.message, linked.hint) from linked
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise _NotWritable("the folder cannot be written to") from error
            raise
        if lock.file is None:  # removed a moment ago
            lock.release()
            raise _missing(given)
        project = cls(given, real, read_only=None, immutable=False, file=lock.file, lock=lock)
        try:
            project._start(lock, create)
        except BaseException:
            project.close()
            raise
        return project

    def _start(self, lock: WriteLock, create: bool) -> None:
        _check_beginning(self.path, self._file)
        conn = _connect(self._real, "rw")
        self._conn = conn
        schema = _check_schema(self.path, conn, allow_empty=create)
        (mode,) = conn.execute("PRAGMA journal_mode").fetchone()
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        # deleted pages hold nothing secret here: nothing is ever deleted but index segments
        conn.execute("PRAGMA secure_delete = OFF")
        if 0 < schema < SCHEMA:
            _back_up(conn, self._real, schema)
        if schema < SCHEMA:
            migrate(conn, schema)
        conn.execute("PRAGMA foreign_keys = ON")
        if schema < SCHEMA or mode != "wal":
            lock.note_write()
        self._file.lock_anew()  # from now on SQLite always has a lock of its own, as a log is used
        self._writer = Writer(conn, lock)
        self.write(runs.interrupt_running)
        self.write(settings.ensure_project_id)

    @classmethod
    def _open_for_reading(cls, given: str, real: str, why: _NotWritable) -> Project:
        for immutable in (False, True):
            file = ProjectFile(real, os.O_RDONLY)
            project = cls(
                given, real, read_only=str(why), immutable=immutable, file=file, lock=None
            )
            project._hint, project.waits_for_writer = why.hint, why.locked
            try:
                _check_beginning(given, file)
                check_readable(real, file)
                schema = _check_schema(given, project.reader(), allow_empty=False)
            except sqlite3.OperationalError as error:
                project.close()
                # without the right to create its side files SQLite cannot open a file in WAL mode
                if immutable or error.sqlite_errorcode & 0xFF not in _NO_SIDE_FILES:
                    raise
            except BaseException:
                project.close()
                raise
            else:
                if schema < SCHEMA:
                    project.close()
                    raise ProjectTooOld(
                        f"{given} is of an older version and cannot be brought up to date: {why}.",
                        "Open it once where it can be written, or copy it to such a place.",
                    )
                return project
        raise AssertionError("the last attempt returns or raises")

    def is_written(self) -> bool:
        """Whether this or another process has the project open for writing, so that its runs may be running."""
        return self._file.holder() is not None

    def is_replaced(self) -> bool:
        """Whether the file that is open is no longer the one of this name."""
        return not self._file.is_at(self._real)

    def write(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `fn` on the writer's thread in one transaction and returns its result once that is committed.

        When `fn` raises, nothing of it is kept and the error is raised here.

        Raises:
            ProjectReadOnly: the project is open read-only.
            ProjectMoved: another program moved or changed the file; what was stored before is in it.
            ProjectError: the disk is full, the file is damaged or closed.
        """
        self._check_process()
        if self._moved is not None:
            raise self._moved
        if self.read_only is not None:
            raise ProjectReadOnly(
                f"The project is read-only: {self.read_only}.",
                self._hint or "Close the other one, or work on a copy that you can write.",
            )
        with translate_file_errors(self._real):
            if self._writer is None or self._closed:
                raise _closed()
            try:
                return self._writer.submit(fn).result()
            except ProjectMoved as moved:
                self._stop_writing(moved)
                raise

    def check(self) -> None:
        """Checks that a writable file is still what it was, as each write does.

        Raises:
            ProjectMoved: It is not; nothing more is written from now on.
        """
        if self._moved is not None:
            raise self._moved
        lock = self._lock
        if lock is None or self._writer is None or self._closed:
            return
        try:
            # on the writer's thread: its own writes change the file too
            self._writer.submit(lambda conn: lock.check(), transaction=False).result()
        except ProjectMoved as moved:
            self._stop_writing(moved)
            raise

    def _stop_writing(self, moved: ProjectMoved) -> None:
        self._moved = moved
        self.read_only = f"{moved.cause} while it was open"
        if not moved.overwritten and self._writer is not None:
            # so that the file is whole under any name, without the log
            with contextlib.suppress(sqlite3.Error, RuntimeError):
                self._writer.submit(_fold_log, transaction=False).result()

    def save_copy(self, target: str) -> None:
        """Writes all that is in the project to a new file, also when the project's own file was deleted.

        Raises:
            NameTaken: There is such a file.
            ProjectReadOnly: The project is read-only from the beginning.
            ProjectError: The content was overwritten, the project is closed, or the disk is full.
        """
        if self._moved is not None and self._moved.overwritten:
            raise self._moved
        if os.path.lexists(target):
            raise NameTaken(f"{target} is there already.", "Choose another name.")
        with translate_file_errors(target):
            if self._closed:
                raise _closed()
            if self._writer is None:
                raise ProjectReadOnly(
                    f"Only who writes a project saves it as a new file, and this one is read-only: {self.read_only}.",
                    f"Copy it by `workbench backup {os.path.basename(self._real)}`.",
                )
            self._writer.submit(lambda conn: copy_whole(conn, target), transaction=False).result()

    def reader(self) -> sqlite3.Connection:
        """This thread's read-only connection.

        It is closed with the project if its thread has ended by then or is the one that closes; a thread that
        lives on is better served by `reading`.

        Raises:
            ProjectError: the project is closed, or can no longer be opened.
        """
        mine = self._mine()
        mine.handed_out = True
        return mine.conn

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """This thread's reader for the length of a block, with failures raised as ProjectError."""
        mine = self._mine()
        with translate_sqlite_errors(self._real), mine.in_use:
            if self._closed:
                raise _closed()
            self._check_same_file()
            try:
                yield mine.conn
            except _OF_DAMAGE as error:
                if (found := _damage(mine.conn)) is not None:
                    raise damaged(self.path, found) from error
                raise

    def _check_same_file(self) -> None:
        """Refuses to read where the log may be that of another file: nobody but a writer keeps others from the name."""
        if self._lock is None and self.is_replaced():
            raise ProjectMoved(
                f"{os.path.basename(self._real)} was moved, deleted or replaced", "Open it again."
            )

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise ProjectError(
                f"{self.path} was opened by another process, of which this one is a fork.",
                "Open the project in the process that uses it, and start that with multiprocessing's method `spawn`.",
            )

    def _mine(self) -> _Reader:
        self._check_process()
        if self._closed:
            raise _closed()
        mine: _Reader | None = getattr(self._local, "reader", None)
        if mine is None:
            self._check_same_file()
            real, immutable = self._real, self._immutable
            if self._moved is not None and self.is_replaced():
                # the path would lead to another file, or to none
                real, immutable = self._moved_to(self._moved), True
            with translate_file_errors(real):
                conn = _connect(real, "ro", immutable=immutable)
                conn.execute("PRAGMA query_only = ON")
            mine = self._local.reader = _Reader(conn, threading.current_thread())
            with self._guard:
                for reader in [r for r in self._readers if not r.thread.is_alive()]:
                    self._readers.remove(reader)
                    reader.conn.close()
                self._readers.append(mine)
        return mine

    def _moved_to(self, moved: ProjectMoved) -> str:
        """Where the file is that was moved, if all is in it: it stays as it is until the project is closed, since
        nobody else can get its lock.

        Raises:
            ProjectMoved: That is not known, or a part is only in the log.
        """
        where = moved.where
        if where is None or not self._file.is_at(where) or has_log(self._real) or has_log(where):
            raise moved
        return where

    def close(self, timeout: float = 5.0) -> None:
        """Finishes what is being written, folds the write-ahead log into the file and lets go of the lock.

        Args:
            timeout: Seconds to wait for writes that run; after that they are interrupted and undone.
        """
        with self._guard:
            if self._closed:
                return
            self._closed = True
            readers = list(self._readers)
            self._readers.clear()
        for reader in readers:
            reader.close()
        ended = self._writer is None or self._writer.close(timeout)
        if ended and self._conn is not None:
            self._close_writer(self._conn)
        if self._lock is None:
            self._file.close()
        elif ended:
            self._lock.release()

    def _close_writer(self, conn: sqlite3.Connection) -> None:
        if self._lock is not None and self._writer is not None:
            try:
                self._lock.check()
            except ProjectMoved as moved:
                if moved.overwritten:
                    _leave_log_out(conn, self._real)
                    return
        # after a full disk the log cannot be folded in; the next open does it
        with contextlib.suppress(sqlite3.Error):
            _fold_log(conn)
        conn.close()
        if self.is_replaced() and not has_log(self._real):
            for suffix in ("-wal", "-shm"):  # empty, and of a name that nobody else may use yet
                with contextlib.suppress(OSError):
                    os.unlink(self._real + suffix)

    def __enter__(self) -> Project:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _damage(conn: sqlite3.Connection) -> str | None:
    """What SQLite finds wrong in the file, such as a missing value where there must be one; None if nothing."""
    (found,) = conn.execute("PRAGMA quick_check(1)").fetchone()
    return None if found == "ok" else str(found)


class _Reader:
    """One thread's connection.

    Attributes:
        handed_out: The thread has the connection itself, so that nobody else knows when it is in use.
    """

    def __init__(self, conn: sqlite3.Connection, thread: threading.Thread) -> None:
        self.conn = conn
        self.thread = thread
        self.handed_out = False
        self.in_use = threading.RLock()

    def close(self) -> None:
        """Ends a query that runs and closes, unless another thread may be inside the connection.

        Python crashes when a connection is closed under a running query; one that is left open here is closed
        when its thread lets go of it.
        """
        self.conn.interrupt()
        own = self.thread is threading.current_thread() or not self.thread.is_alive()
        if self.handed_out and not own:
            return
        for _ in range(_INTERRUPTS):
            if self.in_use.acquire(timeout=0.05):
                self.conn.close()
                self.in_use.release()
                return
            self.conn.interrupt()  # the last one may have come between two queries


def _closed() -> ProjectError:
    return ProjectError("The project is closed.")


def _fold_log(conn: sqlite3.Connection) -> None:
    """Writes what is in the log into the file, and empties the log."""
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _leave_log_out(conn: sqlite3.Connection, real: str) -> None:
    """Closes the writer of a file that was overwritten, and renames its log, which would destroy what is there now."""
    # SQLite writes the log into the file when its last connection is closed, unless that can only read
    with contextlib.closing(_connect(real, "ro")) as last:
        with contextlib.suppress(sqlite3.Error):
            last.execute("PRAGMA schema_version").fetchone()
        conn.close()
        with contextlib.suppress(OSError):
            os.rename(real + "-wal", free_name(f"{real}.overwritten-wal"))


class _NotWritable(Exception):
    """Why a project can only be read, in words."""

    def __init__(self, why: str, hint: str = "", *, locked: bool = False) -> None:
        super().__init__(why)
        self.hint, self.locked = hint, locked


def _missing(given: str) -> ProjectMissing:
    return ProjectMissing(
        f"There is no project {given}.", "Make one with `workbench import PROJECT PATH...`."
    )


def _check_place(given: str, real: str, create: bool) -> bool:
    """Whether there is a file to open; raises ProjectError when there cannot be a project."""
    if os.path.isdir(real):
        raise NotAProject(f"{given} is a folder.", "Name a file in it, for example project.wb.")
    if not os.path.exists(real):
        folder = os.path.dirname(real)
        if not os.path.isdir(folder):
            raise ProjectError(f"{given}: there is no folder {folder}.", "Create the folder first.")
        if not create:
            raise _missing(given)
        return False
    return True


def _check_beginning(given: str, file: ProjectFile) -> None:
    beginning = os.pread(file.fd, 16, 0)
    if beginning and beginning != b"SQLite format 3\0":
        raise NotAProject(f"{given} is not a project file.", _NOT_OURS)


def _connect(real: str, mode: str, *, immutable: bool = False) -> sqlite3.Connection:
    uri = f"file:{urllib.parse.quote(os.fsencode(real))}?mode={mode}"
    conn = sqlite3.connect(
        uri + ("&immutable=1" if immutable else ""),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_MS / 1000,
    )
    conn.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return conn


def _check_schema(given: str, conn: sqlite3.Connection, *, allow_empty: bool) -> int:
    """The schema number of the file, 0 for an empty one; raises ProjectError when it is not ours to open."""
    # the list of migrations is made before the first of them: a kill or a full disk between them leaves only it
    tables, triggers = conn.execute(
        "SELECT count(*), count(CASE type WHEN 'trigger' THEN 1 END) FROM sqlite_master"
        " WHERE tbl_name <> '_sqlite_migrations' OR type = 'trigger'"
    ).fetchone()
    application: int = conn.execute("PRAGMA application_id").fetchone()[0]
    schema: int = conn.execute("PRAGMA user_version").fetchone()[0]
    if not tables and not schema and application in (0, APPLICATION_ID):
        if allow_empty:
            return 0
        raise NotAProject(f"{given} is empty.", "Import conversations into it first.")
    if application != APPLICATION_ID:
        raise NotAProject(f"{given} is a database of another program.", _NOT_OURS)
    if triggers:
        raise NotAProject(
            f"{given} has triggers, which would change what is written; no project of this program has any.",
            "Do not trust the file; `workbench repair` saves what it holds without them.",
        )
    if schema > SCHEMA:
        raise ProjectTooNew(
            f"{given} was written by a newer version of this program"
            f" (schema {schema}, this one knows {SCHEMA}).",
            "Update the program.",
        )
    if schema < FIRST_SCHEMA:
        raise ProjectTooOld(
            f"{given} is of a version before 1.0 (schema {schema}), which this one cannot open.",
            f"Open it once with the program of commit {LAST_COMMIT_FOR_EARLIER_SCHEMAS}, which brings it up to date.",
        )
    if (foreign := foreign_object(conn, schema)) is not None:
        raise NotAProject(
            f"{given} has a {foreign.kind} `{foreign.name}` that no project of this program has; it would run what"
            " somebody else wrote.",
            "Do not trust the file; `workbench repair` saves what it holds without it.",
        )
    return schema


def _back_up(conn: sqlite3.Connection, real: str, schema: int) -> None:
    """Copies the file to `<name>.backup-<schema>`; a copy that is already there is kept and another name taken."""
    target = f"{real}.backup-{schema}"
    count = 1
    while os.path.exists(target):
        count += 1
        target = f"{real}.backup-{schema}-{count}"
    with translate_file_errors(real, target):
        copy_whole(conn, target)
