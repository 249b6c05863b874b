"""The sampler's transform of the next token's distribution: top-k, top-p, min-p and temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.base.request_options import Option, declared, share, whole_number
from engine.model.interface import Logits, LogProbs


@dataclass(frozen=True, slots=True)
class Transform:
    """A sampler's settings, applied in llama.cpp's order: top-k, top-p, min-p, then temperature.

    Attributes:
        temperature: Above 0; 1 leaves the distribution as the model gives it.
        top_k: Keep so many tokens; 0 keeps all.
        top_p: Keep the fewest most probable tokens that hold this much; 1 keeps all.
        min_p: Keep tokens at least this probable relative to the best; 0 keeps all.
    """

    temperature: float = declared(
        1.0,
        Option(
            "divide the logits by this",
            default="1",
            metavar="T",
            convert=float,
            allowed=lambda value: 0 < value < math.inf,
            must="above 0",
        ),
    )
    top_k: int = whole_number(0, "only the K most probable tokens", words="all", metavar="K")
    top_p: float = share(
        1.0, "only the most probable tokens that reach this share together", metavar="P"
    )
    min_p: float = share(
        0.0,
        "only tokens with at least this share of the probability of the best",
        metavar="P",
    )

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and self.top_k >= 0 and 0 < self.top_p <= 1):
            raise ValueError(f"not a sampler: {self}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"not a sampler: {self}")

    def apply(self, logits: Logits) -> LogProbs:
        """Natural log-probabilities of all tokens, shape (vocabulary,); -inf for those that cannot be drawn."""
        values = logits.astype(np.float64)
        if self.top_k and self.top_k < len(values):
            # A stable order, so that of equal tokens those with the lower id are kept.
            values[np.argsort(-values, kind="stable")[self.top_k :]] = -np.inf
        if self.top_p < 1:
            order = np.argsort(-values, kind="stable")
            before = np.cumsum(np.exp(_normalised(values)[order]))
            # Keep a token while the cumulative probability before it is below top_p; the best one is always kept.
            values[order[1:][before[:-1] >= self.top_p]] = -np.inf
        if self.min_p:
            values[values < values.max() + np.log(self.min_p)] = -np.inf
        if self.temperature != 1:
            values /= self.temperature
        return _normalised(values)


def _normalised(values: LogProbs) -> LogProbs:
    top = values.max()
    return np.asarray(values - (top + np.log(np.exp(values - top).sum())), dtype=np.float64)
