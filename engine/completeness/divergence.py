"""What an adapter changed: the KL divergence between the next-token distributions of the base and the fine-tuned model,
at every boundary of a log (Kullback and Leibler 1951; section 8 of Soroka et al. asks for such a distance).

KL(base || fine-tuned) = sum over tokens v of p(v) log2(p(v) / q(v)), in bits, with p of the base model, q of the model
with the adapter: how much longer what the base model says becomes where it is encoded as the fine-tuned one expects. It
is 0 where training changed nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from engine.completeness.block import LogItem, prepare
from engine.completeness.records.divergences import Divergence
from engine.model.interface import Logits, LogProbs, Span, TokenModel

HELD = 256
"""Most boundaries whose rows of the base model are held at once; a log with more is read again for the next ones. A row
of 128k tokens in single precision is half a megabyte."""


class AdaptableModel(TokenModel, Protocol):
    """A model that an adapter can be put on and taken off."""

    def use_adapter(self, path: Path | None) -> None:
        """Switches to an adapter, or to the bare model; a change forgets all sequences."""


def read_divergences(
    model: AdaptableModel,
    adapter: Path,
    items: Sequence[LogItem],
    progress: Callable[[int], None] = lambda tokens: None,
) -> list[Divergence]:
    """Reads each log twice, without and with the adapter; afterwards the adapter is on, whatever happened.

    Args:
        progress: Called after each decode with the tokens it held.

    Returns:
        One result for each item, in order.

    Raises:
        Cancelled: The request was cancelled.
        ModelError: A batch does not fit.
    """
    try:
        return [_read(model, adapter, item, progress) for item in items]
    finally:
        model.use_adapter(adapter)


def _read(
    model: AdaptableModel, adapter: Path, item: LogItem, progress: Callable[[int], None]
) -> Divergence:
    context = model.capacity.context
    prepared = prepare(model, item, [], context, context)
    curve: list[tuple[int, float]] = []
    for window, segment in zip(prepared.windows, prepared.segments, strict=True):
        bits: list[float] = []
        for start in range(0, len(segment.marks), HELD):
            marks = segment.marks[start : start + HELD]
            model.use_adapter(None)
            base = [row.copy() for row in _rows(model, segment.tokens, marks, progress)]
            model.use_adapter(adapter)
            tuned = _rows(model, segment.tokens, marks, progress)
            bits += (
                divergence(_normalized(p), _normalized(q)) for p, q in zip(base, tuned, strict=True)
            )
        curve += zip(window.boundaries, bits, strict=True)
    if not all(math.isfinite(value) for _, value in curve):
        return Divergence((), prepared.tokens, "the divergence is not a finite number")
    return Divergence(tuple(curve), prepared.tokens, prepared.unscored or prepared.note)


def divergence(base: LogProbs, tuned: LogProbs) -> float:
    """KL(base || tuned) in bits, from natural log-probabilities of all tokens, each of shape (vocabulary,). A token
    that the base model never says adds nothing."""
    said = base > -np.inf
    base, tuned = base[said], tuned[said]
    # Rounding can make the sum of equal distributions a little less than 0; a NaN stays one.
    return max(float(np.exp(base) @ (base - tuned)) / math.log(2), 0.0)


def _rows(
    model: TokenModel,
    tokens: Sequence[int],
    marks: Sequence[int],
    progress: Callable[[int], None],
) -> Iterator[Logits]:
    """Yields the logits of the next token after each mark, which are ascending, as far as the tokens are needed."""
    model.clear()
    capacity = model.capacity
    last = [mark - 1 for mark in marks]
    at, end = 0, marks[-1]
    while at < end:
        stop = min(end, at + capacity.batch)
        wanted = [place for place in last if at <= place < stop]
        if len(wanted) > capacity.rows:
            stop, wanted = wanted[capacity.rows], wanted[: capacity.rows]
        offsets = tuple(place - at for place in wanted)
        rows = model.decode([Span(tokens[at:stop], at, (0,), offsets)])
        progress(stop - at)
        yield from rows
        at = stop


def _normalized(row: Logits) -> LogProbs:
    values = row.astype(np.float64)
    values -= values.max()
    normalized: LogProbs = values - np.log(np.exp(values).sum())
    return normalized
