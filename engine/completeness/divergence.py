"""How far the model as it is lies from the model with its adapter: the KL divergence of their distributions of the next
token, at every boundary of a log (Kullback and Leibler 1951; section 8 of Soroka et al. asks for such a distance).

D(base || adapter) = sum over tokens v of p(v) log2(p(v) / q(v)), in bits: how much longer what the base model says
becomes where it is encoded as the trained one expects. It is 0 where training changed nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from engine.completeness.block import LogItem, prepare
from engine.completeness.packing import Segment
from engine.model.interface import Logits, LogProbs, Span, TokenModel


class AdaptableModel(TokenModel, Protocol):
    """A model that an adapter can be put on and taken off."""

    def use_adapter(self, path: Path | None) -> None:
        """Switches to an adapter, or to the bare model; a change forgets all sequences."""


@dataclass(frozen=True, slots=True)
class ItemDivergence:
    """The divergences of one conversation.

    Attributes:
        curve: (boundary, bits) of each boundary, in order; empty where it could not be read.
        tokens: Tokens of the log up to its last boundary.
        reason: Why there is none, or what was left out of the log; None where nothing was.
    """

    curve: tuple[tuple[int, float], ...]
    tokens: int
    reason: str | None = None


def read_divergences(
    model: AdaptableModel,
    adapter: Path,
    items: Sequence[LogItem],
    progress: Callable[[int], None] = lambda tokens: None,
) -> list[ItemDivergence]:
    """Reads each log twice, without and with the adapter; afterwards the adapter is on.

    Args:
        progress: Called after each decode with the tokens it held.

    Returns:
        One result for each item, in order.

    Raises:
        Cancelled: The request was cancelled.
        ModelError: A batch does not fit.
    """
    context = model.capacity.context
    found = []
    for item in items:
        prepared = prepare(model, item, [], context, context)
        curve: list[tuple[int, float]] = []
        for window, segment in zip(prepared.windows, prepared.segments, strict=True):
            model.use_adapter(None)
            base = _at_marks(model, segment, progress)
            model.use_adapter(adapter)
            adapted = _at_marks(model, segment, progress)
            bits = map(divergence, base, adapted)
            curve += zip(window.boundaries, bits, strict=True)
        reason = prepared.unscored or prepared.note
        found.append(ItemDivergence(tuple(curve), prepared.tokens, reason))
    return found


def divergence(base: LogProbs, other: LogProbs) -> float:
    """D(base || other) in bits, from natural log-probabilities of all tokens, each of shape (vocabulary,)."""
    return max(0.0, float(np.exp(base) @ (base - other)) / math.log(2))


def _at_marks(
    model: TokenModel, segment: Segment, progress: Callable[[int], None]
) -> list[LogProbs]:
    """The log-probabilities of all next tokens after each mark of a segment."""
    model.clear()
    capacity = model.capacity
    last = [mark - 1 for mark in segment.marks]
    found: list[LogProbs] = []
    at = 0
    while at < len(segment.tokens):
        stop = min(len(segment.tokens), at + capacity.batch)
        wanted = [place for place in last if at <= place < stop]
        if len(wanted) > capacity.rows:
            stop, wanted = wanted[capacity.rows], wanted[: capacity.rows]
        offsets = tuple(place - at for place in wanted)
        rows = model.decode([Span(segment.tokens[at:stop], at, (0,), offsets)])
        found += [_normalised(row) for row in rows]
        progress(stop - at)
        at = stop
    return found


def _normalised(row: Logits) -> LogProbs:
    values = row.astype(np.float64)
    values -= values.max()
    normalised: LogProbs = values - np.log(np.exp(values).sum())
    return normalised
