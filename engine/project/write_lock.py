"""The write lock of a project, which the system releases when the process ends. It has two parts.

- The *name* is locked by an flock on `<project>.lock`: SQLite names its log (`<project>-wal`) after the project, so no
  other file may come under this name while a log is there. The lock file says who holds it, and of which file the log
  is; it stays as long as a log with content stays.
  What it says is a JSON object, here called `owner`: `pid` and `host` of the process, `time` of the locking, `lock` and
  `file`, the inodes of the lock file and of the project, and `sample`, a digest of the project's content.
- The *file* is locked too, under whatever name it is opened (`engine.project.file_lock`).

Not covered: network file systems that ignore locks; SQLite's own locking does not work there either.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time

from engine.base.errors import ProjectError, ProjectLinked, ProjectLocked, ProjectMoved
from engine.project.file_lock import ProjectFile
from engine.project.sql import utc_now

DEAD_HOLDER_SECONDS = 2.0
"""How long to wait for a lock whose holder is dead: a child that it was starting holds the lock until it has begun."""

_RETRY_SECONDS = 0.02
"""How long to wait before the next try to get a lock whose holder is dead."""

_OWNER_SECONDS = 0.002
"""How long to wait before the lock file is read again, whose holder may be about to write it."""

_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
"""Lengths of the header of SQLite's log, and of that of each frame in it; a *frame* is a header and a page."""

_PAGE_BYTES_IN_HEADER = slice(8, 12)
"""Where the header of the log has the length of a page in bytes, big-endian."""

_ATTEMPTS = 50
"""Number of times that something is looked at that another process may be changing just now."""


class WriteLock:
    """The write lock of one project: of its name and, where it is there, of its file.

    Attributes:
        file: The file, from `acquire` to `release`; None where there is none.
    """

    def __init__(self, project_path: str) -> None:
        """Takes nothing yet; see `acquire`."""
        self._project = project_path
        self._path = project_path + ".lock"
        self._fd: int | None = None  # descriptor of the lock file while it is locked
        self._owner: dict[str, object] = {}  # what the lock file says; see the module docstring
        # the project file as it was after our last write
        self._size_and_time = (0, 0)  # length in bytes, and time of the last change in nanoseconds
        self._sample = b""  # digest of its content, see `ProjectFile.sample`
        self.file: ProjectFile | None = None

    def acquire(self, *, create: bool = False) -> None:
        """Takes the lock at once, or within `DEAD_HOLDER_SECONDS` from a holder that has just died.

        Args:
            create: Make an empty file where there is none.

        Raises:
            ProjectLocked: Another process, or another part of this one, holds it.
            ProjectLinked: The file has a second name.
            ProjectError: The log beside it belongs to another file.
            OSError: The lock file or the file cannot be opened or locked.
        """
        deadline = time.monotonic() + DEAD_HOLDER_SECONDS
        self._lock_name(deadline)
        try:
            self._lock_file(deadline, create)
        except BaseException:
            self.release()
            raise
        assert self._fd is not None
        self._owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "time": utc_now(),
            "lock": os.fstat(self._fd).st_ino,
        }
        if self.file is not None:
            status = os.fstat(self.file.fd)
            self._owner["file"] = status.st_ino
            with contextlib.suppress(OSError):
                # whoever may read the project may know who writes it
                os.fchmod(self._fd, status.st_mode & 0o666)
            self.note_write()
        else:
            self._write_owner()

    def _write_owner(self) -> None:
        """Writes who holds the lock into the lock file."""
        assert self._fd is not None
        text = json.dumps(self._owner).encode()
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a name
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))

    def _lock_name(self, deadline: float) -> None:
        """Locks the lock file; `deadline` is when to stop waiting for a dead holder."""
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
        """Opens and locks the project file, if there is one; `deadline` is as in `_lock_name`."""
        if not os.path.lexists(self._project) and has_log(self._project):
            raise _log_of_another(self._project)
        for _ in range(_ATTEMPTS):
            try:
                file = ProjectFile(self._project, os.O_RDWR | (os.O_CREAT if create else 0))
            except FileNotFoundError:
                return
            try:
                while not file.lock():
                    pid = file.holder()
                    if pid or time.monotonic() > deadline:  # a dead holder has no id
                        name = _process_name(pid or 0)
                        raise ProjectLocked(f"{name} has it open under another name")
                    time.sleep(_RETRY_SECONDS)
                if file.is_at(self._project):
                    self._check_locked(file)
                    self.file = file
                    return
                file.close()  # another one was put in its place meanwhile
            except BaseException:
                file.close()
                raise
        raise ProjectError(
            f"The file system gives {os.path.basename(self._project)} a new number (inode) at every look, so that a"
            " second writer could not be kept out.",
            "Keep projects on a local disk.",
        )

    def _check_locked(self, file: ProjectFile) -> None:
        """Checks that a log beside the file belongs to it, and that the file has no second name."""
        assert self._fd is not None
        inode, owner = os.fstat(file.fd).st_ino, _parse_owner(self._fd)
        # without a file in the lock file nobody says that the log is of another one
        is_same = owner.get("file", inode) == inode or _is_copy(file, owner)
        if has_log(self._project) and not is_same:
            raise _log_of_another(self._project)
        if os.fstat(file.fd).st_nlink > 1:
            raise _linked(self._project)

    def check(self) -> None:
        """Checks that the file is still what it was when it was opened, under this name and no other.

        Raises:
            ProjectMoved: It is not, and what that says can be read by a person.
        """
        if self.file is None:
            return
        status = os.fstat(self.file.fd)
        try:
            status_of_name = os.stat(self._project)
        except OSError:
            raise self._moved("moved or deleted") from None
        if not os.path.samestat(status, status_of_name):
            raise self._moved("replaced by another file")
        if status.st_nlink > 1:
            raise ProjectMoved(
                f"{os.path.basename(self._project)} was given a second name (a hard link)",
                "Remove the other name, then open it again; what was stored is in the file.",
            )
        if (status.st_size, status.st_mtime_ns) != self._size_and_time:
            if self.file.sample() != self._sample:
                raise _overwritten(self._project)
            self._size_and_time = status.st_size, status.st_mtime_ns  # only its time was changed

    def _moved(self, what: str) -> ProjectMoved:
        """Returns the error that says what happened to the file, a participle, and where it is now."""
        assert self.file is not None
        name, where = os.path.basename(self._project), _present_path(self.file.fd)
        if where is None:
            hint = "Save it as a new file where its screens are open; else see `workbench restore` for backups."
            return ProjectMoved(f"{name} was {what}", hint)
        in_same_folder = os.path.dirname(where) == os.path.dirname(self._project)
        return ProjectMoved(
            f"{name} was moved to {os.path.basename(where) if in_same_folder else where}",
            f"What was stored is in {where}: open that.",
            where=where,
        )

    def note_write(self, frames: int = 0) -> None:
        """Notes what the file looks like after it was written by the holder of this lock.

        Args:
            frames: So many of the first frames of SQLite's log were written into it.

        Raises:
            ProjectMoved: It does not have the pages of these frames: another program wrote into it meanwhile.
        """
        if self.file is None:
            return
        sample, status = self.file.sample(), os.fstat(self.file.fd)
        # after the look at the time, so that `check` notices what others write from now on
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
        fd = os.open(self._project + "-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def log_size(self) -> int:
        """Returns the length of SQLite's log in bytes; 0 without one."""
        return _log_size(self._project)

    def release(self) -> None:
        """Releases the lock; the lock file stays only beside a log. May be called twice."""
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
        """Returns whether the lock file of this name is the open one."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._path))
        except FileNotFoundError:
            return False


def check_readable(project_path: str, file: ProjectFile) -> None:
    """Checks that SQLite would read a project with the log that belongs to it.

    Raises:
        ProjectLocked: The file is being written under another name, or was replaced while it is open.
        ProjectError: The log beside it was left by another file.
    """
    inode = os.fstat(file.fd).st_ino
    for _ in range(_ATTEMPTS):
        holder = file.holder()
        owner = _read_owner(project_path + ".lock")
        # a lock file that names no file: fine if nobody holds the lock, else its holder is about to write it
        if owner.get("file", inode if holder is None else None) == inode:
            return
        if holder is None:
            break
        time.sleep(_OWNER_SECONDS)  # the holder may be about to write who it is
    name = os.path.basename(project_path)
    if holder is not None:
        raise ProjectLocked(
            f"{name} is open under another name: {_process_name(holder)} is writing it.",
            "Quit that one first; everything is in the file then.",
        )
    name_of_owner, is_dead = _describe_owner(owner)
    if (is_dead or _was_copied(project_path + ".lock", owner)) and _is_copy(file, owner):
        return
    if not is_dead:
        raise ProjectLocked(
            f"{name} was put in the place of a project that {name_of_owner} still has open.",
            "Quit that one first.",
        )
    if has_log(project_path):
        raise _log_of_another(project_path)


def _is_copy(file: ProjectFile, owner: dict[str, object]) -> bool:
    """Returns whether a file has the content, as far as samples tell, of the one that its lock file is of."""
    return owner.get("sample") == file.sample().hex()


def _was_copied(lock_path: str, owner: dict[str, object]) -> bool:
    """Returns whether a lock file is a copy, so that the process named in it has the original open, if any."""
    try:
        return owner.get("lock") != os.stat(lock_path).st_ino
    except OSError:
        return False


def check_log(project_path: str) -> None:
    """Checks a file that this process does not have open; see `check_readable`."""
    file = ProjectFile(project_path, os.O_RDONLY)
    try:
        check_readable(project_path, file)
    finally:
        file.close()


def has_log(project_path: str) -> bool:
    """Returns whether SQLite's log with content is beside a project."""
    return _log_size(project_path) > 0


def is_running(pid: int) -> bool:
    """Returns whether a process with this id runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _log_size(project_path: str) -> int:
    """Returns the length of SQLite's log in bytes; 0 without one."""
    try:
        return os.path.getsize(project_path + "-wal")
    except OSError:
        return 0


def _overwritten(path: str) -> ProjectMoved:
    """Returns the error for a project whose content another program changed."""
    name = os.path.basename(path)
    return ProjectMoved(
        f"{name} was overwritten by another program",
        f"Open it again to see what is there now; `workbench restore {name}` lists backups.",
        overwritten=True,
    )


def _linked(path: str) -> ProjectLinked:
    """Returns the error for a project that has a second name."""
    name = os.path.basename(path)
    return ProjectLinked(
        f"{name} has a second name (a hard link): writing by two names would destroy it",
        f"Remove the other name, or give this one a file of its own: cp {name} new.wb.",
    )


def _log_of_another(path: str) -> ProjectError:
    """Returns the error for a log that another file left under this name."""
    name = os.path.basename(path)
    return ProjectError(
        f"{name}-wal has changes of another file, which was moved away or replaced while it was open.",
        f"Move that file back to {name} and open it once. Otherwise copy {name}, {name}-wal and {name}.lock to another"
        f" folder first: what is in the log is nowhere else. Then remove {name}-wal and {name}.lock here.",
    )


def _read_owner(lock_path: str) -> dict[str, object]:
    """Returns what a lock file says; empty without one."""
    try:
        fd = os.open(lock_path, os.O_RDONLY)
    except OSError:
        return {}
    try:
        return _parse_owner(fd)
    finally:
        os.close(fd)


def _parse_owner(fd: int) -> dict[str, object]:
    """Returns what an open lock file says; empty where that makes no sense."""
    try:
        owner = json.loads(os.pread(fd, 1000, 0))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _describe_owner(owner: dict[str, object]) -> tuple[str, bool]:
    """Returns who holds a lock, in words, and whether that is a process of this machine that has ended."""
    try:
        pid, is_here = int(str(owner["pid"])), owner["host"] == socket.gethostname()
        host = "" if is_here else f" on {owner['host']}"
        return f"another workbench (pid {pid}{host})", is_here and not is_running(pid)
    except (OverflowError, ValueError, KeyError):
        return "another workbench", False


def _process_name(pid: int) -> str:
    """Returns what a message calls the process of this id; 0 where the id is not known."""
    return f"another workbench (pid {pid})" if pid else "another workbench"


def _present_path(fd: int) -> str | None:
    """Returns where an open file is now; None where the system does not say that."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
        return path if os.path.samestat(os.stat(path), os.fstat(fd)) else None
    except OSError:
        return None
