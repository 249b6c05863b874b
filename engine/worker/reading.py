"""What the loaded model says after every token of given texts, as exact as its weights. Runs in the model process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import ModelError
from engine.model.interface import Span, TokenModel, log_probs
from engine.worker.protocol import Frame


@dataclass(frozen=True, slots=True)
class Reading:
    """The next-token distribution after one token, as far as it was asked for.

    Attributes:
        top: The most probable token.
        top_log_p: Its natural log-probability.
        next_log_p: That of the token that follows in the text; None after the last.
        also: Those of the other tokens that were asked about.
    """

    top: int
    top_log_p: float
    next_log_p: float | None
    also: tuple[float, ...]


def readings(
    model: TokenModel,
    tokens: Sequence[int],
    also: Sequence[int],
    progress: Callable[[int], None] | None = None,
) -> list[Reading]:
    """Reads one text from its first token on, with nothing else in the cache.

    Raises:
        ModelError: The text has no tokens or more than the context holds.
        Cancelled: The request was cancelled.
    """
    if not 0 < len(tokens) <= model.capacity.context:
        raise ModelError(
            f"A text of {len(tokens):,} tokens cannot be read in a context of"
            f" {model.capacity.context:,}."
        )
    model.clear()
    try:
        return list(_read(model, tokens, also, progress))
    finally:
        model.clear()


def _read(
    model: TokenModel,
    tokens: Sequence[int],
    also: Sequence[int],
    progress: Callable[[int], None] | None,
) -> Iterator[Reading]:
    step = min(model.capacity.batch, model.capacity.rows)
    for at in range(0, len(tokens), step):
        chunk = tokens[at : at + step]
        rows = model.decode([Span(chunk, at, (0,), tuple(range(len(chunk))))])
        for place, row in enumerate(rows, at):
            top = int(np.argmax(row))
            following = tokens[place + 1 : place + 2]
            found = [float(value) for value in log_probs(row, [top, *following, *also])]
            rest = found[1 + len(following) :]
            yield Reading(top, found[0], found[1] if following else None, tuple(rest))
        if progress:
            progress(len(chunk))


def readings_frame(found: Sequence[Reading]) -> Frame:
    """Readings as JSON, column by column."""
    return {
        "top": [one.top for one in found],
        "top_log_p": [one.top_log_p for one in found],
        "next_log_p": [one.next_log_p for one in found],
        "also": [list(one.also) for one in found],
    }


def readings_from(frame: Frame) -> list[Reading]:
    """The inverse of `readings_frame`."""
    columns = (frame[name] for name in ("top", "top_log_p", "next_log_p"))
    return [
        Reading(top, top_p, next_p, tuple(also))
        for top, top_p, next_p, also in zip(*columns, frame["also"], strict=True)
    ]
