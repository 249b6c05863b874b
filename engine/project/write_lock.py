"""The write lock of a project, which the system releases when the process ends. It has two parts.

- The *name* is locked by an flock on `<project>.lock`: SQLite names its log (`<project>-wal`) after the project, so no
  other file may come under this name while a log is there. The lock file says who holds it, and of which file the log
  is; it stays as long as a log with content stays.
- The *file* is locked on bytes that lie behind any content, with locks of the kind that SQLite uses, so that they hold
  where SQLite's do: a link or a new name would bring a second log, and two logs destroy the file.

Not covered: network file systems that ignore locks; SQLite's own locking does not work there either.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time
from typing import ClassVar

from engine.base.errors import ProjectError, ProjectLinked, ProjectLocked, ProjectMoved
from engine.base.files import Identity, in_use
from engine.project.sql import utc_now

PASSING_SECONDS = 2.0
"""How long to wait for a lock whose holder is dead: a child that it was starting holds the lock until it has begun."""

_BYTE = 1 << 62
"""The byte of a project file that its writer locks; SQLite locks bytes from 2**30 to 2**30 + 511."""

_SAMPLES = 256
_LOG_HEADER, _FRAME = 32, 24
_PAGE = 4096

_IN_THE_WAY = (errno.EACCES, errno.EAGAIN)
_ATTEMPTS = 50


class ProjectFile:
    """A descriptor of a project file, beside those of SQLite.

    When a process closes any descriptor of a file, it loses all its POSIX locks on it, those of SQLite too. So the
    users of one file share a descriptor, one to read and one to write, which are closed together with the last user.
    """

    _guard: ClassVar = threading.Lock()
    _users: ClassVar[dict[Identity, int]] = {}
    _descriptors: ClassVar[dict[Identity, list[tuple[int, int]]]] = {}
    """Of each file in use, the descriptors, each with the access that it was opened for."""
    _locked: ClassVar[set[Identity]] = set()
    """The files whose lock this process holds: POSIX locks do not keep a process from itself."""

    def __init__(self, path: str, flags: int) -> None:
        """Opens a file.

        Raises:
            OSError: It cannot be opened.
        """
        access = flags & os.O_ACCMODE
        with self._guard:
            shared = self._shared(path, access)
            self.fd = os.open(path, flags | os.O_CLOEXEC, 0o600) if shared is None else shared
            status = os.fstat(self.fd)
            self._identity = (status.st_dev, status.st_ino)
            self._users[self._identity] = self._users.get(self._identity, 0) + 1
            in_use.add(self._identity)
            if shared is None:
                self._descriptors.setdefault(self._identity, []).append((self.fd, access))
        self._closed = False
        self._holds = False

    def _shared(self, path: str, access: int) -> int | None:
        """A descriptor of the file of this path that is open for this access already."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        open_ones = self._descriptors.get((status.st_dev, status.st_ino), [])
        return next((fd for fd, mode in open_ones if mode == access), None)

    def close(self) -> None:
        """Lets go of the lock and the descriptor. May be called twice; close what SQLite has open before."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            if self._holds:
                self._locked.discard(self._identity)
                _set_locks(self.fd, fcntl.F_UNLCK)
            self._users[self._identity] -= 1
            if not self._users[self._identity]:
                del self._users[self._identity]
                in_use.discard(self._identity)
                for fd, _ in self._descriptors.pop(self._identity):
                    os.close(fd)

    def is_at(self, path: str) -> bool:
        """Whether the file of this path is this one."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(path))
        except FileNotFoundError:
            return False

    def sample(self) -> bytes:
        """A digest of its size and of up to 256 pages, evenly distributed: of all of a file of up to 1 MiB."""
        size = os.fstat(self.fd).st_size
        digest = hashlib.blake2b(str(size).encode())
        step = max(_PAGE, size // _SAMPLES // _PAGE * _PAGE)
        for place in range(0, size, step):
            digest.update(os.pread(self.fd, _PAGE, place))
        return digest.digest()

    def lock(self) -> bool:
        """Takes the lock of the file; returns whether it was free.

        Raises:
            OSError: The file system has no locks.
        """
        with self._guard:
            if self._identity in self._locked:
                return False
            try:
                _set_locks(self.fd, fcntl.F_WRLCK)
            except OSError as error:
                _set_locks(self.fd, fcntl.F_UNLCK)
                if error.errno in _IN_THE_WAY:
                    return False
                raise
            self._locked.add(self._identity)
            self._holds = True
        return True

    def lock_anew(self) -> None:
        """Takes a lock that it holds once more: with the last of its own locks SQLite releases all of the process."""
        with self._guard:
            if self._holds:
                _set_locks(self.fd, fcntl.F_WRLCK)

    def holder(self) -> int | None:
        """Id of the process that holds the lock of the file; 0 where that is not known, None if nobody does."""
        with self._guard:
            if self._identity in self._locked:
                return os.getpid()
            with contextlib.suppress(OSError):  # without locks there are no holders
                kind, pid = _ask(self.fd, fcntl.F_GETLK)
                if kind != fcntl.F_UNLCK:
                    return max(pid, 0)  # of another machine it is negative
                if _ask(self.fd, _OFD_GETLK)[0] != fcntl.F_UNLCK:
                    return 0
        return None


class WriteLock:
    """The write lock of one project: of its name and, where it is there, of its file.

    Attributes:
        file: The file, from `acquire` to `release`; None where there is none.
    """

    def __init__(self, project_path: str) -> None:
        self._project = project_path
        self._path = project_path + ".lock"
        self._fd: int | None = None
        self._owner: dict[str, object] = {}
        self._written = (0, 0)
        self._sample = b""
        self.file: ProjectFile | None = None

    def acquire(self, *, create: bool = False) -> None:
        """Takes the lock at once, or within `PASSING_SECONDS` from a holder that has just died.

        Args:
            create: Make an empty file where there is none.

        Raises:
            ProjectLocked: Another process, or another part of this one, holds it.
            ProjectLinked: The file has a second name.
            ProjectError: The log beside it belongs to another file.
            OSError: The lock file or the file cannot be opened or locked.
        """
        until = time.monotonic() + PASSING_SECONDS
        self._lock_name(until)
        try:
            self._lock_file(until, create)
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
            with contextlib.suppress(
                OSError
            ):  # whoever may read the project may know who writes it
                os.fchmod(self._fd, status.st_mode & 0o666)
            self.note_write()
        else:
            self._write_owner()

    def _write_owner(self) -> None:
        assert self._fd is not None
        text = json.dumps(self._owner).encode()
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a name
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))

    def _lock_name(self, until: float) -> None:
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder, dead = _named_in(_owner(fd))
                os.close(fd)
                if dead and time.monotonic() < until:
                    time.sleep(0.02)
                    continue
                raise ProjectLocked(f"{holder} is writing it") from None
            except OSError:
                os.close(fd)
                raise
            if self._is_current(fd):
                break
            os.close(fd)  # its former holder removed the file between our open and our flock
        self._fd = fd

    def _lock_file(self, until: float, create: bool) -> None:
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
                    if pid or time.monotonic() > until:  # a dead holder has no id
                        raise ProjectLocked(f"{_named(pid or 0)} has it open under another name")
                    time.sleep(0.02)
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
        assert self._fd is not None
        number, owner = os.fstat(file.fd).st_ino, _owner(self._fd)
        is_same = owner.get("file", number) == number or _is_copy(file, owner)
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
        mine = os.fstat(self.file.fd)
        try:
            there = os.stat(self._project)
        except OSError:
            raise self._moved("moved or deleted") from None
        if not os.path.samestat(mine, there):
            raise self._moved("replaced by another file")
        if mine.st_nlink > 1:
            raise ProjectMoved(
                f"{os.path.basename(self._project)} was given a second name (a hard link)",
                "Remove the other name, then open it again; what was stored is in the file.",
            )
        if (mine.st_size, mine.st_mtime_ns) != self._written:
            if not self._looks_as_before():
                raise _overwritten(self._project)
            self._written = mine.st_size, mine.st_mtime_ns  # only its time was changed

    def _moved(self, what: str) -> ProjectMoved:
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
        self._check_log_written(
            frames
        )  # what others write after the look at the time is noticed by that
        self._written = status.st_size, status.st_mtime_ns
        if sample != self._sample:
            self._sample = sample
            self._owner["sample"] = sample.hex()
            self._write_owner()

    def _looks_as_before(self) -> bool:
        """Whether the content is still that of `note_write`, as far as samples tell, though the time has changed."""
        return self.file is not None and self.file.sample() == self._sample

    def _check_log_written(self, frames: int) -> None:
        """Compares the file with its log; see https://www.sqlite.org/fileformat2.html#walformat."""
        if not frames:
            return
        assert self.file is not None
        with open(self._project + "-wal", "rb") as log:
            page = int.from_bytes(log.read(_LOG_HEADER)[8:12], "big")
            places = {}
            for place in range(_LOG_HEADER, _LOG_HEADER + frames * (_FRAME + page), _FRAME + page):
                number = int.from_bytes(os.pread(log.fileno(), 4, place), "big")
                places[number] = place + _FRAME  # the last one counts
            for number, place in places.items():
                written = os.pread(self.file.fd, page, (number - 1) * page)
                if written != os.pread(log.fileno(), page, place):
                    raise _overwritten(self._project)

    def sync_log(self) -> None:
        """Waits until SQLite's log is on the disk."""
        fd = os.open(self._project + "-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def log_size(self) -> int:
        """Bytes of SQLite's log."""
        return _size_of_log(self._project)

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
    number = os.fstat(file.fd).st_ino
    for _ in range(_ATTEMPTS):
        holder = file.holder()
        owner = _read_owner(project_path + ".lock")
        of = owner.get("file", number if holder is None else None)
        if of == number:
            return
        if holder is None:
            break
        time.sleep(0.002)  # the holder may be about to write who it is
    name = os.path.basename(project_path)
    if holder is not None:
        raise ProjectLocked(
            f"{name} is open under another name: {_named(holder)} is writing it.",
            "Quit that one first; everything is in the file then.",
        )
    said, dead = _named_in(owner)
    if (dead or _was_copied(project_path + ".lock", owner)) and _is_copy(file, owner):
        return
    if not dead:
        raise ProjectLocked(
            f"{name} was put in the place of a project that {said} still has open.",
            "Quit that one first.",
        )
    if has_log(project_path):
        raise _log_of_another(project_path)


def _is_copy(file: ProjectFile, owner: dict[str, object]) -> bool:
    """Whether a file has the content, as far as samples tell, of the one that its lock file is of."""
    return owner.get("sample") == file.sample().hex()


def _was_copied(lock_path: str, owner: dict[str, object]) -> bool:
    """Whether a lock file is a copy, so that who is named in it has the original open, if any."""
    try:
        return owner.get("lock") != os.stat(lock_path).st_ino
    except OSError:
        return False


def check_log(project_path: str) -> None:
    """As `check_readable`, for a file that this process does not have open."""
    file = ProjectFile(project_path, os.O_RDONLY)
    try:
        check_readable(project_path, file)
    finally:
        file.close()


def has_log(project_path: str) -> bool:
    """Whether SQLite's log with content is beside a project."""
    return _size_of_log(project_path) > 0


def is_running(pid: int) -> bool:
    """Whether a process with this id runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _size_of_log(project_path: str) -> int:
    try:
        return os.path.getsize(project_path + "-wal")
    except OSError:
        return 0


def _overwritten(path: str) -> ProjectMoved:
    name = os.path.basename(path)
    return ProjectMoved(
        f"{name} was overwritten by another program",
        f"Open it again to see what is there now; `workbench restore {name}` lists backups.",
        overwritten=True,
    )


def _linked(path: str) -> ProjectLinked:
    name = os.path.basename(path)
    return ProjectLinked(
        f"{name} has a second name (a hard link): writing by two names would destroy it",
        f"Remove the other name, or give this one a file of its own: cp {name} new.wb.",
    )


def _log_of_another(path: str) -> ProjectError:
    name = os.path.basename(path)
    return ProjectError(
        f"{name}-wal has changes of another file, which was moved away or replaced while it was open.",
        f"Move that file back to {name} and open it once. Otherwise copy {name}, {name}-wal and {name}.lock to another"
        f" folder first: what is in the log is nowhere else. Then remove {name}-wal and {name}.lock here.",
    )


def _read_owner(lock_path: str) -> dict[str, object]:
    """What a lock file says; empty without one."""
    try:
        fd = os.open(lock_path, os.O_RDONLY)
    except OSError:
        return {}
    try:
        return _owner(fd)
    finally:
        os.close(fd)


def _owner(fd: int) -> dict[str, object]:
    """What a lock file says; empty where that makes no sense."""
    try:
        owner = json.loads(os.pread(fd, 1000, 0))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _named_in(owner: dict[str, object]) -> tuple[str, bool]:
    """Who holds a lock, and whether that is a process of this machine that does not run any more."""
    try:
        pid, here = int(str(owner["pid"])), owner["host"] == socket.gethostname()
        where = "" if here else f" on {owner['host']}"
        return f"another workbench (pid {pid}{where})", here and not is_running(pid)
    except (OverflowError, ValueError, KeyError):
        return "another workbench", False


def _named(pid: int) -> str:
    return f"another workbench (pid {pid})" if pid else "another workbench"


def _present_path(fd: int) -> str | None:
    """Where an open file is now, where the system says that."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
        return path if os.path.samestat(os.stat(path), os.fstat(fd)) else None
    except OSError:
        return None


# Locks of bytes. A POSIX lock tells others the id of its process, and is lost when the process closes any descriptor of
# the file; locks of descriptors (OFD) are not lost so, but name nobody. So both are set, on two bytes. Python does not
# name the requests of macOS for the latter, which are those of its <sys/fcntl.h>.
_OFD_SETLK, _OFD_GETLK = (
    (90, 92) if sys.platform == "darwin" else (fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK)
)


def _set_locks(fd: int, kind: int) -> None:
    fcntl.fcntl(fd, _OFD_SETLK, _request(kind, _BYTE + 1))
    fcntl.fcntl(fd, fcntl.F_SETLK, _request(kind, _BYTE))


def _ask(fd: int, command: int) -> tuple[int, int]:
    """Kind and process of the lock that is in the way of ours."""
    byte = _BYTE if command == fcntl.F_GETLK else _BYTE + 1
    answer = fcntl.fcntl(fd, command, _request(fcntl.F_WRLCK, byte))
    if sys.platform == "darwin":
        _, _, pid, kind, _ = struct.unpack("qqihh", answer)
    else:
        kind, _, _, _, pid = struct.unpack("hhqqi", answer)
    return kind, pid


def _request(kind: int, byte: int) -> bytes:
    """A `struct flock` for one byte."""
    if sys.platform == "darwin":
        return struct.pack("qqihh", byte, 1, 0, kind, os.SEEK_SET)
    return struct.pack("hhqqi", kind, os.SEEK_SET, byte, 1, 0)
