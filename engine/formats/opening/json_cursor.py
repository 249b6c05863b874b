"""A place in JSON text that is read piece by piece, so that a value of any length can be decoded where it begins."""

from __future__ import annotations

import codecs
import json
import math
import re

from engine.formats.opening.source import CHUNK, Source


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=lambda name: None)
"""Reads numbers that JSON cannot write (NaN, infinities) as null."""

_BLANK_OR_COMMA = re.compile(r"[ \t\r\n,]*")
_MOST_READ = 16 << 20
"""Most bytes that are read at once after a record that goes on."""

_LONGEST_LITERAL = 12
"""Most characters between the end of the text and the error that the decoder reports for a value cut off there."""


def reason_of(error: Exception, unit: str, start: int = 0) -> str:
    """Why a value cannot be decoded, in words.

    Args:
        unit: What the value is, such as `line`.
        start: Where it begins in the text that was decoded.
    """
    if isinstance(error, RecursionError):
        return "nesting too deep"
    if isinstance(error, json.JSONDecodeError):
        return f"{unit} is not JSON: {error.msg.removesuffix(' at')} at character {error.pos - start + 1}"
    return f"{unit} holds a number with too many digits"


class JsonCursor:
    """The part of the text that is in memory, and the place in it from which the next value is read.

    Attributes:
        text: The part in memory. It begins anywhere at or before the place.
        at: The place, an index of `text`.
        ended: Whether nothing is left of the source beyond `text`.
        error: Why the source ended early; None if it did not.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text = ""
        self.at = 0
        self.ended = False

    @property
    def error(self) -> str | None:
        return self._source.error

    def skip_blanks(self) -> bool:
        """Goes past blanks and commas; False at the end of the input."""
        while True:
            match = _BLANK_OR_COMMA.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return True
            if not self.more():
                return False

    def more(self) -> bool:
        """Drops the text before the place and doubles the rest, up to `_MOST_READ` bytes more, so that a long record is
        decoded few times; False at the end of the input."""
        if self.ended:
            return False
        pieces = [self.text[self.at :]]
        wanted = min(max(CHUNK, len(pieces[0])), _MOST_READ)
        self.at = 0
        while wanted > 0:
            chunk = self._source.read()
            pieces.append(self._decoder.decode(chunk, final=not chunk))
            wanted -= len(chunk)
            if not chunk:
                self.ended = True
                break
        self.text = "".join(pieces)
        return True

    def unfinished(self, error: Exception) -> bool:
        """Whether the value may be complete once more of the input is read."""
        return not self.ended and self.cut_off(error)

    def cut_off(self, error: Exception) -> bool:
        """Whether it is the end of the text in memory at which the value goes wrong."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        at_end = error.pos >= len(self.text) - _LONGEST_LITERAL
        return at_end or error.msg.startswith("Unterminated string")
