"""Cuts an instruction into pieces of its text, and finds what shards leave out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n\s*\n")
_CLAUSE = re.compile(r"[,;:]\s+|\s+(?=(?:and|but|while|if|where|so that)\s)")
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NAME = re.compile(r"(?<![.!?:\"]\s)(?<!^)(?<!\n)\b[A-Z][a-z]{2,}\b")
_MARKS = re.compile(r"[{}\[\]<>\n]")
_FEW = 3
"""Most words of a gap that joins a neighbouring piece instead of becoming a piece."""


class Piece(NamedTuple):
    """The place of a piece in the text: characters `start` to `end`."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Returns the text of the piece."""
        return text[self.start : self.end]


def by_sentences(text: str) -> list[Piece]:
    """Returns the sentences of a text; its clauses if it has only one sentence."""
    sentences = _split(text, _SENTENCE)
    return sentences if len(sentences) > 1 else _split(text, _CLAUSE)


def placed(excerpts: Sequence[str], text: str) -> list[Piece] | None:
    """Returns pieces for excerpts and the gaps between them; None if an excerpt is not in the text or overlaps another.

    Excerpts may come in any order and may differ from the text in white space. A stretch between them becomes a piece
    of its own if it has more than a few words, else it joins the piece before it (the first: after it), so that
    together the pieces hold every word of the text.
    """
    found: list[Piece] = []
    for excerpt in excerpts:
        words = excerpt.split()
        if not words:
            continue
        pattern = re.compile(r"\s+".join(map(re.escape, words)))
        spots = (Piece(*match.span()) for match in pattern.finditer(text))
        free = next((spot for spot in spots if not any(_overlap(spot, one) for one in found)), None)
        if free is None:
            return None
        found.append(free)
    return _filled_up(sorted(found), text) if found else None


def lost(text: str, shards: Sequence[str]) -> list[str]:
    """Returns the numbers and names of a text that no shard contains, in order of the text."""
    spoken = " ".join(shards)
    numbers = set(_NUMBER.findall(spoken))
    words = {word.casefold() for word in _WORD.findall(spoken)}
    missing = [
        (match.start(), match.group())
        for match in _NUMBER.finditer(text)
        if match.group() not in numbers
    ]
    missing += [
        (match.start(), match.group())
        for match in _NAME.finditer(text)
        if match.group().casefold() not in words
    ]
    return list(dict.fromkeys(word for _, word in sorted(missing)))


def says_no_other(shard: str, piece: str) -> bool:
    """Whether a shard has exactly the numbers of its piece, and no brackets or line breaks that the piece lacks: small
    models tend to add other pieces of the instruction or more JSON to a sentence."""
    same_numbers = set(_NUMBER.findall(shard)) == set(_NUMBER.findall(piece))
    return same_numbers and set(_MARKS.findall(shard)) <= set(piece)


def _split(text: str, at: re.Pattern[str]) -> list[Piece]:
    starts = [0, *(match.end() for match in at.finditer(text))]
    ends = [*(match.start() for match in at.finditer(text)), len(text)]
    pieces = [_trimmed(Piece(*span), text) for span in zip(starts, ends, strict=True)]
    return [piece for piece in pieces if _WORD.search(piece.of(text))]


def _trimmed(piece: Piece, text: str) -> Piece:
    words = piece.of(text)
    start = piece.start + len(words) - len(words.lstrip())
    return Piece(start, max(start, piece.end - len(words) + len(words.rstrip())))


def _overlap(one: Piece, other: Piece) -> bool:
    return one.start < other.end and other.start < one.end


def _filled_up(pieces: Sequence[Piece], text: str) -> list[Piece]:
    whole: list[Piece] = []
    at = 0
    for piece in [*pieces, Piece(len(text), len(text))]:
        gap = _trimmed(Piece(at, piece.start), text)
        words = _WORD.findall(gap.of(text))
        joins = 0 < len(words) <= _FEW
        if words and not joins:
            whole.append(gap)
        elif joins and whole:
            whole[-1] = Piece(whole[-1].start, gap.end)
        elif joins:
            piece = Piece(gap.start, piece.end)
        if piece.start < piece.end:
            whole.append(piece)
        at = piece.end
    return whole
