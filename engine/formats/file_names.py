"""Tells by their names which files may hold logs, and takes the endings off a name."""

from __future__ import annotations

import os
import stat

from engine.base.files import UNFINISHED_PREFIX
from engine.formats.opening.containers import is_other

LOG_SUFFIXES = frozenset((
    ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".db", ".sqlite", ".sqlite3", ".vtt", ".xlsx",
    ".xls", ".xlsb", ".ods", ".traj", ".eval",
))  # fmt: skip
"""File name endings of logs. A file with such an ending, in a folder or an archive, that fits no format is reported as
refused."""

_COMPRESSION_ENDINGS = (".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed files, which are no part of the name of what is in them."""
_TEXT_ENDINGS = (".txt", ".md", ".log")
"""Endings of files that may be transcripts."""
_ARCHIVE_ENDINGS = (".zip", ".tar", ".tgz")
"""Endings of archives."""
_KNOWN_ENDINGS = LOG_SUFFIXES.union(_TEXT_ENDINGS, _ARCHIVE_ENDINGS)
"""Endings that `stem` takes off."""


def logs_in(folder: str) -> tuple[list[str], list[str]]:
    """Returns the files of a folder and of the folders in it, sorted: those that may be logs, and the other ones.

    A named pipe, a socket or a device is not among the logs: reading it would wait for somebody who writes.
    """
    logs: list[str] = []
    others: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(UNFINISHED_PREFIX)]
        paths = [os.path.join(parent, name) for name in folders]
        others += filter(os.path.islink, paths)  # they are not followed: they may lead back here
        for name in names:
            path = os.path.join(parent, name)
            no_log = is_other(os.path.relpath(path, folder)) or is_special(path)
            (others if no_log else logs).append(path)
    return sorted(logs), sorted(others)


def is_special(path: str) -> bool:
    """Returns whether a path leads to something other than a file or a folder: a named pipe, a socket or a device."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # a link that leads nowhere is reported when it is opened
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def suffix(name: str) -> str:
    """Returns the ending of a file name in lower case, without that of a compression: `.json` of `A.JSON.gz`."""
    lower = name.lower()
    for ending in _COMPRESSION_ENDINGS:
        lower = lower.removesuffix(ending)
    _, ending = os.path.splitext(lower)  # a folder has thousands of files, and pathlib is slow
    return ending


def stem(name: str) -> str:
    """Returns a file name without its endings."""
    base = name
    for ending in _COMPRESSION_ENDINGS:
        base = base[: -len(ending)] if base.lower().endswith(ending) else base
    return base[: -len(suffix(base))] if suffix(base) in _KNOWN_ENDINGS else base
