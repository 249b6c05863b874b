"""The truncation test: whole conversations against the same ones cut off, so that no labels are needed.

A whole conversation of n turns is the complete example; the same one cut after a random turn k < n is the incomplete
one. One pass gives both values, because the tokens of a prefix of a log are a prefix of its tokens.

Limit: conversations that broke off or failed count as complete too. The test measures whether a score recognises where
conversations end, not whether users reached their goals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """One conversation.

    Attributes:
        whole: Score at its last boundary.
        cut: Score at the boundary after which it was cut.
    """

    conversation: str
    whole: float
    cut: float


@dataclass(frozen=True, slots=True)
class Truncation:
    """All pairs.

    Attributes:
        single: Number of conversations with at most one boundary, which cannot be cut.
        unread: Number of conversations that are unscored at one of the two places.
    """

    pairs: tuple[Pair, ...]
    single: int = 0
    unread: int = 0

    @property
    def values(self) -> list[float]:
        """Scores of all whole conversations, then of all cut ones."""
        return [pair.whole for pair in self.pairs] + [pair.cut for pair in self.pairs]

    @property
    def complete(self) -> list[bool]:
        """For each score of `values`, whether it is of a whole conversation."""
        return [True] * len(self.pairs) + [False] * len(self.pairs)

    @property
    def groups(self) -> list[int]:
        """For each score of `values`, the index of its conversation."""
        return 2 * list(range(len(self.pairs)))


def cut_at(seed: int, conversation: str, boundaries: int) -> int | None:
    """Draws the boundary after which a conversation is cut.

    All boundaries but the last are equally likely. A turn has at most one boundary (in a log of one turn a step does),
    so this draws a turn. The result depends on the arguments alone, so all scorings of a conversation cut it alike.

    Args:
        conversation: Its id in the source.
        boundaries: Number of boundaries of the conversation.

    Returns:
        The index of the boundary; None with fewer than two.
    """
    if boundaries < 2:
        return None
    drawn = hashlib.sha256(f"truncation/1:{seed}:{conversation}".encode(errors="replace")).digest()
    return int.from_bytes(drawn, "big") % (boundaries - 1)


def truncate(curves: Mapping[str, Sequence[float | None]], seed: int) -> Truncation:
    """Cuts each conversation once.

    Args:
        curves: For each conversation the normalised score at every boundary, in order; None where it is unscored.
        seed: Seed of the cuts.
    """
    pairs = []
    single = unread = 0
    for conversation, curve in curves.items():
        place = cut_at(seed, conversation, len(curve))
        if place is None:
            single += 1
            continue
        whole, cut = curve[-1], curve[place]
        if whole is None or cut is None:
            unread += 1
        else:
            pairs.append(Pair(conversation, whole, cut))
    return Truncation(tuple(pairs), single, unread)
