"""Opening, reading, writing and closing a project file.

A writer thread owns the only writing connection."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from engine.base.errors import (
    NameTaken,
    NotAProject,
    ProjectError,
    ProjectLinked,
    ProjectLocked,
    ProjectMissing,
    ProjectMoved,
    ProjectReadOnly,
    ProjectTooOld,
)
from engine.base.files import remove_leftovers
from engine.project import runs, settings
from engine.project.backups import back_up_before_upgrade, copy_whole, free_name
from engine.project.connections import Reader, Readers, connect, fold_log
from engine.project.failures import damaged, translate_file_errors, translate_sqlite_errors
from engine.project.file_lock import ProjectFile
from engine.project.schema import NOT_OURS_HINT, SCHEMA, check_schema, migrate
from engine.project.write_lock import WriteLock, check_readable, has_log

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


T = TypeVar("T")
"""The result of a write."""

_ERRORS_OF_DAMAGED_VALUES = (AttributeError, LookupError, TypeError, ValueError)
"""What code raises that got a value from a damaged file that no sound file has."""

_SQLITE_BEGINNING = b"SQLite format 3\0"
"""The first bytes of every database of SQLite."""

_NO_SIDE_FILES_CODES = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""What SQLite reports, among others, where it may not create the side files that a log needs."""


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
        """For `open`, which has locked and checked the file.

        Args:
            path: The project as the caller names it.
            real: The same without symbolic links.
            read_only: Why nothing can be written; None for a writable project.
            immutable: Whether SQLite is told that nobody writes the file, so that it needs no side files.
            file: Our own descriptor of the file.
            lock: Its write lock; None where nothing is written.
        """
        self.path = path
        self.read_only = read_only
        self.waits_for_writer = False
        self._hint = ""  # what to do about `read_only`
        self._real = real
        self._file = file
        self._pid = os.getpid()
        self._moved: ProjectMoved | None = None  # what another program did to the file
        self._immutable = immutable
        self._lock = lock
        self._readers = Readers(self._open_reading_connection)
        self._guard = threading.Lock()  # so that only the first `close` closes
        self._closed = False
        self._conn: sqlite3.Connection | None = None  # that of the writer
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
        name = os.fspath(path)
        real = os.path.realpath(name)
        remove_leftovers(Path(real).parent)
        with translate_file_errors(real):
            exists = _check_place(name, real, create and not read_only)
            if read_only:
                open_file = cls._open_upgraded if upgrade else cls._open_for_reading
                return open_file(name, real, _NotWritable("opened for reading only"))
            try:
                return cls._open_for_writing(name, real, create=not exists or create)
            except _NotWritable as reason:
                return cls._open_unwritable(name, real, reason, exists)

    @classmethod
    def _open_unwritable(cls, name: str, real: str, reason: _NotWritable, exists: bool) -> Project:
        """Opens for reading what cannot be written.

        Raises:
            ProjectLocked: Another process is just making the file, or brings it up to date.
            ProjectError: There is no file, and none can be made.
        """
        locked_error = ProjectLocked(
            f"{name} is being made or brought up to date: {reason}.",
            "Wait until that one has ended, then try again.",
        )
        if not exists:
            if reason.locked:
                raise locked_error from reason
            raise ProjectError(
                f"{name} cannot be created: {reason}.", "Choose a folder you can write to."
            ) from reason
        try:
            return cls._open_for_reading(name, real, reason)
        except (NotAProject, ProjectTooOld):
            if reason.locked:
                raise locked_error from reason
            raise

    @classmethod
    def _open_upgraded(cls, name: str, real: str, reason: _NotWritable) -> Project:
        """Opens for reading what is brought up to date first, where it is older and can be written."""
        with contextlib.suppress(ProjectTooOld):
            return cls._open_for_reading(name, real, reason)
        try:
            cls._open_for_writing(name, real, create=False).close()
        except _NotWritable as not_writable:
            reason = not_writable
        return cls._open_for_reading(name, real, reason)

    @classmethod
    def _open_for_writing(cls, name: str, real: str, *, create: bool) -> Project:
        """Locks the file and opens it.

        Raises:
            _NotWritable: It is locked or write-protected, or has a second name.
        """
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
            raise _missing(name)
        project = cls(name, real, read_only=None, immutable=False, file=lock.file, lock=lock)
        try:
            project._start(lock, create)
        except BaseException:
            project.close()
            raise
        return project

    def _start(self, lock: WriteLock, create: bool) -> None:
        """Connects to the locked file, brings it up to date and starts the writer."""
        _check_beginning(self.path, self._file)
        conn = connect(self._real, "rw")
        self._conn = conn
        schema = check_schema(self.path, conn, allow_empty=create)
        (mode,) = conn.execute("PRAGMA journal_mode").fetchone()
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        # deleted pages hold nothing secret here: nothing is ever deleted but index segments
        conn.execute("PRAGMA secure_delete = OFF")
        if 0 < schema < SCHEMA:
            back_up_before_upgrade(conn, self._real, schema)
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
    def _open_for_reading(cls, name: str, real: str, reason: _NotWritable) -> Project:
        """Opens a file that is not written by this project; `reason` is why."""
        for immutable in (False, True):
            file = ProjectFile(real, os.O_RDONLY)
            project = cls(
                name, real, read_only=str(reason), immutable=immutable, file=file, lock=None
            )
            project._hint, project.waits_for_writer = reason.hint, reason.locked
            try:
                _check_beginning(name, file)
                check_readable(real, file)
                schema = check_schema(name, project.reader(), allow_empty=False)
            except sqlite3.OperationalError as error:
                project.close()
                # without the right to create its side files SQLite cannot open a file in WAL mode
                if immutable or _primary_code(error) not in _NO_SIDE_FILES_CODES:
                    raise
            except BaseException:
                project.close()
                raise
            else:
                if schema < SCHEMA:
                    project.close()
                    raise ProjectTooOld(
                        f"{name} is of an older version and cannot be brought up to date: {reason}.",
                        "Open it once where it can be written, or copy it to such a place.",
                    )
                return project
        raise AssertionError("the last attempt returns or raises")

    def is_written(self) -> bool:
        """Returns whether a process has the project open for writing, so that its runs may be running."""
        return self._file.holder() is not None

    def is_replaced(self) -> bool:
        """Returns whether the file that is open is no longer the one of this name."""
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
        """Makes the project read-only from now on."""
        self._moved = moved
        self.read_only = f"{moved.cause} while it was open"
        if not moved.overwritten and self._writer is not None:
            # so that the file is whole under any name, without the log
            with contextlib.suppress(sqlite3.Error, RuntimeError):
                self._writer.submit(fold_log, transaction=False).result()

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
        """Returns this thread's read-only connection.

        It is closed with the project if its thread has ended by then or is the one that closes; a thread that
        lives on is better served by `reading`.

        Raises:
            ProjectError: the project is closed, or can no longer be opened.
        """
        reader = self._reader_of_this_thread()
        reader.handed_out = True
        return reader.conn

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields this thread's reader for the length of a block, with failures raised as ProjectError."""
        reader = self._reader_of_this_thread()
        with translate_sqlite_errors(self._real), reader.in_use:
            if self._closed:
                raise _closed()
            self._check_same_file()
            try:
                yield reader.conn
            except _ERRORS_OF_DAMAGED_VALUES as error:
                if (damage := _find_damage(reader.conn)) is not None:
                    raise damaged(self.path, damage) from error
                raise

    def _check_same_file(self) -> None:
        """Refuses to read where the log may be that of another file: nobody but a writer keeps others from the name."""
        if self._lock is None and self.is_replaced():
            raise ProjectMoved(
                f"{os.path.basename(self._real)} was moved, deleted or replaced", "Open it again."
            )

    def _check_process(self) -> None:
        """Refuses a fork of the process that opened the project, for it has none of its locks and threads."""
        if self._pid != os.getpid():
            raise ProjectError(
                f"{self.path} was opened by another process, of which this one is a fork.",
                "Open the project in the process that uses it, and start that with multiprocessing's method `spawn`.",
            )

    def _reader_of_this_thread(self) -> Reader:
        """Returns the reader of this thread, a new one where it has none."""
        self._check_process()
        if self._closed:
            raise _closed()
        return self._readers.of_this_thread()

    def _open_reading_connection(self) -> sqlite3.Connection:
        """Opens a connection that only reads, also to a file that was moved meanwhile."""
        self._check_same_file()
        real, immutable = self._real, self._immutable
        if self._moved is not None and self.is_replaced():
            # the path would lead to another file, or to none
            real, immutable = self._moved_to(self._moved), True
        with translate_file_errors(real):
            conn = connect(real, "ro", immutable=immutable)
            conn.execute("PRAGMA query_only = ON")
        return conn

    def _moved_to(self, moved: ProjectMoved) -> str:
        """Returns where the file is that was moved, if all is in it.

        It stays as it is until the project is closed, since nobody else can get its lock.

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
        self._readers.close()
        ended = self._writer is None or self._writer.close(timeout)
        if ended and self._conn is not None:
            self._close_writer(self._conn)
        if self._lock is None:
            self._file.close()
        elif ended:
            self._lock.release()

    def _close_writer(self, conn: sqlite3.Connection) -> None:
        """Closes the writer's connection once its thread has ended."""
        if self._lock is not None and self._writer is not None:
            try:
                self._lock.check()
            except ProjectMoved as moved:
                if moved.overwritten:
                    _leave_log_out(conn, self._real)
                    return
        # after a full disk the log cannot be folded in; the next open does it
        with contextlib.suppress(sqlite3.Error):
            fold_log(conn)
        conn.close()
        if self.is_replaced() and not has_log(self._real):
            for suffix in ("-wal", "-shm"):  # empty, and of a name that nobody else may use yet
                with contextlib.suppress(OSError):
                    os.unlink(self._real + suffix)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _find_damage(conn: sqlite3.Connection) -> str | None:
    """Returns what SQLite finds wrong in the file, such as a missing value where there must be one; None if nothing."""
    (answer,) = conn.execute("PRAGMA quick_check(1)").fetchone()
    return None if answer == "ok" else str(answer)


def _primary_code(error: sqlite3.Error) -> int:
    """Returns the code of an error of SQLite without its details, which are in the higher bits."""
    return error.sqlite_errorcode & 0xFF


def _closed() -> ProjectError:
    """Returns the error for what is asked of a closed project."""
    return ProjectError("The project is closed.")


def _leave_log_out(conn: sqlite3.Connection, real: str) -> None:
    """Closes the writer of a file that was overwritten, and renames its log, which would destroy what is there now."""
    # SQLite writes the log into the file when its last connection is closed, unless that can only read
    with contextlib.closing(connect(real, "ro")) as reader:
        with contextlib.suppress(sqlite3.Error):
            reader.execute("PRAGMA schema_version").fetchone()
        conn.close()
        with contextlib.suppress(OSError):
            os.rename(real + "-wal", free_name(f"{real}.overwritten-wal"))


class _NotWritable(Exception):
    """A project can only be read.

    Args:
        why: The reason, in words.
        hint: What to do about it; empty where there is nothing special to do.
        locked: Whether another process writes it.
    """

    def __init__(self, why: str, hint: str = "", *, locked: bool = False) -> None:
        super().__init__(why)
        self.hint, self.locked = hint, locked


def _missing(name: str) -> ProjectMissing:
    """Returns the error for a project that is not there."""
    return ProjectMissing(
        f"There is no project {name}.", "Make one with `workbench import PROJECT PATH...`."
    )


def _check_place(name: str, real: str, create: bool) -> bool:
    """Returns whether there is a file to open.

    Raises:
        ProjectError: There cannot be a project, or there is none and none is to be made.
    """
    if os.path.isdir(real):
        raise NotAProject(f"{name} is a folder.", "Name a file in it, for example project.wb.")
    if os.path.exists(real) and stat.S_ISFIFO(
        os.stat(real).st_mode
    ):  # opening it would wait for a writer
        raise NotAProject(f"{name} is a pipe.", "Name a file, for example project.wb.")
    if not os.path.exists(real):
        folder = os.path.dirname(real)
        if not os.path.isdir(folder):
            raise ProjectError(f"{name}: there is no folder {folder}.", "Create the folder first.")
        if not create:
            raise _missing(name)
        return False
    return True


def _check_beginning(name: str, file: ProjectFile) -> None:
    """Checks that a file is empty or a database of SQLite."""
    beginning = os.pread(file.fd, len(_SQLITE_BEGINNING), 0)
    if beginning and beginning != _SQLITE_BEGINNING:
        raise NotAProject(f"{name} is not a project file.", NOT_OURS_HINT)
