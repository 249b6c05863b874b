"""Finds words and plain text in what is shown. Pure functions.

Case does not matter, and a space matches any white space, so that text is found across line ends.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.base.text import CJK

MOST_HITS = 10_000
"""Hits that are counted; beyond it the count says `10,000+`."""

Pattern = re.Pattern[str]


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """A place: item (a message), part of it, and the characters from `start` to `end` of the part's text."""

    item: int
    part: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hits:
    """All places in order. `more` says that counting stopped at `MOST_HITS`."""

    places: Sequence[Hit] = ()
    more: bool = False
    items: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", frozenset(hit.item for hit in self.places))

    def within(self, item: int, part: int, start: int, end: int) -> list[tuple[int, Hit]]:
        """Number and place of the hits that touch these characters of a part."""
        if item not in self.items:
            return []
        at = bisect_left(self.places, Hit(item, part, start, start))
        if at:
            at -= 1  # the one before may reach into them; hits of a part do not overlap
        found = []
        while at < len(self.places) and self.places[at] < Hit(item, part, end, 0):
            hit = self.places[at]
            if (hit.item, hit.part) == (item, part) and hit.end > start:
                found.append((at, hit))
            at += 1
        return found

    def first_from(self, place: Hit) -> int:
        """Number of the first hit at or after a place, the very first when there is none after it."""
        at = bisect_left(self.places, place)
        return at if at < len(self.places) else 0

    def step(self, current: int | None, delta: int, place: Hit) -> int:
        """Number of the hit after (1) or before (-1) the current one, wrapping at the ends; without a current one the
        first from `place`.

        There must be a hit.
        """
        if current is None:
            return (self.first_from(place) + min(delta, 0)) % len(self.places)
        return (current + delta) % len(self.places)

    def words(self, current: int | None) -> str:
        """`3 of 17`, `17 hits`, `nothing found`."""
        count = f"{len(self.places):,}{'+' if self.more else ''}"
        if not self.places:
            return "nothing found"
        if current is not None:
            return f"{current + 1:,} of {count}"
        return f"{count} hit{'s' if len(self.places) != 1 else ''}"


def plain_pattern(text: str) -> Pattern | None:
    """Finds a text as it was typed; None when nothing was."""
    return _pattern([text], "")


def words_pattern(words: Sequence[str]) -> Pattern | None:
    """Finds each of these words or phrases, as the filter does; None without any.

    That is from the beginning of a word, each sign of a script without spaces being a word; what begins with a sign of
    another kind is found anywhere.
    """
    return _pattern(words, rf"(?:(?=[{CJK}]|\W)|(?<![^\W{CJK}]))")


def _pattern(texts: Sequence[str], before: str) -> Pattern | None:
    found = [r"\s+".join(map(re.escape, text.split())) for text in texts if text.strip()]
    if not found:
        return None
    # The longest first, so that of two that begin alike the longer one is marked.
    found.sort(key=len, reverse=True)
    return re.compile(before + f"(?:{'|'.join(found)})", re.IGNORECASE)


def find(count: int, texts: Callable[[int], Sequence[str]], pattern: Pattern) -> Hits:
    """Looks through `count` items; `texts(item)` are the texts of its parts."""
    places: list[Hit] = []
    for item in range(count):
        for part, text in enumerate(texts(item)):
            for found in pattern.finditer(text):
                if len(places) == MOST_HITS:
                    return Hits(places, more=True)
                places.append(Hit(item, part, found.start(), found.end()))
    return Hits(places)
