"""Breaking text into lines of a terminal width. Pure, and fast enough for megabytes."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass

from rich.cells import get_character_cell_size

from engine.base.text import MAX_COMBINING_MARKS, display_safe

TAB = 4
PIECE = 1 << 16
"""Characters made safe in one go: no more, because a regular expression keeps every other thread waiting."""


def safe_text(text: str) -> str:
    """Untrusted text of any length as display-safe text without tabs: what `break_lines` takes."""
    if len(text) <= PIECE:
        safe = display_safe(text)
    else:
        safe = "".join(
            display_safe(text[start : start + PIECE]) for start in range(0, len(text), PIECE)
        )
    return safe.expandtabs(TAB) if "\t" in safe else safe


@dataclass(frozen=True, slots=True)
class Lines:
    """Where the lines of a text begin and end: arrays, because a text may have a million."""

    starts: array[int]
    ends: array[int]

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, count: int) -> Lines:
        """The first so many lines."""
        return Lines(self.starts[:count], self.ends[:count])

    def at(self, offset: int) -> int:
        """Index of the line that holds a character, or after which it was left out."""
        return max(0, bisect_right(self.starts, offset) - 1)


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces where there are any; indentation is kept.

    The text must be display-safe already. An empty text is one empty line.
    """
    text = text.expandtabs(TAB) if "\t" in text else text
    lines = break_lines(text, width)
    return [text[start:end] for start, end in zip(lines.starts, lines.ends, strict=True)]


def break_lines(text: str, width: int) -> Lines:
    """Where the lines of `wrap` begin and end in `text`, which has no tabs; there is at least one."""
    width = max(width, 2)
    lines = Lines(array("q"), array("q"))
    ascii_only = text.isascii()
    start = 0
    for line in text.split("\n"):
        length = len(line)
        if length <= width and (ascii_only or line.isascii()):
            lines.starts.append(start)
            lines.ends.append(start + length)
        else:
            _break(line, start, width, lines)
        start += length + 1
    return lines


def _break(line: str, offset: int, width: int, lines: Lines) -> None:
    start, length = 0, len(line)
    while start < length:
        end = _fit(line, start, width)
        if end >= length:
            break
        space = line.rfind(" ", start + 1, end + 1)
        lines.starts.append(offset + start)
        if space > start and line[start:space].strip():
            lines.ends.append(offset + space)
            start = space + 1
        else:
            lines.ends.append(offset + end)
            start = end
    lines.starts.append(offset + start)
    lines.ends.append(offset + length)


def _fit(line: str, start: int, width: int) -> int:
    """Where a piece from `start` that fills at most `width` cells ends."""
    piece = line[start : start + width]
    if piece.isascii():
        return start + len(piece)
    cells = 0
    end = start
    for character in line[
        start : start + (2 + MAX_COMBINING_MARKS) * width
    ]:  # a letter with all its marks
        cells += get_character_cell_size(character)
        if cells > width:
            break
        end += 1
    return max(end, start + 1)
