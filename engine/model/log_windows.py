"""Divides an over-long log into windows, or shortens it to one.

A log is the text of a conversation in pieces: the system message if there is one, and the steps. A boundary is a piece
after which the conversation could end.

What a window has before a boundary depends on the log up to that boundary alone: a log that is cut there is read in the
same tokens. Otherwise what a model says at a boundary would tell whether the log goes on (docs/lab/probe.md).

Where a boundary fits, the first window is the log from its start up to the last one that does. Each other one holds the
system message and a run of steps, of which long ones are shortened, the system message too. The run begins with the
steps up to the first boundary that no earlier window covers, as many as fit the share `overlap` of the room, and covers
the boundaries that fit. So every boundary is scored once; one in a later window has as many steps before it as the
overlap has room for, or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.base.errors import ContextTooSmall
from engine.model.interface import TextTokenizer

MIN_LOG_TOKENS = 96
"""Fewest tokens for the log itself; with less, a result would say nothing about it."""

GAP = "\n[…]\n"
"""Replaces the middle of an over-long step."""


def longest_piece(limit: int) -> int:
    """Returns the most tokens, or characters, that a piece of a log keeps if the log is longer than `limit` of them."""
    return limit // 3


@dataclass(frozen=True, slots=True)
class Window:
    """One window of a log.

    Attributes:
        pieces: Its pieces, in order.
        boundaries: The boundaries that it covers (piece indices).
        clipped: Whether its pieces that are longer than `longest_piece` are shortened to that.
    """

    pieces: tuple[int, ...]
    boundaries: tuple[int, ...]
    clipped: bool = False


def plan_windows(
    lengths: Sequence[int],
    boundaries: Sequence[int],
    leading_pieces: int,
    limit: int,
    *,
    overlap: float = 0.5,
) -> list[Window]:
    """Plans windows over a log.

    Args:
        lengths: Tokens of each piece.
        boundaries: Piece indices, rising.
        leading_pieces: Number of leading pieces in every window (0 or 1: the system message).
        limit: Most tokens of a window.
        overlap: Share of the room of a later window that the steps up to its first boundary take at most; the piece of
            that boundary alone may take more.

    Returns:
        Windows that together cover each boundary exactly once.
    """
    tokens_up_to = list(accumulate(lengths))
    fitting = tuple(boundary for boundary in boundaries if tokens_up_to[boundary] <= limit)
    windows = [Window(tuple(range(fitting[-1] + 1)), fitting)] if fitting else []
    clipped_lengths = [min(length, longest_piece(limit)) for length in lengths]
    head = tuple(range(leading_pieces))
    room = limit - sum(clipped_lengths[:leading_pieces])
    uncovered = list(boundaries[len(fitting) :])
    while uncovered:
        first, *_ = uncovered
        start, used = first, clipped_lengths[first]
        # backwards up to the overlap
        while start > leading_pieces and used + clipped_lengths[start - 1] <= room * overlap:
            start -= 1
            used += clipped_lengths[start]
        # forwards while there is room
        end = first + 1
        while end < len(lengths) and used + clipped_lengths[end] <= room:
            used += clipped_lengths[end]
            end += 1
        covered = tuple(boundary for boundary in uncovered if boundary < end)
        windows.append(Window(head + tuple(range(start, covered[-1] + 1)), covered, clipped=True))
        uncovered = uncovered[len(covered) :]
    return windows


def tokens_of_windows(
    tokenizer: TextTokenizer,
    pieces: Sequence[Sequence[int]],
    windows: Sequence[Window],
    limit: int,
) -> list[list[Sequence[int]]]:
    """Returns for each window the tokens of each of its pieces.

    Args:
        pieces: Tokens of each piece of the log.
        windows: As `plan_windows` returns them for the lengths of these pieces and this limit.
    """
    gap = tokenizer.tokenize(GAP)
    return [
        [
            clip(pieces[index], longest_piece(limit), gap) if window.clipped else pieces[index]
            for index in window.pieces
        ]
        for window in windows
    ]


def clip(tokens: Sequence[int], limit: int, gap: Sequence[int]) -> list[int]:
    """Returns at most `limit` tokens: all if they fit, else the beginning and the end of them with `gap` between.

    `limit` is at least the length of `gap`.
    """
    if len(tokens) <= limit:
        return list(tokens)
    front = (limit - len(gap)) // 2
    back = limit - len(gap) - front
    return [*tokens[:front], *gap, *tokens[len(tokens) - back :]]


def last_pieces(lengths: Sequence[int], leading_pieces: int, limit: int) -> tuple[int, ...]:
    """Returns the first `leading_pieces` pieces of a log and as many of its last ones as fit `limit`, which is in the
    unit of the lengths."""
    start, room = len(lengths), limit - sum(lengths[:leading_pieces])
    while start > leading_pieces and lengths[start - 1] <= room:
        start -= 1
        room -= lengths[start]
    return (*range(leading_pieces), *range(start, len(lengths)))


def log_tokens(
    tokenizer: TextTokenizer, texts: Sequence[str], leading_pieces: int, limit: int
) -> tuple[list[int], str | None]:
    """Returns the tokens of a log, at most `limit`, and a note on what was left out or shortened; None where
    nothing was.

    A log that does not fit has pieces over `longest_piece` shortened; if it still does not fit, only its first
    `leading_pieces` pieces and as many of its last ones as fit stay.

    Raises:
        ModelError: `limit` is less than `MIN_LOG_TOKENS`.
    """
    if limit < MIN_LOG_TOKENS:
        raise ContextTooSmall(
            "The context of this model has no room for a log beside the prompt and its answer.",
            "Use a larger context or a shorter prompt.",
        )
    pieces = [tokenizer.tokenize(text) for text in texts]
    shown = pieces
    if sum(map(len, pieces)) > limit:
        gap = tokenizer.tokenize(GAP)
        shown = [clip(piece, longest_piece(limit), gap) for piece in pieces]
    fitting = last_pieces(list(map(len, shown)), leading_pieces, limit)
    shortened = sum(len(shown[index]) < len(pieces[index]) for index in fitting)
    tokens = [token for index in fitting for token in shown[index]]
    return tokens, omission_note(len(pieces) - len(fitting), len(pieces), shortened)


def omission_note(left_out: int, steps: int, shortened: int) -> str | None:
    """Returns a note on how many of the pieces of a log, its system message included, were left out and shortened; None
    where none were."""
    if not left_out and not shortened:
        return None
    return f"{left_out} of {steps} steps left out, {shortened} shortened"
