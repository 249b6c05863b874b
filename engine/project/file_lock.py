"""The lock on a project file itself, which holds under every name of the file.

The lock is on bytes that lie behind any content. It is of the kind that SQLite uses, so it works wherever SQLite's
locks do. It is needed because a link or a new name of the file would bring a second log, and two logs destroy the file.

A POSIX lock tells others the id of its process, but is lost when the process closes any descriptor of the file. A lock
of a descriptor (OFD lock) is not lost in this way, but names no process. So both are set, on two bytes.
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

from engine.base.files import Identity, open_projects

_BYTE = 1 << 62
"""The byte of a project file that its writer locks; SQLite locks bytes from 2**30 to 2**30 + 511."""

_SAMPLED_PAGES = 256
"""Fewest pages that the sample of a larger file covers; as steps are whole pages, it may cover nearly twice as many."""

_PAGE_BYTES = 4096
"""Length of a page of the sample; it need not be that of SQLite's pages."""

_LOCKED_BY_ANOTHER = (errno.EACCES, errno.EAGAIN)
"""Error numbers where another process holds the lock."""

# Python has no names for the OFD requests of macOS; the numbers are those of its <sys/fcntl.h>.
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
    """Lock for `_users`, `_descriptors` and `_locked`, which all instances of this process share."""
    _users: ClassVar[dict[Identity, int]] = {}
    """Number of open instances of each file."""
    _descriptors: ClassVar[dict[Identity, list[tuple[int, int]]]] = {}
    """The descriptors of each file in use, each with the access that it was opened for."""
    _locked: ClassVar[set[Identity]] = set()
    """The files whose lock this process holds; POSIX locks do not exclude the process that set them."""

    def __init__(self, path: str, flags: int) -> None:
        """Opens the file at a path with the flags of `os.open`.

        Raises:
            OSError: The file cannot be opened.
        """
        access = flags & os.O_ACCMODE
        with self._guard:
            shared = self._open_descriptor(path, access)
            self.fd = os.open(path, flags | os.O_CLOEXEC, 0o600) if shared is None else shared
            status = os.fstat(self.fd)
            self._identity = (status.st_dev, status.st_ino)
            self._users[self._identity] = self._users.get(self._identity, 0) + 1
            open_projects.add(self._identity)
            if shared is None:
                self._descriptors.setdefault(self._identity, []).append((self.fd, access))
        self._closed = False
        self._has_lock = False

    def _open_descriptor(self, path: str, access: int) -> int | None:
        """Returns a descriptor of the file at a path that is already open for this access; None without one."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        descriptors = self._descriptors.get((status.st_dev, status.st_ino), [])
        return next((fd for fd, mode in descriptors if mode == access), None)

    def close(self) -> None:
        """Releases the lock and the descriptor; may be called twice. SQLite's connections must be closed before."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            if self._has_lock:
                self._locked.discard(self._identity)
                _set_locks(self.fd, fcntl.F_UNLCK)
            self._users[self._identity] -= 1
            if not self._users[self._identity]:
                del self._users[self._identity]
                open_projects.discard(self._identity)
                for fd, _ in self._descriptors.pop(self._identity):
                    os.close(fd)

    def is_at(self, path: str) -> bool:
        """Returns whether the file at a path is this one."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(path))
        except FileNotFoundError:
            return False

    def sample(self) -> bytes:
        """Returns a digest of the size of the file and of evenly spaced pages, at least `_SAMPLED_PAGES`; of all pages
        where there are no more."""
        size = os.fstat(self.fd).st_size
        digest = hashlib.blake2b(str(size).encode())
        step = max(_PAGE_BYTES, size // _SAMPLED_PAGES // _PAGE_BYTES * _PAGE_BYTES)
        for offset in range(0, size, step):
            digest.update(os.pread(self.fd, _PAGE_BYTES, offset))
        return digest.digest()

    def lock(self) -> bool:
        """Takes the lock of the file if it is free; returns whether it was.

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
            self._has_lock = True
        return True

    def lock_anew(self) -> None:
        """Takes the lock anew if it is held: SQLite, releasing its last own lock, releases all of the process."""
        with self._guard:
            if self._has_lock:
                _set_locks(self.fd, fcntl.F_WRLCK)

    def holder(self) -> int | None:
        """Returns the id of the process that holds the lock; 0 where the id is not known, None if none holds it."""
        with self._guard:
            if self._identity in self._locked:
                return os.getpid()
            with contextlib.suppress(OSError):  # a file system without locks has no holders
                kind, pid = _conflicting_lock(self.fd, fcntl.F_GETLK)
                if kind != fcntl.F_UNLCK:
                    return max(pid, 0)  # the id of a process of another machine is negative
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
    """Returns the kind of the lock that conflicts with ours, `F_UNLCK` for none, and the id of its process.

    Args:
        command: `F_GETLK` asks about the POSIX lock, `_OFD_GETLK` about the lock of a descriptor.
    """
    byte = _BYTE if command == fcntl.F_GETLK else _BYTE + 1
    answer = fcntl.fcntl(fd, command, _lock_request(fcntl.F_WRLCK, byte))
    if sys.platform == "darwin":
        _, _, pid, kind, _ = struct.unpack("qqihh", answer)
    else:
        kind, _, _, _, pid = struct.unpack("hhqqi", answer)
    return kind, pid


def _lock_request(kind: int, byte: int) -> bytes:
    """Returns a `struct flock` for one byte of a file, with its fields in the order of the system.

    The fields are the offset of the byte, counted from the beginning of the file, the length 1, the process 0 and the
    kind of the lock.
    """
    if sys.platform == "darwin":
        return struct.pack("qqihh", byte, 1, 0, kind, os.SEEK_SET)
    return struct.pack("hhqqi", kind, os.SEEK_SET, byte, 1, 0)
