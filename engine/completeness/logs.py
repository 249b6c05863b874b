"""Tokenises a log for a reply to the whole conversation, and shortens it if it does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.errors import ContextTooSmall
from engine.completeness.windows import clip, plan_windows
from engine.model.interface import Tokenizer

SMALLEST_ROOM = 96
"""Fewest tokens for the log itself; with less, a result would say nothing about it."""

GAP = "\n[…]\n"
"""Replaces the middle of an over-long step."""


def pieces_within(
    tokenizer: Tokenizer, texts: Sequence[str], limit: int
) -> tuple[list[list[int]], int]:
    """Tokens of each piece; when they do not fit `limit` together, pieces over a third of it are clipped.

    Returns:
        The pieces and how many were clipped.
    """
    pieces = [tokenizer.tokenize(text) for text in texts]
    if sum(map(len, pieces)) <= limit:
        return pieces, 0
    longest = limit // 3
    gap = tokenizer.tokenize(GAP)
    clipped = sum(len(piece) > longest for piece in pieces)
    return [clip(piece, longest, gap) for piece in pieces], clipped


def log_tokens(
    tokenizer: Tokenizer, texts: Sequence[str], kept: int, limit: int
) -> tuple[list[int], str | None]:
    """The whole log, or the window that keeps its first `kept` pieces and its last steps.

    Returns:
        Tokens, at most `limit`, and a note when something was left out.

    Raises:
        ModelError: `limit` is less than `SMALLEST_ROOM`.
    """
    if limit < SMALLEST_ROOM:
        raise ContextTooSmall(
            "The context of this model has no room for a log beside the prompt and its answer.",
            "Use a larger context or a shorter prompt.",
        )
    pieces, clipped = pieces_within(tokenizer, texts, limit)
    window = plan_windows(list(map(len, pieces)), [len(pieces) - 1], kept, limit)[-1]
    tokens = [token for index in window.pieces for token in pieces[index]]
    left_out = len(pieces) - len(window.pieces)
    note = None
    if left_out or clipped:
        note = f"{left_out} of {len(pieces)} steps left out, {clipped} shortened"
    return tokens, note
