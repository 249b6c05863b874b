"""Divergence of a model from itself with an adapter, on a toy whose distributions are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import Cancelled
from engine.completeness.block import LogItem
from engine.completeness.divergence import divergence, read_divergences
from engine.model.interface import Capacity, Logits, Span
from tests.engine.model.toy import ROOMY, ToyModel, next_logits

ADAPTER = Path("toy.gguf")
SMALL = Capacity(context=512, cells=1024, batch=8, rows=1, sequences=4, forkable=True)


class AdaptedToy(ToyModel):
    """The toy, whose adapter doubles all logits."""

    def __init__(self, capacity: Capacity = ROOMY) -> None:
        super().__init__(capacity)
        self.on = False

    def use_adapter(self, path: Path | None) -> None:
        """Puts the adapter on or takes it off."""
        assert path in (None, ADAPTER)
        self.on = path is not None
        self.clear()

    def decode(self, spans: Sequence[Span]) -> Logits:
        """Logits as the toy's, doubled where the adapter is on."""
        rows = super().decode(spans)
        return rows * np.float32(2) if self.on else rows


def plainly(text: str) -> float:
    """The divergence after a text, summed token by token."""
    logits = next_logits(text.encode()).astype(float)
    p, q = np.exp(logits), np.exp(2 * logits)
    p, q = p / p.sum(), q / q.sum()
    return math.fsum(a * math.log2(a / b) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("capacity", [ROOMY, SMALL])
def test_every_boundary(capacity: Capacity) -> None:
    """The divergence at each boundary is that of the whole distributions there, however small the batches are."""
    model = AdaptedToy(capacity)
    items = [LogItem(("Hello. ", "Hi, bye.", "So? "), (1, 2), 0), LogItem(("One.",), (0,), 0)]
    first, second = read_divergences(model, ADAPTER, items)
    assert [boundary for boundary, _ in first.curve] == [1, 2]
    texts = ("Hello. Hi, bye.", "Hello. Hi, bye.So? ")
    assert [bits for _, bits in first.curve] == pytest.approx([plainly(text) for text in texts])
    assert [boundary for boundary, _ in second.curve] == [0]
    assert (first.tokens, second.reason) == (19, None)
    assert model.on


def test_a_log_that_does_not_fit() -> None:
    """A log over the context is read in windows, which the result says."""
    items = [LogItem(("a" * 400, "b" * 400), (0, 1), 0)]
    [found] = read_divergences(AdaptedToy(SMALL), ADAPTER, items)
    assert len(found.curve) == 2
    assert "over the context" in str(found.reason)


def test_many_boundaries_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log with more boundaries than are held at once has the same divergences."""
    items = [LogItem(("Hello. ", "Hi, bye.", "So? "), (0, 1, 2), 0)]
    [whole] = read_divergences(AdaptedToy(), ADAPTER, items)
    monkeypatch.setattr("engine.completeness.divergence.HELD", 2)
    [parts] = read_divergences(AdaptedToy(SMALL), ADAPTER, items)
    assert [boundary for boundary, _ in parts.curve] == [0, 1, 2]
    assert [bits for _, bits in parts.curve] == pytest.approx([bits for _, bits in whole.curve])


def test_the_adapter_is_on_after_a_cancel() -> None:
    """Where a reading is cancelled without the adapter, it is put on again."""
    model = AdaptedToy()
    model.cancel_after = 1
    with pytest.raises(Cancelled):
        read_divergences(model, ADAPTER, [LogItem(("One.",), (0,), 0)])
    assert model.on


def test_not_finite() -> None:
    """What is no finite number is no divergence, and the result says so."""

    class ToyWithoutFirstToken(AdaptedToy):
        def decode(self, spans: Sequence[Span]) -> Logits:
            rows = super().decode(spans)
            if self.on:
                rows[:, 0] = -np.inf
            return rows

    [found] = read_divergences(ToyWithoutFirstToken(), ADAPTER, [LogItem(("One.",), (0,), 0)])
    assert (found.curve, found.reason) == ((), "the divergence is not a finite number")


def test_by_hand() -> None:
    """Two equal distributions do not diverge; a fair coin from one of 1 to 3 does by 1 - log2(3) / 2 bits; what neither
    says adds nothing, and what only the base says is infinitely far."""
    fair, other = np.log([0.5, 0.5]), np.log([0.25, 0.75])
    assert divergence(fair, fair) == 0.0
    assert divergence(fair, other) == pytest.approx(1 - math.log2(3) / 2)
    never = np.array([-np.inf])
    assert divergence(np.append(fair, never), np.append(other, never)) == divergence(fair, other)
    assert divergence(fair, np.array([0.0, -np.inf])) == math.inf
