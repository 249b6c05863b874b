"""Divides an over-long log into windows.

A log is the text of a conversation in pieces: the system message if there is one, and the steps. A boundary is a piece
after which the conversation could end.

A log that fits the context is one window. Otherwise each window holds the system message and a run of later steps, and
covers the boundaries that no earlier window covers. So every boundary is scored once, with at least about half a
context of preceding text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.errors import ContextTooSmall
from engine.model.interface import Tokenizer

MIN_LOG_TOKENS = 96
"""Fewest tokens for the log itself; with less, a result would say nothing about it."""

GAP = "\n[…]\n"
"""Replaces the middle of an over-long step."""


@dataclass(frozen=True, slots=True)
class Window:
    """The pieces of one window, in order, and the boundaries (piece indices) that it covers."""

    pieces: tuple[int, ...]
    boundaries: tuple[int, ...]


def plan_windows(
    lengths: Sequence[int], boundaries: Sequence[int], leading_pieces: int, limit: int
) -> list[Window]:
    """Plans windows over a log.

    Args:
        lengths: Tokens of each piece; none longer than a third of `limit` unless everything fits.
        boundaries: Piece indices, rising.
        leading_pieces: Number of leading pieces in every window (0 or 1: the system message).
        limit: Most tokens of a window.

    Returns:
        Windows that together cover each boundary exactly once.
    """
    if not boundaries:
        return []
    piece_count = boundaries[-1] + 1  # what follows the last boundary is not read
    if sum(lengths[:piece_count]) <= limit:
        return [Window(tuple(range(piece_count)), tuple(boundaries))]
    head = tuple(range(leading_pieces))
    room = limit - sum(lengths[:leading_pieces])
    windows: list[Window] = []
    uncovered = list(boundaries)
    start = leading_pieces
    while uncovered:
        end, used = start, 0
        while end < piece_count and used + lengths[end] <= room:
            used += lengths[end]
            end += 1
        covered = tuple(boundary for boundary in uncovered if boundary < end)
        if covered:
            windows.append(Window(head + tuple(range(start, covered[-1] + 1)), covered))
        uncovered = uncovered[len(covered) :]
        if uncovered:
            start = _start_for(lengths, uncovered, leading_pieces, room)
    return windows


def _start_for(
    lengths: Sequence[int], uncovered: Sequence[int], leading_pieces: int, room: int
) -> int:
    """Returns the first piece of the next window: half a window before its first boundary, more if all the rest
    fits.

    Args:
        uncovered: Boundaries that no window covers yet.
        room: Tokens of a window beside the leading pieces.
    """
    start, *_ = uncovered
    used = lengths[start]
    while start > leading_pieces and used + lengths[start - 1] <= room // 2:
        start -= 1
        used += lengths[start]
    remaining_tokens = sum(lengths[start : uncovered[-1] + 1])
    while start > leading_pieces and remaining_tokens + lengths[start - 1] <= room:
        start -= 1
        remaining_tokens += lengths[start]
    return start


def clip(tokens: Sequence[int], limit: int, gap: Sequence[int]) -> list[int]:
    """Returns the beginning and the end of `tokens` with `gap` between them, at most `limit` tokens."""
    if len(tokens) <= limit:
        return list(tokens)
    front = (limit - len(gap)) // 2
    back = limit - len(gap) - front
    return [*tokens[:front], *gap, *tokens[len(tokens) - back :]]


def pieces_within(
    tokenizer: Tokenizer, texts: Sequence[str], limit: int
) -> tuple[list[list[int]], int]:
    """Returns the tokens of each piece and how many pieces were clipped: those over a third of `limit`, when all
    together do not fit it."""
    pieces = [tokenizer.tokenize(text) for text in texts]
    if sum(map(len, pieces)) <= limit:
        return pieces, 0
    longest = limit // 3
    gap = tokenizer.tokenize(GAP)
    clipped = sum(len(piece) > longest for piece in pieces)
    return [clip(piece, longest, gap) for piece in pieces], clipped


def log_tokens(
    tokenizer: Tokenizer, texts: Sequence[str], leading_pieces: int, limit: int
) -> tuple[list[int], str | None]:
    """Returns the whole log, or the window that keeps its first `leading_pieces` pieces and its last steps.

    Returns:
        Tokens, at most `limit`, and a note when something was left out.

    Raises:
        ModelError: `limit` is less than `MIN_LOG_TOKENS`.
    """
    if limit < MIN_LOG_TOKENS:
        raise ContextTooSmall(
            "The context of this model has no room for a log beside the prompt and its answer.",
            "Use a larger context or a shorter prompt.",
        )
    pieces, clipped = pieces_within(tokenizer, texts, limit)
    # With the end as the only boundary there is one window.
    (window,) = plan_windows(list(map(len, pieces)), [len(pieces) - 1], leading_pieces, limit)
    tokens = [token for index in window.pieces for token in pieces[index]]
    left_out = len(pieces) - len(window.pieces)
    note = None
    if left_out or clipped:
        note = f"{left_out} of {len(pieces)} steps left out, {clipped} shortened"
    return tokens, note
