"""Opens, reads, writes and closes a project file.

A writer thread owns the only writing connection; each other thread reads through a connection of its own. SQLite writes
into its *log* (the file `-wal`) first. A project that another program *moved* was renamed, deleted, replaced or
overwritten while it was open here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, Self

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
from engine.base.files import (
    SQLITE_BEGINNING,
    refuse_side_file,
    remove_leftovers,
    remove_new_project,
)
from engine.project import connections, runs, settings
from engine.project.backups import back_up_before_upgrade, copy_whole, free_name
from engine.project.file_lock import ProjectFile
from engine.project.schema import NOT_OURS_HINT, SCHEMA, check_schema, migrate
from engine.project.write_lock import WriteLock, check_readable, has_log
from engine.project.writer import T, Writer

P = ParamSpec("P")

_ERRORS_OF_DAMAGED_VALUES = (AttributeError, LookupError, TypeError, ValueError)
"""Errors that code raises when it reads a value that only a damaged file has."""

_NO_SIDE_FILES_CODES = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""Error codes of SQLite where it may not create the side files that a log needs."""


class Project:
    """An open project file. `write` and `reader` may be used from any thread, and in no process but the one that
    opened it.

    Attributes:
        path: The path as the caller gave it.
        read_only: Why nothing can be written, a few words; None for a writable project. A project that another program
            moves or changes becomes read-only at the next write.
        waits_for_writer: Whether the project is read-only because another process writes it.
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
        """Makes a project whose file `open` has locked and checked.

        Args:
            path: Path of the project as the caller gave it.
            real: The same path without symbolic links.
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
        self._readers = connections.Readers(self._open_reading_connection)
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

        A project that another process writes, or that the system does not let us write, opens read-only, and
        `read_only` says why. An older file is copied beside itself and then migrated. Runs that an earlier
        process left running are marked as interrupted.

        Args:
            create: Whether a new project is made where there is none.
            read_only: Whether nothing is written even where it could be.
            upgrade: With `read_only`, whether an older file is still migrated, since it cannot be read as it is.

        Raises:
            ProjectError: There is no file, it is no project or a newer one, it is damaged, there is no permission, or
                the disk is full.
        """
        name = os.fspath(path)
        real = os.path.realpath(name)
        remove_leftovers(Path(real).parent)
        with connections.translate_file_errors(real):
            exists = _check_path(name, real, create and not read_only)
            if read_only:
                open_file = cls._open_upgraded if upgrade else cls._open_for_reading
                return open_file(name, real, _NotWritable("opened for reading only"))
            try:
                return cls._open_for_writing(name, real, create=create)
            except _NotWritable as reason:
                return cls._open_unwritable(name, real, reason, exists)

    @classmethod
    def _open_unwritable(cls, name: str, real: str, reason: _NotWritable, exists: bool) -> Project:
        """Opens a project that cannot be written for reading; `reason` says why it cannot.

        Raises:
            ProjectLocked: Another process is just making the file or migrating it.
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
        """Opens a project for reading, after migrating it where it is older and can be written."""
        with contextlib.suppress(ProjectTooOld):
            return cls._open_for_reading(name, real, reason)
        try:
            cls._open_for_writing(name, real, create=False).close()
        except _NotWritable as not_writable:
            reason = not_writable
        return cls._open_for_reading(name, real, reason)

    @classmethod
    def _open_for_writing(cls, name: str, real: str, *, create: bool) -> Project:
        """Locks the file and opens it for writing; a new one that cannot be opened, as on a full disk, is removed.

        Raises:
            _NotWritable: The file is locked or write-protected, or has a second name.
        """
        is_there = os.path.exists(real)
        if is_there and not os.access(real, os.W_OK):
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
        is_new = not is_there and os.fstat(lock.file.fd).st_size == 0  # nobody made it meanwhile
        project = cls(name, real, read_only=None, immutable=False, file=lock.file, lock=lock)
        try:
            project._start(lock, create)
        except BaseException:
            if is_new:
                remove_new_project(real)
            project.close()
            raise
        return project

    def _start(self, lock: WriteLock, create: bool) -> None:
        """Connects to the locked file, makes or migrates its tables, and starts the writer."""
        _check_beginning(self.path, self._file)
        conn = connections.connect(self._real, "rw")
        self._conn = conn
        schema = check_schema(self.path, conn, allow_empty=create)
        (mode,) = conn.execute("PRAGMA journal_mode").fetchone()
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        # deleted pages need no wiping: the file has all conversations in plain text anyway
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
        """Opens a file that this process does not write; `reason` says why not. Raises as `_connect_to_read` does."""
        try:
            return cls._connect_to_read(name, real, reason, immutable=False)
        except sqlite3.OperationalError as error:
            # Without the right, or the room, to create its side files SQLite cannot open a file in WAL mode. A log
            # that is there already would be left unread.
            has_no_right = connections.primary_code(error) in _NO_SIDE_FILES_CODES
            has_no_room = connections.lacks_space(error, Path(real).parent)
            if not (has_no_right or (has_no_room and not has_log(real))):
                raise
        return cls._connect_to_read(name, real, reason, immutable=True)

    @classmethod
    def _connect_to_read(
        cls, name: str, real: str, reason: _NotWritable, *, immutable: bool
    ) -> Project:
        """Opens a file for reading; `immutable` tells SQLite that nobody writes it, so that it needs no side files.

        Raises:
            ProjectTooOld: The file is of an older version, which only a writer can bring up to date.
            ProjectError: The file is no project that can be read.
            sqlite3.OperationalError: SQLite cannot open the file.
        """
        file = ProjectFile(real, os.O_RDONLY)
        project = cls(name, real, read_only=str(reason), immutable=immutable, file=file, lock=None)
        project._hint, project.waits_for_writer = reason.hint, reason.locked
        try:
            _check_beginning(name, file)
            check_readable(real, file)
            conn = project._reader_of_this_thread().conn
            if check_schema(name, conn, allow_empty=False) < SCHEMA:
                raise ProjectTooOld(
                    f"{name} is of an older version and cannot be brought up to date: {reason}.",
                    "Open it once where it can be written, or copy it to such a place.",
                )
        except BaseException:
            project.close()
            raise
        return project

    def is_written(self) -> bool:
        """Returns whether a process has the project open for writing; only then can its runs be running."""
        return self._file.holder() is not None

    def is_replaced(self) -> bool:
        """Returns whether another file, or none, is now at the path of the open file."""
        return not self._file.is_at(self._real)

    def write(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `fn` on the writer's thread in one transaction and returns its result once that is committed.

        When `fn` raises, nothing is stored and the error is raised here.

        Raises:
            ProjectReadOnly: The project is open read-only.
            ProjectMoved: Another program moved or changed the file; it has what was stored before.
            ProjectError: The disk is full, or the file is damaged or closed.
        """
        self._check_process()
        if self._moved is not None:
            raise self._moved
        if self.read_only is not None:
            raise ProjectReadOnly(
                f"The project is read-only: {self.read_only}.",
                self._hint or "Close the other one, or work on a copy that you can write.",
            )
        with connections.translate_file_errors(self._real):
            if self._writer is None or self._closed:
                raise _closed()
            try:
                return self._writer.submit(fn).result()
            except ProjectMoved as moved:
                self._stop_writing(moved)
                raise

    def check(self) -> None:
        """Checks, as each write does, that no other program moved or changed a file that is open for writing.

        Raises:
            ProjectMoved: Another program did; nothing more is written from now on.
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
        """Makes the project read-only; `moved` says what another program did to the file."""
        self._moved = moved
        self.read_only = f"{moved.cause} while it was open"
        if not moved.overwritten and self._writer is not None:
            # so that the file is whole under any name, without the log
            with contextlib.suppress(sqlite3.Error, RuntimeError):
                self._writer.submit(connections.fold_log, transaction=False).result()

    def save_copy(self, target: str) -> None:
        """Writes the whole content of the project to a new file, even after the project's own file was deleted.

        Raises:
            NameTaken: There is a file at `target` already.
            ProjectReadOnly: The project was opened read-only.
            ProjectError: The content was overwritten, the project is closed, or the disk is full.
        """
        if self._moved is not None and self._moved.overwritten:
            raise self._moved
        if os.path.lexists(target):
            raise NameTaken(f"{target} is there already.", "Choose another name.")
        with connections.translate_file_errors(target):
            if self._closed:
                raise _closed()
            if self._writer is None:
                raise ProjectReadOnly(
                    f"Only who writes a project saves it as a new file, and this one is read-only: {self.read_only}.",
                    f"Copy it by `workbench backup {os.path.basename(self._real)}`.",
                )
            self._writer.submit(lambda conn: copy_whole(conn, target), transaction=False).result()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields this thread's read-only connection for a block, whose failures are raised as ProjectError."""
        reader = self._reader_of_this_thread()
        with connections.translate_sqlite_errors(self._real), reader.in_use:
            if self._closed:
                raise _closed()
            self._check_same_file()
            try:
                yield reader.conn
            except _ERRORS_OF_DAMAGED_VALUES as error:
                if (damage := connections.find_damage(reader.conn)) is not None:
                    raise connections.damaged(self.path, damage) from error
                raise

    def read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **options: P.kwargs,
    ) -> T:
        """Returns what a function returns that reads with a connection, its first parameter; raises as `reading`."""
        with self.reading() as conn:
            return function(conn, *args, **options)

    def _check_same_file(self) -> None:
        """Raises ProjectMoved where another file has the name of one that is only read.

        The log beside it may then belong to that other file: only a writer's lock keeps others from the name.
        """
        if self._lock is None and self.is_replaced():
            raise ProjectMoved(
                f"{os.path.basename(self._real)} was moved, deleted or replaced", "Open it again."
            )

    def _check_process(self) -> None:
        """Raises ProjectError in a fork of the process that opened the project; a fork has no locks and threads."""
        if self._pid != os.getpid():
            raise ProjectError(
                f"{self.path} was opened by another process, of which this one is a fork.",
                "Open the project in the process that uses it, and start that with multiprocessing's method `spawn`.",
            )

    def _reader_of_this_thread(self) -> connections.Reader:
        """Returns the reader of this thread; makes one where it has none."""
        self._check_process()
        if self._closed:
            raise _closed()
        return self._readers.of_this_thread()

    def _open_reading_connection(self) -> sqlite3.Connection:
        """Opens a connection that only reads, to the file where it is now."""
        self._check_same_file()
        real, immutable = self._real, self._immutable
        if self._moved is not None and self.is_replaced():
            # the path would lead to another file, or to none
            real, immutable = self._moved_to(self._moved), True
        with connections.translate_file_errors(real):
            conn = connections.connect(real, "ro", immutable=immutable)
            conn.execute("PRAGMA query_only = ON")
        return conn

    def _moved_to(self, moved: ProjectMoved) -> str:
        """Returns the path of a file that was moved and has the whole content.

        The file stays unchanged until the project is closed, since nobody else can get its lock.

        Raises:
            ProjectMoved: The path is not known, or a part of the content is only in the log.
        """
        where = moved.where
        if where is None or not self._file.is_at(where) or has_log(self._real) or has_log(where):
            raise moved
        return where

    def close(self, timeout: float = 5.0) -> None:
        """Finishes the writes that run, folds the log into the file and releases the lock; may be called twice.

        Args:
            timeout: Seconds to wait for writes; after that they are interrupted and undone.
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
        # on a full disk the log cannot be folded; the next open does it
        with contextlib.suppress(sqlite3.Error):
            connections.fold_log(conn)
        conn.close()
        if self.is_replaced() and not has_log(self._real):
            for suffix in ("-wal", "-shm"):  # empty, and of a name that nobody else may use yet
                with contextlib.suppress(OSError):
                    os.unlink(self._real + suffix)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _closed() -> ProjectError:
    """Returns the error for the use of a closed project."""
    return ProjectError("The project is closed.")


def _leave_log_out(conn: sqlite3.Connection, real: str) -> None:
    """Closes the connection to a file that was overwritten; renames the log, which would destroy the new content."""
    # SQLite writes the log into the file when its last connection is closed, unless that can only read
    with contextlib.closing(connections.connect(real, "ro")) as reader:
        with contextlib.suppress(sqlite3.Error):
            reader.execute("PRAGMA schema_version").fetchone()
        conn.close()
        with contextlib.suppress(OSError):
            os.rename(real + "-wal", free_name(f"{real}.overwritten-wal"))


class _NotWritable(Exception):
    """Raised where a project can only be read.

    Attributes:
        hint: What to do about that; empty where there is nothing special to do.
        locked: Whether another process writes the project.
    """

    def __init__(self, reason: str, hint: str = "", *, locked: bool = False) -> None:
        """`reason` says in words why nothing can be written."""
        super().__init__(reason)
        self.hint, self.locked = hint, locked


def _missing(name: str) -> ProjectMissing:
    """Returns the error for a project that is not there."""
    return ProjectMissing(
        f"There is no project {name}.", "Make one with `workbench import PROJECT PATH...`."
    )


def _check_path(name: str, real: str, create: bool) -> bool:
    """Returns whether there is a file to open.

    Args:
        name, real: See `Project.__init__`.
        create: Whether a new project may be made.

    Raises:
        ProjectError: There cannot be a project, or there is none and none may be made.
    """
    if os.path.isdir(real):
        raise NotAProject(f"{name} is a folder.", "Name a file in it, for example project.wb.")
    if os.path.exists(real):
        if stat.S_ISFIFO(os.stat(real).st_mode):  # opening a pipe would wait for a writer
            raise NotAProject(f"{name} is a pipe.", "Name a file, for example project.wb.")
        return True
    folder = os.path.dirname(real)
    if not os.path.isdir(folder):
        raise ProjectError(f"{name}: there is no folder {folder}.", "Create the folder first.")
    if not create:
        raise _missing(name)
    refuse_side_file(real)
    return False


def _check_beginning(name: str, file: ProjectFile) -> None:
    """Raises NotAProject unless a file is empty or a database of SQLite."""
    beginning = os.pread(file.fd, len(SQLITE_BEGINNING), 0)
    if beginning and beginning != SQLITE_BEGINNING:
        raise NotAProject(f"{name} is not a project file.", NOT_OURS_HINT)
