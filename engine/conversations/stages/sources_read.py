"""Recognises sources that were read to their end before and did not change since, so that they are not read again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from engine import formats
from engine.base import folders
from engine.formats.registry import PLUGINS, mapping_folder

_WRITTEN_LATER = "-wal"
"""Ending of the file in which SQLite has what is not in the database file yet."""


def digest_of(label: str, settings: str, companion_files: Sequence[str] = ()) -> bytes | None:
    """SHA-256 over the files of a source and over all that determines how it is read; None if it is no file on disk.

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
    digest = hashlib.sha256(f"{settings}\n{_readers()}\n".encode("utf-8", "surrogateescape"))
    for part in (path, path + _WRITTEN_LATER, *companion_files):
        if os.path.isfile(part):
            with open(part, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()


def _readers() -> str:
    """What reads records: version of the program, files of the formats, packages with formats."""
    own = [(file.name, file.stat().st_mtime_ns) for file in sorted(mapping_folder().glob("*.toml"))]
    return repr((own, _installed()))


@cache
def _installed() -> tuple[object, ...]:
    packages = [
        (point.name, point.dist and point.dist.version)
        for point in metadata.entry_points(group=PLUGINS)
    ]
    return folders.version(), tuple(packages), tuple(_program_files())


def _program_files() -> Iterator[tuple[str, int]]:
    for folder in formats.__path__:
        for file in sorted(Path(folder).rglob("*")):
            if file.suffix in (".py", ".toml"):
                yield file.name, file.stat().st_mtime_ns
