"""Breaking text into lines of a terminal width. Pure, and fast enough for megabytes."""

from __future__ import annotations

from rich.cells import get_character_cell_size

from engine.text import STACKED, display_safe

TAB = 4
PIECE = 1 << 16
"""Characters made safe in one go: no more, because a regular expression keeps every other thread waiting."""


def safe_text(text: str) -> str:
    """Untrusted text of any length as display-safe text without tabs: what `spans` takes."""
    if len(text) <= PIECE:
        safe = display_safe(text)
    else:
        safe = "".join(display_safe(text[at : at + PIECE]) for at in range(0, len(text), PIECE))
    return safe.expandtabs(TAB) if "\t" in safe else safe


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces where there are any; indentation is kept.

    The text must be display-safe already. An empty text is one empty line.
    """
    text = text.expandtabs(TAB) if "\t" in text else text
    return [text[start:end] for start, end in spans(text, width)]


def spans(text: str, width: int) -> list[tuple[int, int]]:
    """Where the lines of `wrap` begin and end in `text`, which has no tabs; never empty."""
    width = max(width, 2)
    found: list[tuple[int, int]] = []
    ascii_only = text.isascii()
    start = 0
    for line in text.split("\n"):
        if len(line) <= width and (ascii_only or line.isascii()):
            found.append((start, start + len(line)))
        else:
            _break(line, start, width, found)
        start += len(line) + 1
    return found


def _break(line: str, offset: int, width: int, found: list[tuple[int, int]]) -> None:
    start, length = 0, len(line)
    while start < length:
        end = _fit(line, start, width)
        if end >= length:
            break
        space = line.rfind(" ", start + 1, end + 1)
        if space > start and line[start:space].strip():
            found.append((offset + start, offset + space))
            start = space + 1
        else:
            found.append((offset + start, offset + end))
            start = end
    found.append((offset + start, offset + length))


def _fit(line: str, start: int, width: int) -> int:
    """Where a piece from `start` that fills at most `width` cells ends."""
    piece = line[start : start + width]
    if piece.isascii():
        return start + len(piece)
    cells = 0
    end = start
    for character in line[start : start + (2 + STACKED) * width]:  # a letter with all its marks
        cells += get_character_cell_size(character)
        if cells > width:
            break
        end += 1
    return max(end, start + 1)
