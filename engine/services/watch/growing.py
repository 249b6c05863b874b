"""What is watched: files and folders that grow, or lines that come from standard input."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Sequence
from typing import BinaryIO, Protocol

from engine.formats.inputs import logs_in
from engine.stages.importing import STDIN, ImportStage
from engine.store.project import Project

LINES = (".jsonl", ".ndjson")
"""Endings of files in which a record is a line, so that a last line without an end is still being written."""

Signature = tuple[tuple[str, int, int], ...]


class Growing(Protocol):
    """Something that grows."""

    def next_import(self, project: Project) -> ImportStage | None:
        """Imports what is new; None where nothing is."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""


class GrowingFiles:
    """Files and folders. What was read before and did not change is not read again."""

    def __init__(self, paths: Sequence[str], format: str | None = None) -> None:
        self._paths, self._format = tuple(paths), format
        self._read: Signature | None = None
        self._seen: Signature = ()

    @property
    def over(self) -> bool:
        return False

    def next_import(self, project: Project) -> ImportStage | None:
        now = self._signature()
        settled, self._seen = now == self._seen, now
        if (
            not now
            or now == self._read
            or not (settled or all(_ends_a_line(path) for path, _, _ in now))
        ):
            return None
        self._read = now
        return ImportStage(project, self._paths, self._format, replace=True)

    def _signature(self) -> Signature:
        """Path, size and time of change of each file."""
        found = []
        for path in self._paths:
            files = logs_in(path)[0] if os.path.isdir(path) else [path]
            for file in files:
                try:
                    about = os.stat(file)
                except FileNotFoundError:
                    continue  # it may come later, or was taken away meanwhile
                found.append((str(file), about.st_size, about.st_mtime_ns))
        return tuple(sorted(found))


def _ends_a_line(path: str) -> bool:
    """Whether a file of lines ends with the end of one; other files always do."""
    if not path.endswith(LINES):
        return True
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


class GrowingLines:
    """Standard input: each line is a record. A thread takes lines from it as they come."""

    def __init__(self, stream: BinaryIO, format: str | None = None) -> None:
        self._format = format
        self._guard = threading.Lock()
        self._lines: list[bytes] = []
        self._ended = False
        threading.Thread(target=self._take, args=(stream,), name="stdin", daemon=True).start()

    @property
    def over(self) -> bool:
        with self._guard:
            return self._ended and not self._lines

    def next_import(self, project: Project) -> ImportStage | None:
        with self._guard:
            lines, self._lines = self._lines, []
        if not lines:
            return None
        stream = io.BytesIO(b"".join(lines))
        return ImportStage(project, [STDIN], self._format, stream, replace=True)

    def _take(self, stream: BinaryIO) -> None:
        for line in stream:
            if line.strip():
                with self._guard:
                    self._lines.append(line if line.endswith(b"\n") else line + b"\n")
        with self._guard:
            self._ended = True
