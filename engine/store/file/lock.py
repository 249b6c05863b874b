"""The write lock of a project: an flock on a lock file, which the system releases when the process ends.

Not covered: network file systems that ignore flock; SQLite's own locking does not work there either.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time

from engine.errors import ProjectLocked
from engine.store.sql import utc_now

PASSING_SECONDS = 2.0
"""How long to wait for a lock whose holder is dead: a child that it was starting holds the lock until it has begun."""


class WriteLock:
    """The write lock of one project. The lock file names the process that holds it and is removed at release."""

    def __init__(self, project_path: str) -> None:
        self._path = project_path + ".lock"
        self._fd: int | None = None

    def acquire(self) -> None:
        """Takes the lock at once, or within `PASSING_SECONDS` from a holder that has just died.

        Raises:
            ProjectLocked: Another process, or another part of this one, holds it.
            OSError: The lock file cannot be created or locked.
        """
        until = time.monotonic() + PASSING_SECONDS
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder, dead = _holder(fd)
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
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "time": utc_now()}
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a name
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(owner).encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Removes the lock file, then releases the lock. May be called twice."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            if self._is_current(self._fd):
                os.unlink(self._path)
        os.close(self._fd)
        self._fd = None

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._path))
        except FileNotFoundError:
            return False


def is_held(project_path: str) -> bool:
    """Whether a process holds the write lock of a project; tests the lock itself, not the text of the lock file."""
    try:
        fd = os.open(project_path + ".lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def is_running(pid: int) -> bool:
    """Whether a process with this id runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _holder(fd: int) -> tuple[str, bool]:
    """Who holds a lock, and whether that is a process of this machine that does not run any more."""
    try:
        owner = json.loads(os.pread(fd, 1000, 0))
        pid, here = int(owner["pid"]), owner["host"] == socket.gethostname()
        where = "" if here else f" on {owner['host']}"
        return f"another workbench (pid {pid}{where})", here and not is_running(pid)
    except (OSError, OverflowError, ValueError, KeyError, TypeError):
        return "another workbench", False
