"""Divides an over-long log into windows.

A log that fits the context is one window. Otherwise each window holds the system message and a run of later steps, and
covers the boundaries that no earlier window covers. So every boundary is scored once, with at least about half a
context of preceding text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """The pieces of one window, in order, and the boundaries (piece indices) that it covers."""

    pieces: tuple[int, ...]
    boundaries: tuple[int, ...]


def plan_windows(
    lengths: Sequence[int], boundaries: Sequence[int], kept: int, limit: int
) -> list[Window]:
    """Plans windows over a log.

    Args:
        lengths: Tokens of each piece; none longer than a third of `limit` unless everything fits.
        boundaries: Piece indices, rising.
        kept: Number of leading pieces in every window (0 or 1: the system message).
        limit: Most tokens of a window.

    Returns:
        Windows that together cover each boundary exactly once.
    """
    if not boundaries:
        return []
    last = boundaries[-1] + 1
    if sum(lengths[:last]) <= limit:
        return [Window(tuple(range(last)), tuple(boundaries))]
    head = tuple(range(kept))
    room = limit - sum(lengths[:kept])
    windows: list[Window] = []
    left = list(boundaries)
    start = kept
    while left:
        end, used = start, 0
        while end < last and used + lengths[end] <= room:
            used += lengths[end]
            end += 1
        given = tuple(b for b in left if b < end)
        if given:
            windows.append(Window(head + tuple(range(start, given[-1] + 1)), given))
        left = left[len(given) :]
        if left:
            start = _start_for(lengths, left, kept, room)
    return windows


def _start_for(lengths: Sequence[int], left: Sequence[int], kept: int, room: int) -> int:
    """First piece of the next window: half a window before its first boundary, more if all the rest fits."""
    start, used = left[0], lengths[left[0]]
    while start > kept and used + lengths[start - 1] <= room // 2:
        start -= 1
        used += lengths[start]
    rest = sum(lengths[start : left[-1] + 1])
    while start > kept and rest + lengths[start - 1] <= room:
        start -= 1
        rest += lengths[start]
    return start


def clip(tokens: Sequence[int], limit: int, gap: Sequence[int]) -> list[int]:
    """The beginning and the end of `tokens` with `gap` between them, at most `limit` tokens."""
    if len(tokens) <= limit:
        return list(tokens)
    front = (limit - len(gap)) // 2
    back = limit - len(gap) - front
    return [*tokens[:front], *gap, *tokens[len(tokens) - back :]]
