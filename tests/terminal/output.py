"""A terminal for tests: accepts only what a program may write, and keeps what is seen.

The parser accepts the control sequences that Textual's driver and compositor are known to write and refuses every
other byte that could act: so text from a conversation that reached the terminal as more than letters is found.
Not covered: what a sequence of the accepted kind does when content forged exactly such a one (colors, cursor
moves); content is therefore written in tests with sequences outside of the list as well.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from codecs import getincrementaldecoder

CELL_MARKS = 8
"""Combining marks that one cell may have, as `engine.base.text` allows."""
ACCEPTED = re.compile(
    r"\x1b\["
    r"(?:(?P<colours>[\d;]*m)"
    r"|(?P<row>\d+);(?P<column>\d+)H"
    r"|\?(?:1049|25|7|1000|1003|1004|1006|1015|1016|2004|2026|2048)[hl]"
    r"|\?(?:2026|2048)\$p"
    r"|>\d+u|<u)"
    r"|\x1b\]22;[a-z-]*\x07"  # shape of the mouse pointer
    r"|\x1b\]52;c;(?P<copied>[A-Za-z0-9+/=]*)\x07"
)
BAR = re.compile(r"\x1b\[(?:(?P<wipe>2K)|(?P<up>\d+)A)")
"""What the bar of a command writes besides; a full-screen program never does."""
_UNFINISHED = re.compile(r"\x1b(?:\[[?>]?[\d;$]*|\][\dA-Za-z;+/=-]*)?\Z")
_ENTERED, _LEFT = "\x1b[?1049h", "\x1b[?1049l"
_JAMO = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")
_INVISIBLE = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u061c\u2060\ufeff")
_BIDI = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


class ForbiddenOutput(AssertionError):
    """The program wrote something to the terminal that it should never write."""


class Screen:
    """A terminal of a fixed size that takes only what it knows.

    Attributes:
        copied: Texts that were sent to the clipboard, decoded.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.copied: list[str] = []
        self._decode = getincrementaldecoder("utf-8")("strict").decode
        self._rest = ""
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._full_screen = False

    def feed(self, output: bytes) -> None:
        """Takes what the program wrote next.

        Raises:
            Refused: It holds a control that is not in the list, or text that takes other cells than it should.
        """
        try:
            text = self._rest + self._decode(output)
        except UnicodeDecodeError as error:
            raise ForbiddenOutput(f"not UTF-8: {error}") from None
        at = 0
        self._rest = ""
        while at < len(text):
            if text[at] != "\x1b":
                end = text.find("\x1b", at)
                end = len(text) if end < 0 else end
                for character in text[at:end]:
                    self._put(character)
                at = end
                continue
            match = ACCEPTED.match(text, at)
            bar = None if self._full_screen else BAR.match(text, at)
            if bar is not None:
                self._draw_bar(bar)
                at = bar.end()
                continue
            if match is None:
                if _UNFINISHED.match(text, at):
                    self._rest = text[at:]
                    return
                raise ForbiddenOutput(f"control sequence {text[at : at + 40]!r}")
            self._obey(match)
            at = match.end()

    @property
    def unfinished(self) -> bool:
        """Whether the newest bytes end within a sequence."""
        return bool(self._rest)

    def lines(self) -> list[str]:
        """What is seen, a line a row, blanks at the end cut off."""
        return ["".join(row).rstrip() for row in self._cells]

    def text(self) -> str:
        """What is seen, as one text."""
        return "\n".join(self.lines())

    def _obey(self, match: re.Match[str]) -> None:
        if match["row"]:
            self._row, self._column = int(match["row"]) - 1, int(match["column"]) - 1
        elif match["copied"] is not None:
            self.copied.append(base64.b64decode(match["copied"], validate=True).decode())
        elif match[0] in (_ENTERED, _LEFT):
            self._full_screen = match[0] == _ENTERED
            self._cells = [[" "] * self.columns for _ in range(self.rows)]
            self._row = self._column = 0

    def _draw_bar(self, match: re.Match[str]) -> None:
        if match["wipe"]:
            self._cells[self._row] = [" "] * self.columns
        else:
            self._row = max(0, self._row - int(match["up"]))

    def _put(self, character: str) -> None:
        if character in "\r\n":
            if character == "\r":
                self._column = 0
            else:
                self._row += 1
                if self._row >= self.rows and not self._full_screen:
                    self._row -= 1
                    self._cells = [*self._cells[1:], [" "] * self.columns]
            return
        if character == "\t" and not self._full_screen:
            self._column = min(self.columns - 1, self._column // 8 * 8 + 8)
            return
        kind = unicodedata.category(character)
        if (
            kind in ("Cc", "Cs", "Zl", "Zp")
            or character in _INVISIBLE
            or unicodedata.bidirectional(character) in _BIDI
        ):
            raise ForbiddenOutput(f"character {character!r} of kind {kind}")
        width = cells(character)
        if self._full_screen and self._column + width > self.columns:
            raise ForbiddenOutput(f"line {self._row} goes beyond the edge at {character!r}")
        if not 0 <= self._row < self.rows:
            raise ForbiddenOutput(f"text below the screen: {character!r}")
        row = self._cells[self._row]
        if width == 0:
            self._stack(row, character)
            return
        if self._column + width > self.columns:
            self._column = 0
            self._put("\n")
            row = self._cells[self._row]
        row[self._column : self._column + width] = [character] + [""] * (width - 1)
        self._column += width

    def _stack(self, row: list[str], mark: str) -> None:
        before = self._column - 1
        while before > 0 and not row[before]:
            before -= 1
        if before >= 0:
            row[before] += mark
            if self._full_screen and len(row[before]) > CELL_MARKS + 1:
                raise ForbiddenOutput(f"{len(row[before])} marks on one cell in line {self._row}")


def cells(character: str) -> int:
    """Columns that a terminal gives one character by itself."""
    if unicodedata.category(character) in ("Mn", "Me", "Mc") or _JAMO.match(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
