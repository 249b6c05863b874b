"""Breaking text into lines of a terminal width. Pure, and fast enough for megabytes."""

from __future__ import annotations

from rich.cells import get_character_cell_size

from engine.text import display_safe

TAB = 4
PIECE = 1 << 16
"""Characters made safe in one go: no more, because a regular expression keeps every other thread waiting."""


def safe_lines(text: str, width: int) -> list[str]:
    """Untrusted text of any length as display-safe lines of at most `width` cells."""
    pieces = [display_safe(text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    return wrap("".join(pieces), width)


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces where there are any; indentation is kept.

    The text must be display-safe already. An empty text is one empty line.
    """
    width = max(width, 2)
    lines: list[str] = []
    for raw in text.split("\n"):
        line = raw.expandtabs(TAB) if "\t" in raw else raw
        if len(line) <= width and line.isascii():
            lines.append(line)
        else:
            _break(line, width, lines)
    return lines


def _break(line: str, width: int, lines: list[str]) -> None:
    start, length = 0, len(line)
    while start < length:
        end = _fit(line, start, width)
        if end >= length:
            break
        space = line.rfind(" ", start + 1, end + 1)
        if space > start and line[start:space].strip():
            lines.append(line[start:space])
            start = space + 1
        else:
            lines.append(line[start:end])
            start = end
    lines.append(line[start:])


def _fit(line: str, start: int, width: int) -> int:
    """Where a piece from `start` that fills at most `width` cells ends."""
    piece = line[start : start + width]
    if piece.isascii():
        return start + len(piece)
    cells = 0
    end = start
    for character in line[start : start + 5 * width]:  # a base letter keeps at most four marks
        cells += get_character_cell_size(character)
        if cells > width:
            break
        end += 1
    return max(end, start + 1)
