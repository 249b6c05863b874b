"""Tells whether the files of a source, and the program that reads them, are the same as at an earlier import."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from engine import formats
from engine.base import folders
from engine.formats.registry import mapping_folder

_WAL_SUFFIX = "-wal"
"""Ending of the file in which SQLite has what is not in the database file yet."""


def digest_of(label: str, settings: str, companion_files: Sequence[str] = ()) -> bytes | None:
    """Returns the SHA-256 over the files of a source and over all that determines how it is read; None if it is no
    file on disk.

    Args:
        label: Of the source: the path, and what is in an archive or a database after `: `.
        settings: The settings of the import.
        companion_files: Labels of other files from which its conversations have a part.
    """
    path = label
    while not os.path.exists(path) and ": " in path:
        path = path.rpartition(": ")[0]
    if not os.path.isfile(path):
        return None
    digest = hashlib.sha256(
        f"{settings}\n{_reader_fingerprint()}\n".encode("utf-8", "surrogateescape")
    )
    for part in (path, path + _WAL_SUFFIX, *companion_files):
        if os.path.isfile(part):
            with open(part, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()


def _reader_fingerprint() -> str:
    """Returns a text that changes with all that reads records: the program, and the mapping files of the person."""
    mapping_files = [
        (file.name, file.stat().st_mtime_ns) for file in sorted(mapping_folder().glob("*.toml"))
    ]
    return repr((mapping_files, _program_fingerprint()))


@cache
def _program_fingerprint() -> tuple[object, ...]:
    """Returns the version of the program, and name and time of change, in nanoseconds, of each file of its formats."""
    files = [file for folder in formats.__path__ for file in sorted(Path(folder).rglob("*"))]
    return folders.version(), tuple(
        (file.name, file.stat().st_mtime_ns) for file in files if file.suffix in (".py", ".toml")
    )
