"""The write lock of a project, which the system releases when the process ends. It has two parts.

- The *name* of the project is locked by an flock on the *lock file* `<project>.lock`. SQLite names its log
  (`<project>-wal`) after the project, so no other file may take this name while there is a log. The lock file says who
  holds the lock, and to which file the log belongs; it stays as long as a log with content stays.
  Its content is a JSON object, here called `owner`: `pid` and `host` of the process, `time` of the locking, `lock` and
  `file`, the inodes of the lock file and of the project, and `sample`, a digest of the content of the project.
- The project *file* is locked too, under whatever name it is opened (`engine.project.file_lock`).

Not covered: network file systems that ignore locks; SQLite's own locking does not work there either.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path

from engine.base.errors import ProjectError, ProjectLinked, ProjectLocked, ProjectMoved
from engine.base.files import sync
from engine.project.file_lock import ProjectFile
from engine.project.sql import utc_now

DEAD_HOLDER_SECONDS = 2.0
"""How long to wait for a lock whose holder is dead: a child process that it was starting holds the lock for a
moment."""

_RETRY_SECONDS = 0.02
"""How long to wait before the next try to get a lock whose holder is dead."""

_OWNER_SECONDS = 0.002
"""How long to wait before the lock file is read once more, because its holder may be about to write it."""

_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
"""Lengths of the header of SQLite's log and of the header of each frame; a *frame* is a header and a page."""

_PAGE_BYTES_IN_HEADER = slice(8, 12)
"""Place of the length of a page, in bytes and big-endian, in the header of the log."""

_MAX_OWNER_BYTES = 1000
"""Most bytes of a lock file that are read; its content is far shorter."""

_ATTEMPTS = 50
"""Number of attempts to lock or read what another process may be changing at the same time."""


# Holding the lock


class WriteLock:
    """The write lock of one project: of its name and, if the file exists, of the file.

    Attributes:
        file: The project file, from `acquire` to `release`; None where there is none.
    """

    def __init__(self, project_path: str) -> None:
        """Locks nothing; `acquire` does."""
        self._project = project_path
        self._path = project_path + ".lock"
        self._fd: int | None = None  # descriptor of the lock file while it is locked
        self._owner: dict[str, object] = {}  # content of the lock file; see the module docstring
        # the project file after our last write
        self._size_and_time = (0, 0)  # length in bytes, and time of the last change in nanoseconds
        self._sample = b""  # digest of the content, see `ProjectFile.sample`
        self.file: ProjectFile | None = None

    def acquire(self, *, create: bool = False) -> None:
        """Takes the lock at once, or within `DEAD_HOLDER_SECONDS` if its holder has just died.

        Args:
            create: Whether an empty project file is made where there is none.

        Raises:
            ProjectLocked: Another process, or another part of this process, holds the lock.
            ProjectLinked: The file has a second name.
            ProjectError: The log beside the file belongs to another file.
            OSError: The lock file or the file cannot be opened or locked.
        """
        deadline = time.monotonic() + DEAD_HOLDER_SECONDS
        self._lock_name(deadline)
        try:
            self._lock_file(deadline, create)
            self._note_owner()
        except BaseException:
            self.release()
            raise

    def _note_owner(self) -> None:
        """Notes that this process holds the lock, in the lock file too."""
        assert self._fd is not None
        self._owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "time": utc_now(),
            "lock": os.fstat(self._fd).st_ino,
        }
        if self.file is None:
            self._write_owner()
            return
        status = os.fstat(self.file.fd)
        self._owner["file"] = status.st_ino
        with contextlib.suppress(OSError):
            # everyone who may read the project may read who writes it
            os.fchmod(self._fd, status.st_mode & 0o666)
        self.note_write()

    def _write_owner(self) -> None:
        """Writes who holds the lock into the lock file."""
        assert self._fd is not None
        text = json.dumps(self._owner).encode()
        # on a full disk the lock works without the name of its holder
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))

    def _lock_name(self, deadline: float) -> None:
        """Locks the lock file.

        Args:
            deadline: When to stop waiting for a dead holder, in seconds of the monotonic clock.

        Raises:
            ProjectLocked: Another process holds the lock.
        """
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder, is_dead = _describe_owner(_parse_owner(fd))
                os.close(fd)
                if is_dead and time.monotonic() < deadline:
                    time.sleep(_RETRY_SECONDS)
                    continue
                raise ProjectLocked(f"{holder} is writing it") from None
            except OSError:
                os.close(fd)
                raise
            if self._is_current(fd):
                break
            os.close(fd)  # its former holder removed the file between our open and our flock
        self._fd = fd

    def _lock_file(self, deadline: float, create: bool) -> None:
        """Opens and locks the project file, if there is one; `deadline` is as in `_lock_name`.

        Raises:
            ProjectLocked: Another process holds the lock of the file.
            ProjectLinked: The file has a second name.
            ProjectError: The file system cannot exclude a second writer, or a log of another file lies beside the file.
        """
        if not os.path.lexists(self._project) and has_log(self._project):
            raise _log_of_another(self._project)
        for _ in range(_ATTEMPTS):
            try:
                file = ProjectFile(self._project, os.O_RDWR | (os.O_CREAT if create else 0))
            except FileNotFoundError:
                return
            try:
                _wait_for_file(file, deadline)
                if file.is_at(self._project):
                    self._check_locked(file)
                    self.file = file
                    return
                file.close()  # another file was put in its place meanwhile
            except BaseException:
                file.close()
                raise
        raise ProjectError(
            f"The file system gives {os.path.basename(self._project)} a new number (inode) at every look, so that a"
            " second writer could not be kept out.",
            "Keep projects on a local disk.",
        )

    def _check_locked(self, file: ProjectFile) -> None:
        """Checks that the log beside a locked file belongs to it, and that the file has no second name.

        Raises:
            ProjectLinked: The file has a second name.
            ProjectError: The log belongs to another file.
        """
        assert self._fd is not None
        inode, owner = os.fstat(file.fd).st_ino, _parse_owner(self._fd)
        # a lock file that names no file does not say that the log belongs to another one
        is_same = owner.get("file", inode) == inode or _is_copy(file, owner)
        if has_log(self._project) and not is_same:
            raise _log_of_another(self._project)
        if os.fstat(file.fd).st_nlink > 1:
            name = os.path.basename(self._project)
            raise ProjectLinked(
                f"{name} has a second name (a hard link): writing by two names would destroy it",
                f"Remove the other name, or give this one a file of its own: cp {name} new.wb.",
            )

    def check(self) -> None:
        """Checks that the file has its name and no other, and that no other program has changed it.

        Raises:
            ProjectMoved: One of these is not so; the message says which, for a person.
        """
        if self.file is None:
            return
        status = os.fstat(self.file.fd)
        try:
            status_of_name = os.stat(self._project)
        except OSError:
            raise self._moved_error("moved or deleted") from None
        if not os.path.samestat(status, status_of_name):
            raise self._moved_error("replaced by another file")
        if status.st_nlink > 1:
            raise ProjectMoved(
                f"{os.path.basename(self._project)} was given a second name (a hard link)",
                "Remove the other name, then open it again; what was stored is in the file.",
            )
        if (status.st_size, status.st_mtime_ns) != self._size_and_time:
            if self.file.sample() != self._sample:
                raise _overwritten(self._project)
            self._size_and_time = status.st_size, status.st_mtime_ns  # only the time was changed

    def _moved_error(self, happened: str) -> ProjectMoved:
        """Returns the error for a file that is no longer at its path; it says where the file is now.

        Args:
            happened: What happened to the file as far as can be told, a participle; said where its place is not known.
        """
        assert self.file is not None
        name, where = os.path.basename(self._project), _present_path(self.file.fd)
        if where is None:
            hint = "Save it as a new file where its screens are open; else see `workbench restore` for backups."
            return ProjectMoved(f"{name} was {happened}", hint)
        in_same_folder = os.path.dirname(where) == os.path.dirname(self._project)
        return ProjectMoved(
            f"{name} was moved to {os.path.basename(where) if in_same_folder else where}",
            f"What was stored is in {where}: open that.",
            where=where,
        )

    def note_write(self, frames: int = 0) -> None:
        """Notes the size, time and sample of the file after the holder of this lock wrote it.

        Args:
            frames: Number of the first frames of SQLite's log that were written into the file.

        Raises:
            ProjectMoved: The file does not have the pages of these frames: another program wrote into it meanwhile.
        """
        if self.file is None:
            return
        sample, status = self.file.sample(), os.fstat(self.file.fd)
        # after the time was read, so that `check` notices what others write from now on
        self._check_log_written(frames)
        self._size_and_time = status.st_size, status.st_mtime_ns
        if sample != self._sample:
            self._sample = sample
            self._owner["sample"] = sample.hex()
            self._write_owner()

    def _check_log_written(self, frames: int) -> None:
        """Compares the file with the first frames of its log; see https://www.sqlite.org/fileformat2.html#walformat.

        Raises:
            ProjectMoved: A page in the file is not the one in the log.
        """
        if not frames:
            return
        assert self.file is not None
        with open(self._project + "-wal", "rb") as log:
            page_bytes = int.from_bytes(log.read(_LOG_HEADER_BYTES)[_PAGE_BYTES_IN_HEADER], "big")
            frame_bytes = _FRAME_HEADER_BYTES + page_bytes
            offset_of_page = {}  # in the log, by the number of the page, which counts from 1
            for index in range(frames):
                frame = _LOG_HEADER_BYTES + index * frame_bytes
                page_number = int.from_bytes(os.pread(log.fileno(), 4, frame), "big")
                # of several versions of a page the last one counts
                offset_of_page[page_number] = frame + _FRAME_HEADER_BYTES
            for page_number, offset in offset_of_page.items():
                page = os.pread(self.file.fd, page_bytes, (page_number - 1) * page_bytes)
                if page != os.pread(log.fileno(), page_bytes, offset):
                    raise _overwritten(self._project)

    def sync_log(self) -> None:
        """Waits until SQLite's log is on the disk."""
        sync(Path(self._project + "-wal"))

    def log_size(self) -> int:
        """Returns the length of SQLite's log in bytes; 0 without a log."""
        return _log_size(self._project)

    def release(self) -> None:
        """Releases the lock, and removes the lock file unless there is a log; may be called twice."""
        if self.file is not None:
            self.file.close()
            self.file = None
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            if self._is_current(self._fd) and not has_log(self._project):
                os.unlink(self._path)
        os.close(self._fd)
        self._fd = None

    def _is_current(self, fd: int) -> bool:
        """Returns whether an open lock file is still the one at its path."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._path))
        except FileNotFoundError:
            return False


def _wait_for_file(file: ProjectFile, deadline: float) -> None:
    """Locks a project file; waits until `deadline` for a dead holder.

    Raises:
        ProjectLocked: Another process holds the lock.
    """
    while not file.lock():
        pid = file.holder()
        if pid or time.monotonic() > deadline:  # 0: unknown, perhaps dead
            raise ProjectLocked(f"{_process_name(pid or 0)} has it open under another name")
        time.sleep(_RETRY_SECONDS)


def _present_path(fd: int) -> str | None:
    """Returns the present path of an open file; None where the system does not tell it."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
        return path if os.path.samestat(os.stat(path), os.fstat(fd)) else None
    except OSError:
        return None


# Reading a project that is not locked here


def check_log(project_path: str) -> None:
    """Checks a project that this process does not have open; see `check_readable`."""
    with contextlib.closing(ProjectFile(project_path, os.O_RDONLY)) as file:
        check_readable(project_path, file)


def check_readable(project_path: str, file: ProjectFile) -> None:
    """Checks that the log with which SQLite would read a project belongs to it.

    Raises:
        ProjectLocked: The file is being written under another name, or was replaced while it is open elsewhere.
        ProjectError: The log beside the file belongs to another file.
    """
    inode = os.fstat(file.fd).st_ino
    for _ in range(_ATTEMPTS):
        holder = file.holder()
        owner = _read_owner(project_path + ".lock")
        # a lock file that names no file says nothing against the log, unless its holder is about to write it
        is_unowned = holder is None and "file" not in owner
        if is_unowned or owner.get("file") == inode:
            return
        if holder is None:
            break
        time.sleep(_OWNER_SECONDS)
    name = os.path.basename(project_path)
    if holder is not None:
        raise ProjectLocked(
            f"{name} is open under another name: {_process_name(holder)} is writing it.",
            "Quit that one first; everything is in the file then.",
        )
    _check_former_owner(project_path, file, owner)


def _check_former_owner(project_path: str, file: ProjectFile, owner: dict[str, object]) -> None:
    """Checks a project file that nobody holds and whose lock file names another file.

    Raises:
        ProjectLocked: The process that the lock file names still has that other file open.
        ProjectError: The log beside the file belongs to that other file.
    """
    name_of_owner, is_dead = _describe_owner(owner)
    if (is_dead or _was_copied(project_path + ".lock", owner)) and _is_copy(file, owner):
        return
    if not is_dead:
        raise ProjectLocked(
            f"{os.path.basename(project_path)} was put in the place of a project that {name_of_owner} still has open.",
            "Quit that one first.",
        )
    if has_log(project_path):
        raise _log_of_another(project_path)
    # without a log there is nothing that could be taken for a part of the file


def _is_copy(file: ProjectFile, owner: dict[str, object]) -> bool:
    """Returns whether a file has the content, as far as samples tell, of the file that a lock file names."""
    return owner.get("sample") == file.sample().hex()


def _was_copied(lock_path: str, owner: dict[str, object]) -> bool:
    """Returns whether a lock file is a copy; the process that it names then has the original open, if any."""
    try:
        return owner.get("lock") != os.stat(lock_path).st_ino
    except OSError:
        return False


# SQLite's log


def has_log(project_path: str) -> bool:
    """Returns whether there is a log with content beside a project."""
    return _log_size(project_path) > 0


def _log_size(project_path: str) -> int:
    """Returns the length of the log beside a project in bytes; 0 without a log."""
    try:
        return os.path.getsize(project_path + "-wal")
    except OSError:
        return 0


def _log_of_another(path: str) -> ProjectError:
    """Returns the error for a log beside a project that belongs to another file."""
    name = os.path.basename(path)
    return ProjectError(
        f"{name}-wal has changes of another file, which was moved away or replaced while it was open.",
        f"Move that file back to {name} and open it once. Otherwise copy {name}, {name}-wal and {name}.lock to another"
        f" folder first: what is in the log is nowhere else. Then remove {name}-wal and {name}.lock here.",
    )


def _overwritten(path: str) -> ProjectMoved:
    """Returns the error for a project whose content another program changed."""
    name = os.path.basename(path)
    return ProjectMoved(
        f"{name} was overwritten by another program",
        f"Open it again to see what is there now; `workbench restore {name}` lists backups.",
        overwritten=True,
    )


# Who holds a lock


def _read_owner(lock_path: str) -> dict[str, object]:
    """Returns the content of a lock file; empty without a lock file."""
    try:
        with open(lock_path, "rb") as file:
            return _parse_owner(file.fileno())
    except OSError:
        return {}


def _parse_owner(fd: int) -> dict[str, object]:
    """Returns the content of an open lock file; empty where it is no JSON object."""
    try:
        owner = json.loads(os.pread(fd, _MAX_OWNER_BYTES, 0))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _describe_owner(owner: dict[str, object]) -> tuple[str, bool]:
    """Returns who holds a lock, in words, and whether it is a process of this machine that has ended."""
    try:
        pid, is_here = int(str(owner["pid"])), owner["host"] == socket.gethostname()
        host = "" if is_here else f" on {owner['host']}"
        return _process_name(pid, host), is_here and not is_running(pid)
    except (OverflowError, ValueError, KeyError):
        return _process_name(0), False


def _process_name(pid: int, host: str = "") -> str:
    """Returns what a message calls a process.

    Args:
        pid: Its id; 0 where it is not known.
        host: " on " and the name of its machine; empty for this one.
    """
    return f"another workbench (pid {pid}{host})" if pid else "another workbench"


def is_running(pid: int) -> bool:
    """Returns whether a process with this id runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process is that of another user
        pass
    return True
