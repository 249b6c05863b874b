"""The truncation test: whole conversations against the same ones cut off, so that no labels are needed.

A conversation of n turns stands for a complete one as it is, and for an incomplete one cut after a random turn k < n.
One pass gives both values, because the tokens of a prefix of a log are a prefix of its tokens.

Not covered: conversations that broke off or failed stand for complete ones too. The test says whether a value knows
where these conversations end, not whether anybody got what they wanted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """One conversation.

    Attributes:
        whole: Value at its last boundary.
        cut: Value at the boundary after which it was cut.
    """

    conversation: str
    whole: float
    cut: float


@dataclass(frozen=True, slots=True)
class Truncation:
    """All pairs.

    Attributes:
        single: Conversations with one boundary or none, which cannot be cut.
        unread: Conversations without an honest number at one of the two places.
    """

    pairs: tuple[Pair, ...]
    single: int = 0
    unread: int = 0

    @property
    def values(self) -> list[float]:
        """The values of all whole conversations, then of all cut ones."""
        return [pair.whole for pair in self.pairs] + [pair.cut for pair in self.pairs]

    @property
    def complete(self) -> list[bool]:
        """For each value whether it is of a whole conversation."""
        return [True] * len(self.pairs) + [False] * len(self.pairs)

    @property
    def groups(self) -> list[int]:
        """For each value the number of its conversation."""
        return 2 * list(range(len(self.pairs)))


def cut_at(seed: int, conversation: str, boundaries: int) -> int | None:
    """Which boundary a conversation is cut after, from 0 and before the last; None where there is no other.

    A turn holds at most one boundary (in a log of one turn a step does), so this draws a turn among those that end
    where a conversation can end; all are as likely. It depends on the arguments alone: whoever scored the conversation,
    it is cut in the same place.

    Args:
        conversation: Its id in the source.
    """
    if boundaries < 2:
        return None
    drawn = hashlib.sha256(f"truncation/1:{seed}:{conversation}".encode(errors="replace")).digest()
    return int.from_bytes(drawn, "big") % (boundaries - 1)


def truncate(curves: Mapping[str, Sequence[float | None]], seed: int) -> Truncation:
    """Cuts each conversation once.

    Args:
        curves: For each conversation `p_end / (p_end + p_continue)` at every boundary, in order; None where there is
            no honest number.
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
