"""The lock on a project file itself, which holds under every name of the file.

The lock is on bytes that lie behind any content, and of the kind that SQLite uses, so that it holds where SQLite's do.
A link or a new name of the file would bring a second log, and two logs destroy the file.

A POSIX lock tells others the id of its process, and is lost when the process closes any descriptor of the file. A lock
of a descriptor (OFD) is not lost so, but names nobody. So both are set, on two bytes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import struct
import sys
import threading
from typing import ClassVar

from engine.base.files import Identity, in_use

_BYTE = 1 << 62
"""The byte of a project file that its writer locks; SQLite locks bytes from 2**30 to 2**30 + 511."""

_MAX_SAMPLED_PAGES = 256
"""Most pages of a file that its sample covers; with a file that is not a multiple of it, a few more."""

_PAGE_BYTES = 4096
"""Length of a page of the sample, which need not be that of SQLite's pages."""

_LOCKED_BY_ANOTHER = (errno.EACCES, errno.EAGAIN)
"""Error numbers of a lock that another process holds."""

# Python does not name the requests of macOS for OFD locks, which are those of its <sys/fcntl.h>.
_OFD_SETLK, _OFD_GETLK = (
    (90, 92) if sys.platform == "darwin" else (fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK)
)
"""Requests to set a lock of a descriptor, and to ask for one that would conflict."""


class ProjectFile:
    """A descriptor of a project file, beside those of SQLite.

    When a process closes any descriptor of a file, it loses all its POSIX locks on it, those of SQLite too. So the
    users of one file share a descriptor, one to read and one to write, which are closed together with the last user.
    """

    _guard: ClassVar = threading.Lock()
    """Guards what follows, which all instances of this process share."""
    _users: ClassVar[dict[Identity, int]] = {}
    """Number of open instances of each file."""
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
        self._holds = False  # whether this instance has the lock

    def _shared(self, path: str, access: int) -> int | None:
        """Returns a descriptor of the file of this path that is open for this access already; None without one."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        descriptors = self._descriptors.get((status.st_dev, status.st_ino), [])
        return next((fd for fd, mode in descriptors if mode == access), None)

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
        """Returns whether the file of this path is this one."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(path))
        except FileNotFoundError:
            return False

    def sample(self) -> bytes:
        """Returns a digest of the size and of up to 256 pages, evenly distributed: of all of a file of up to 1 MiB."""
        size = os.fstat(self.fd).st_size
        digest = hashlib.blake2b(str(size).encode())
        step = max(_PAGE_BYTES, size // _MAX_SAMPLED_PAGES // _PAGE_BYTES * _PAGE_BYTES)
        for offset in range(0, size, step):
            digest.update(os.pread(self.fd, _PAGE_BYTES, offset))
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
                if error.errno in _LOCKED_BY_ANOTHER:
                    return False
                raise
            self._locked.add(self._identity)
            self._holds = True
        return True

    def lock_anew(self) -> None:
        """Takes the lock again if it is held: with the last of its own locks SQLite releases all of the process."""
        with self._guard:
            if self._holds:
                _set_locks(self.fd, fcntl.F_WRLCK)

    def holder(self) -> int | None:
        """Returns the id of the process that holds the lock; 0 where that is not known, None if nobody does."""
        with self._guard:
            if self._identity in self._locked:
                return os.getpid()
            with contextlib.suppress(OSError):  # without locks there are no holders
                kind, pid = _conflicting_lock(self.fd, fcntl.F_GETLK)
                if kind != fcntl.F_UNLCK:
                    return max(pid, 0)  # of another machine it is negative
                kind, _ = _conflicting_lock(self.fd, _OFD_GETLK)
                if kind != fcntl.F_UNLCK:
                    return 0  # a lock of a descriptor names no process
        return None


def _set_locks(fd: int, kind: int) -> None:
    """Sets or releases both locks, at once.

    Raises:
        OSError: Another process holds one of them, or the file system has no locks.
    """
    fcntl.fcntl(fd, _OFD_SETLK, _lock_request(kind, _BYTE + 1))
    fcntl.fcntl(fd, fcntl.F_SETLK, _lock_request(kind, _BYTE))


def _conflicting_lock(fd: int, command: int) -> tuple[int, int]:
    """Returns the kind of the lock that keeps us from setting ours, `F_UNLCK` for none, and the id of its process."""
    byte = _BYTE if command == fcntl.F_GETLK else _BYTE + 1
    answer = fcntl.fcntl(fd, command, _lock_request(fcntl.F_WRLCK, byte))
    if sys.platform == "darwin":
        _, _, pid, kind, _ = struct.unpack("qqihh", answer)
    else:
        kind, _, _, _, pid = struct.unpack("hhqqi", answer)
    return kind, pid


def _lock_request(kind: int, byte: int) -> bytes:
    """Returns a `struct flock` for one byte: its offset from the beginning, length 1, process 0, kind of lock. The
    order of the fields is that of the system."""
    if sys.platform == "darwin":
        return struct.pack("qqihh", byte, 1, 0, kind, os.SEEK_SET)
    return struct.pack("hhqqi", kind, os.SEEK_SET, byte, 1, 0)
