"""Projects that this process has open. When it opens and closes such a file elsewhere, for instance to read it as a
log, it loses all its POSIX locks on it, those of SQLite too, and other programs may write into it meanwhile."""

from __future__ import annotations

import os

Identity = tuple[int, int]

in_use: set[Identity] = set()
"""Device and inode of each; written by `ProjectFile` only."""


def is_in_use(path: str) -> bool:
    """Whether a path, which may be a link, leads to a project that this process has open."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in in_use
