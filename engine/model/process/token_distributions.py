"""The distribution of the next token after every token of a text. Runs in the model process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from engine.base.errors import ContextTooSmall
from engine.model.interface import Span, TokenModel, log_probs
from engine.model.process.requests import TokenDistribution


def read_tokens(
    model: TokenModel,
    tokens: Sequence[int],
    also: Sequence[int],
    progress: Callable[[int], None] | None = None,
) -> list[TokenDistribution]:
    """The distribution of the next token after every token of one text, with nothing else in the cache.

    Raises:
        ModelError: The text has no tokens or more than the context holds.
        Cancelled: The request was cancelled.
    """
    if not 0 < len(tokens) <= model.capacity.context:
        raise ContextTooSmall(
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
) -> Iterator[TokenDistribution]:
    step = min(model.capacity.batch, model.capacity.rows)
    for at in range(0, len(tokens), step):
        chunk = tokens[at : at + step]
        rows = model.decode([Span(chunk, at, (0,), tuple(range(len(chunk))))])
        for place, row in enumerate(rows, at):
            top = int(np.argmax(row))
            following = tokens[place + 1 : place + 2]
            found = [float(value) for value in log_probs(row, [top, *following, *also])]
            rest = found[1 + len(following) :]
            yield TokenDistribution(top, found[0], found[1] if following else None, tuple(rest))
        if progress:
            progress(len(chunk))
