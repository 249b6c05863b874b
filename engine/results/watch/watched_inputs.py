"""The inputs of a watch: files and folders that grow.

A *tail* is the lines at the end of an input that were not imported before; see `engine.formats.inputs.Tail`. A *line
file* is a file in which each line is a record.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from engine.conversations.records import ImportRequest
from engine.conversations.stages import ImportStage
from engine.formats.file_names import logs_in
from engine.formats.inputs import Tail, format_of_lines
from engine.formats.json_values import BadRecord
from engine.formats.opening.framing import MAX_RECORD, load
from engine.project.project import Project

LINE_FILE_ENDINGS = (".jsonl", ".ndjson")
"""File name endings of line files. A last line without a line break counts as still being written."""

MAX_READ_BYTES = 64 << 20
"""Most bytes of an input that are read in one look; the rest follows in the next look."""

SNIFF_BYTES = 1 << 20
"""Bytes at the beginning of a line file by which its format is recognized."""

_SKIP_BYTES = 1 << 20
"""Bytes that are read at a time while the rest of an oversized line is skipped."""

FINGERPRINT_BYTES = 1 << 16
"""Bytes that a fingerprint covers at the beginning of a file, and again just before the offset up to which it was
read. A rewritten file is recognized by them."""


class _FileState(NamedTuple):
    """The size of a file in bytes, and the time of its last change in nanoseconds since 1970."""

    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class _ReadPosition:
    """How far a line file was read.

    Attributes:
        offset: Number of bytes that were read, up to the end of a line.
        lines: Number of lines that were read.
        fingerprint: Fingerprint of the part that was read; see `_fingerprint`.
        format: Name of the format that `format_of_lines` recognized; None for a file that is always read as a whole.
    """

    offset: int
    lines: int
    fingerprint: bytes
    format: str | None


class WatchedFiles:
    """The files and folders of a watch, and how far each file was read.

    Of a line file in which each line is a conversation so far, only new lines are read. If the file became shorter, or
    if its beginning or the part just before the read position has changed, it was rewritten and is read from its
    beginning. A change in the middle of a file that is otherwise the same is not noticed.

    Other files, such as traces, whose conversations are made of many lines, are read as a whole. When one of them
    changes, its path is imported once more without the line files in it.
    """

    def __init__(
        self, paths: Sequence[str], format: str | None = None, most_unpacked: int | None = None
    ) -> None:
        """Reads nothing yet.

        Args:
            paths: The files and folders to watch.
            format: Name of the format that the person chose; None to recognize it.
            most_unpacked: Bytes to which a file may unpack; None for the usual limit.
        """
        self._paths, self._format, self._most_unpacked = tuple(paths), format, most_unpacked
        self._imported_states: dict[str, _FileState] = {}
        self._last_states: dict[str, _FileState] = {}
        self._positions: dict[str, _ReadPosition] = {}
        self._argument_of_file: dict[str, str] = {}  # the watched path by which a file is reached

    def next_import(self, project: Project) -> ImportStage | None:
        """Returns the stage that imports what is new since the last call; None if nothing is new."""
        states = self._scan()
        last_states, self._last_states = self._last_states, states
        whole_file_changed = False
        tails: list[Tail] = []
        for path, state in states.items():
            if state == self._imported_states.get(path):
                continue
            is_settled = state == last_states.get(path)
            try:
                position = self._find_position(path)
                if position is not None:
                    tails += self._read_tail(path, position, state, is_settled)
                elif is_settled or _ends_with_whole_line(path):
                    whole_file_changed = True
                    self._imported_states[path] = state
            except FileNotFoundError:
                continue  # the file was removed meanwhile
        if not whole_file_changed and not tails:
            return None
        line_files = {path for path in states if self._is_read_by_lines(path)}
        arguments = {self._argument_of_file[path] for path in states if path not in line_files}
        return ImportStage(
            project,
            [path for path in self._paths if whole_file_changed and path in arguments],
            ImportRequest(self._format, replace=True, most_unpacked=self._most_unpacked),
            tails=tails,
            without=line_files,  # their new lines come as tails
            only_forward=True,
        )

    def _is_read_by_lines(self, path: str) -> bool:
        """Returns whether a file is a line file of which only new lines are read."""
        position = self._positions.get(path)
        return position is not None and position.format is not None

    def _find_position(self, path: str) -> _ReadPosition | None:
        """Returns how far a line file was read, with offset 0 if it is new or was rewritten.

        Returns None for a file that is read as a whole, as is a line file without a whole line.
        """
        if not path.endswith(LINE_FILE_ENDINGS):
            return None
        position = self._positions.get(path)
        with open(path, "rb") as file:
            if position is None or _fingerprint(file, position.offset) != position.fingerprint:
                file.seek(0)
                lines = file.read(SNIFF_BYTES)
                lines = lines[: lines.rfind(b"\n") + 1]
                if not lines.strip():
                    return None
                format = format_of_lines(path, lines, self._format)
                position = _ReadPosition(0, 0, _fingerprint(file, 0), format)
                self._positions[path] = position
        return None if position.format is None else position

    def _read_tail(
        self, path: str, position: _ReadPosition, state: _FileState, is_settled: bool
    ) -> list[Tail]:
        """Returns the lines after a position as a tail, or nothing if all are blank; notes the position after them.

        Args:
            state: The state of the file when it was scanned.
            is_settled: Whether the file is the same as at the last look; only then a last line without a line break is
                read, if it is a whole record.
        """
        assert position.format is not None
        with open(path, "rb") as file:
            file.seek(position.offset)
            lines = file.read(MAX_READ_BYTES)
            end = lines.rfind(b"\n") + 1
            offset = position.offset + len(lines)
            if len(lines) == MAX_READ_BYTES and not end:  # the line is longer than what was read
                lines = _read_line(file, lines)
                offset = file.tell()
            elif not is_settled or len(lines) == MAX_READ_BYTES or not _is_whole(lines[end:]):
                lines = lines[:end]
                offset = position.offset + end
            line_count = position.lines + lines.count(b"\n")
            fingerprint = _fingerprint(file, offset)
        self._positions[path] = _ReadPosition(offset, line_count, fingerprint, position.format)
        if offset >= state.size:
            self._imported_states[path] = state
        if not lines.strip():
            return []
        tail = Tail(
            path,
            self._conversation_name(path),
            lines,
            before=position.lines,
            format=position.format,
            chosen=self._format is not None,
        )
        return [tail]

    def _conversation_name(self, path: str) -> str:
        """Returns the name for conversations of a file that have no id: the name of the file, in a folder with its
        path."""
        argument = self._argument_of_file[path]
        return os.path.basename(path) if argument == path else os.path.relpath(path, argument)

    def _scan(self) -> dict[str, _FileState]:
        """Returns the present state of each file by path, sorted by path; missing files are left out."""
        states: dict[str, _FileState] = {}
        for path in self._paths:
            files = [path]
            if os.path.isdir(path):
                files, _ = logs_in(path)
            for file in files:
                try:
                    status = os.stat(file)
                except FileNotFoundError:
                    continue  # the file may come later, or was removed meanwhile
                states[file] = _FileState(status.st_size, status.st_mtime_ns)
                self._argument_of_file[file] = path
        return dict(sorted(states.items()))


def _is_whole(last_line: bytes) -> bool:
    """Returns whether a line without a line break is nothing or a whole record, and not the beginning of one."""
    try:
        load(last_line or b"null", "line")
    except BadRecord:
        return False
    return True


def _read_line(stream: BinaryIO, beginning: bytes) -> bytes:
    """Returns a line of which `beginning` was read already.

    Of a line longer than `MAX_RECORD` only the first `MAX_RECORD + 1` bytes and a line break are returned, so that the
    reader rejects it; the rest of the line is skipped.
    """
    line = beginning + stream.readline(MAX_RECORD + 1 - len(beginning))
    if len(line) > MAX_RECORD and not line.endswith(b"\n"):
        while (rest := stream.readline(_SKIP_BYTES)) and not rest.endswith(b"\n"):
            pass
        line += b"\n"
    return line


def _fingerprint(file: BinaryIO, offset: int) -> bytes:
    """Returns the SHA-256 of the first and of the last `FINGERPRINT_BYTES` of a file before an offset.

    The fingerprint of a file that became shorter covers fewer bytes, and so differs.
    """
    digest = hashlib.sha256()
    for start in (0, max(0, offset - FINGERPRINT_BYTES)):
        file.seek(start)
        digest.update(file.read(min(FINGERPRINT_BYTES, offset - start)))
    return digest.digest()


def _ends_with_whole_line(path: str) -> bool:
    """Returns whether a line file is empty or ends with a line break; True for other files."""
    if not path.endswith(LINE_FILE_ENDINGS):
        return True
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
