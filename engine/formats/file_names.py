"""Names of files: which may hold logs, and what is left of a name without its endings."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.base.files import UNFINISHED_PREFIX
from engine.formats.opening.containers import is_other

LOG_SUFFIXES = frozenset((
    ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".db", ".sqlite", ".sqlite3", ".vtt",
    ".traj", ".eval",
))  # fmt: skip
"""Endings of logs; a file of a folder or an archive with such an ending that fits no format is reported as refused."""

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_TEXTS = (".txt", ".md", ".log")
_ARCHIVES = (".zip", ".tar", ".tgz")
_KNOWN = LOG_SUFFIXES.union(_TEXTS, _ARCHIVES)


def logs_in(folder: str) -> tuple[list[str], list[str]]:
    """The files of a folder and of the folders in it, sorted: those that may be logs, and the others by their names.

    A named pipe, a socket or a device is none of the logs: reading it would wait for somebody who writes.
    """
    logs: list[str] = []
    others: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(UNFINISHED_PREFIX)]
        for name in names:
            path = os.path.join(parent, name)
            no_log = is_other(os.path.relpath(path, folder)) or is_special(path)
            (others if no_log else logs).append(path)
    return sorted(logs), sorted(others)


def is_special(path: str) -> bool:
    """Whether there is something that is neither a file nor a folder: a named pipe, a socket or a device."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # a link that leads nowhere is told when it is opened
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def suffix(name: str) -> str:
    """The ending of a file's name in lower case: `.json` of `A.JSON.gz`."""
    lower = name.lower()
    for ending in _COMPRESSED:
        lower = lower.removesuffix(ending)
    return Path(lower).suffix


def stem(name: str) -> str:
    """A file's name without its endings."""
    base = name
    for ending in _COMPRESSED:
        base = base[: -len(ending)] if base.lower().endswith(ending) else base
    return base[: -len(suffix(base))] if suffix(base) in _KNOWN else base
