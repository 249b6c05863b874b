"""Opens the newest lines of an input that grows, such as a log that is being written."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import FormatError
from engine.formats.detect import Records
from engine.formats.file_names import stem, suffix
from engine.formats.input_kinds import Conversations
from engine.formats.joining import is_answer, is_request
from engine.formats.opening.bounds import Bounds, Expansion
from engine.formats.opening.containers import Content
from engine.formats.readers import reader_named
from engine.formats.records import Input


@dataclass(frozen=True, slots=True)
class Tail:
    """Whole lines at the end of something that grows. Each is a conversation so far: a later one of the same id goes on
    with it.

    Attributes:
        label: Path, or `standard input`.
        name: After which conversations without an id are named; endings of logs are taken off.
        before: Number of lines before them.
        format: Name of the format.
        chosen: Whether the person chose the format.
    """

    label: str
    name: str
    lines: bytes
    before: int
    format: str
    chosen: bool


def format_of_lines(label: str, lines: bytes, format: str | None = None) -> str | None:
    """The format of lines of which each is a conversation; None if they fit no format, or if conversations are made of
    several of its lines or files.

    Args:
        lines: The first lines of the input.
        format: The format that the person chose, which is the answer if its records are conversations.

    Raises:
        FormatError: There is no such format.
    """
    content = _content_of_lines(label, label, lines, Bounds())
    if format is not None:
        reader_named(format)
    try:
        records = Records(content, suffix(label), format, lines=True)
    except FormatError:
        return None
    reader, first = records.reader, records.first
    if reader.arrange is not None or reader.thread_of is not None or reader.companions:
        return None
    return None if is_answer(first) or is_request(first) else reader.name


def open_tail(tail: Tail, bounds: Bounds) -> Input:
    """Opens lines at the end of something that grows."""
    content = _content_of_lines(tail.label, tail.name, tail.lines, bounds)
    records = Records(content, suffix(tail.label), tail.format, lines=True)
    return Conversations(content, records, chosen=tail.chosen, before=tail.before, again=True)


def _content_of_lines(label: str, name: str, lines: bytes, bounds: Bounds) -> Content:
    size = len(lines)
    expansion = Expansion(size, bounds)
    name = stem(Path(name).as_posix())
    return Content(label, name, size, stream=lambda: io.BytesIO(lines), expansion=expansion)
