"""Plans the order in which segments are decoded and the prefixes that they share.

A segment is the tokens of one log, or of one window of a log; a shared prefix is decoded once for all of its group.

The plan depends only on the segments and their order, never on what was decoded before: a block of
conversations scored again after a crash is packed in the same way and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHARED_CHUNK = 256
"""Shared prefixes are whole multiples of this many tokens (of one batch, where that is less) and are decoded in
batches of exactly this size, so that a prefix kept from an earlier block has the same bits as one decoded anew."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens to decode as one sequence.

    Attributes:
        tokens: Token ids, from the start of the sequence.
        marks: Numbers of tokens after which the question is asked, rising; the last is at most len(tokens).
    """

    tokens: list[int]
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Segments (by index) that share their first `shared` tokens."""

    shared: int
    members: tuple[int, ...]


def plan_groups(segments: Sequence[Segment], chunk: int, head: int = 0) -> list[Group]:
    """Returns groups of segments by shared prefix; those that do not share even one chunk form the first group.

    Args:
        chunk: Unit of shared prefixes, in tokens.
        head: Leading tokens that all segments have in common by construction; the first group shares them.
    """
    order = sorted(range(len(segments)), key=lambda i: (segments[i].tokens[:chunk], i))
    ungrouped: list[int] = []
    groups: list[Group] = []
    start = 0
    while start < len(order):
        run = [order[start]]
        shared = _shareable_tokens(segments[order[start]], chunk)
        while start + len(run) < len(order) and shared:
            following = order[start + len(run)]
            common = _common_tokens(segments[run[0]], segments[following], shared, chunk)
            if not common:
                break
            shared = common
            run.append(following)
        if len(run) > 1:
            groups.append(Group(shared, tuple(sorted(run))))
        else:
            ungrouped.append(run[0])
        start += len(run)
    return ([Group(head, tuple(sorted(ungrouped)))] if ungrouped else []) + groups


def _shareable_tokens(segment: Segment, chunk: int) -> int:
    """Returns the number of tokens before the first mark, in whole chunks.

    At least one token per segment is left to decode.
    """
    return (segment.marks[0] - 1) // chunk * chunk


def _common_tokens(a: Segment, b: Segment, limit: int, chunk: int) -> int:
    """Returns the number of first tokens that two segments share, in whole chunks and at most `limit`."""
    limit = min(limit, _shareable_tokens(b, chunk))
    shared = 0
    while shared < limit and a.tokens[shared : shared + chunk] == b.tokens[shared : shared + chunk]:
        shared += chunk
    return shared
