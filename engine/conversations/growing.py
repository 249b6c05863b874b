"""What is watched: files and folders that grow, or lines that come from standard input."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from engine.conversations.stages.importing import STDIN, ImportStage
from engine.formats.file_names import logs_in
from engine.formats.inputs import STANDARD_INPUT, Tail, format_of_lines
from engine.formats.opening.framing import MAX_RECORD
from engine.project.project import Project

LINES = (".jsonl", ".ndjson")
"""Endings of files in which a record is a line, so that a last line without an end is still being written."""

MOST_READ = 64 << 20
"""Bytes of a file that are read at a look; the rest follows at the next."""

LOOKED_AT = 1 << 20
"""Bytes in which the format of a file of lines is recognised."""

REMEMBERED = 1 << 16
"""Bytes at the beginning of a file, and before the place where it was read to, by which a rewritten file is noticed."""

Signature = dict[str, tuple[int, int]]
"""Size and time of change of each file, by path."""


class Growing(Protocol):
    """Something that grows."""

    def next_import(self, project: Project) -> ImportStage | None:
        """Imports what is new; None where nothing is."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a file of lines was read.

    Attributes:
        offset: Bytes, up to the end of a line.
        lines: Lines.
        mark: Of what was read; see `_mark`.
        format: As `format_of_lines` found it; None for a file that is read as a whole each time.
    """

    offset: int
    lines: int
    mark: bytes
    format: str | None


class GrowingFiles:
    """Files and folders. What was read before is not read again, unless a file that is not read by its lines grew.

    A file of lines of which each is a conversation so far is read from where it was read to. If it became shorter, or
    what was read at its beginning or just before that place has changed, it is read from its beginning: it was
    rewritten. A change in the middle of a file that is otherwise the same is not noticed. Other files, such as traces,
    whose conversations are made of many lines, are read as a whole after each change.
    """

    def __init__(
        self, paths: Sequence[str], format: str | None = None, most_unpacked: int | None = None
    ) -> None:
        self._paths, self._format, self._most_unpacked = tuple(paths), format, most_unpacked
        self._read: Signature = {}
        self._seen: Signature = {}
        self._places: dict[str, _Place] = {}
        self._given: dict[str, str] = {}

    @property
    def over(self) -> bool:
        return False

    def next_import(self, project: Project) -> ImportStage | None:
        now = self._signature()
        seen, self._seen = self._seen, now
        grew = False
        tails: list[Tail] = []
        for path, about in now.items():
            if about == self._read.get(path):
                continue
            settled = about == seen.get(path)
            try:
                place = self._place(path) if path.endswith(LINES) else None
                if place is None or place.format is None:
                    if settled or _ends_a_line(path):
                        grew = True
                        self._read[path] = about
                    continue
                tail, after = self._tail(path, place, settled)
            except FileNotFoundError:
                continue  # it was taken away meanwhile
            self._places[path] = after
            if tail is not None:
                tails.append(tail)
            if after.offset >= about[0]:
                self._read[path] = about
        if not grew and not tails:
            return None
        by_lines = {path for path in now if self._by_lines(path)}
        whole = {self._given[path] for path in now if path not in by_lines} if grew else set()
        paths = [path for path in self._paths if path in whole]
        return ImportStage(
            project,
            paths,
            self._format,
            replace=True,
            tails=tails,
            without=by_lines,
            only_forward=True,
            most_unpacked=self._most_unpacked,
        )

    def _by_lines(self, path: str) -> bool:
        place = self._places.get(path)
        return place is not None and place.format is not None

    def _place(self, path: str) -> _Place | None:
        """How far a file was read; its beginning if it was rewritten, and None if it has no whole line yet."""
        place = self._places.get(path)
        with open(path, "rb") as file:
            if place is not None and _mark(file, place.offset) == place.mark:
                return place
            file.seek(0)
            lines = file.read(LOOKED_AT)
            lines = lines[: lines.rfind(b"\n") + 1]
            if not lines.strip():
                return None
            format = format_of_lines(path, lines, self._format)
            place = self._places[path] = _Place(0, 0, _mark(file, 0), format)
            return place

    def _tail(self, path: str, place: _Place, settled: bool) -> tuple[Tail | None, _Place]:
        """The lines after a place, and the place after them; the last without an end only if the file is settled."""
        assert place.format is not None
        with open(path, "rb") as file:
            file.seek(place.offset)
            lines = file.read(MOST_READ)
            end = lines.rfind(b"\n") + 1
            offset = place.offset + len(lines)
            if len(lines) == MOST_READ and not end:  # one line that is longer
                lines = _line(file, lines)
                offset = file.tell()
            elif not settled or len(lines) == MOST_READ:
                lines = lines[:end]
                offset = place.offset + end
            after = _Place(
                offset, place.lines + lines.count(b"\n"), _mark(file, offset), place.format
            )
        if not lines.strip():
            return None, after
        chosen = self._format is not None
        return Tail(path, self._name(path), lines, place.lines, place.format, chosen), after

    def _name(self, path: str) -> str:
        """As an import names the conversations without an id: by the file, with its path inside of the folder."""
        given = self._given[path]
        return os.path.basename(path) if given == path else os.path.relpath(path, given)

    def _signature(self) -> Signature:
        found: Signature = {}
        for path in self._paths:
            files = logs_in(path)[0] if os.path.isdir(path) else [path]
            for file in files:
                try:
                    about = os.stat(file)
                except FileNotFoundError:
                    continue  # it may come later, or was taken away meanwhile
                found[file] = about.st_size, about.st_mtime_ns
                self._given[file] = path
        return dict(sorted(found.items()))


def _line(stream: BinaryIO, begun: bytes = b"") -> bytes:
    """The next line, after what was read of it; of one that is larger than a record may be, what shows that."""
    line = begun + stream.readline(MAX_RECORD + 1 - len(begun))
    if len(line) > MAX_RECORD and not line.endswith(b"\n"):
        while (rest := stream.readline(LOOKED_AT)) and not rest.endswith(b"\n"):
            pass
        line += b"\n"
    return line


def _mark(file: BinaryIO, offset: int) -> bytes:
    """SHA-256 of the beginning of a file and of what lies before an offset; of less where the file is shorter."""
    digest = hashlib.sha256()
    for start in (0, max(0, offset - REMEMBERED)):
        file.seek(start)
        digest.update(file.read(min(REMEMBERED, offset - start)))
    return digest.digest()


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
        self._guard = threading.Condition()
        self._lines: list[bytes] = []
        self._held = 0
        self._ended = False
        self._before = 0
        threading.Thread(target=self._take, args=(stream,), name="stdin", daemon=True).start()

    @property
    def over(self) -> bool:
        with self._guard:
            return self._ended and not self._lines

    def next_import(self, project: Project) -> ImportStage | None:
        with self._guard:
            lines, self._lines = self._lines, []
            self._held = 0
            self._guard.notify_all()
        if not lines:
            return None
        before, self._before = self._before, self._before + len(lines)
        data = b"".join(lines)
        format = format_of_lines(STANDARD_INPUT, lines[0], self._format)
        if format is None:
            return ImportStage(
                project, [STDIN], self._format, io.BytesIO(data), replace=True, only_forward=True
            )
        tail = Tail(STANDARD_INPUT, "stdin", data, before, format, self._format is not None)
        return ImportStage(project, [], self._format, replace=True, tails=[tail], only_forward=True)

    def _take(self, stream: BinaryIO) -> None:
        while line := _line(stream):
            if line.strip():
                with self._guard:
                    while self._held >= MOST_READ:  # whoever writes is faster
                        self._guard.wait()
                    self._lines.append(line if line.endswith(b"\n") else line + b"\n")
                    self._held += len(line)
        with self._guard:
            self._ended = True
