"""Options of the growth of a response tree: the sampler, the least probability that is followed, and the limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from engine.base.errors import UsageError
from engine.base.request_options import Option, choice, declared, share, whole_number
from engine.model.interface import Logits, LogProbs

Growth = Literal["path", "token"]
"""The ways in which alpha bounds a tree; see `TreeOptions.alpha`."""

ALPHA_HELP = (
    "least probability: what is less probable is cut off, so a lower alpha grows larger trees"
    " and takes longer"
)
"""Help on alpha, for the command line and the dialogs."""


@dataclass(frozen=True, slots=True)
class Transform:
    """A sampler's settings, applied in llama.cpp's order: top-k, top-p, min-p, then temperature.

    Attributes:
        temperature: Above 0; 1 leaves the distribution as the model gives it.
        top_k: Keep so many tokens; 0 keeps all.
        top_p: Keep the fewest most probable tokens that hold this share (0 to 1); 1 keeps all.
        min_p: Keep tokens with at least this share (0 to 1) of the best token's probability; 0 keeps all.
    """

    temperature: float = declared(
        1.0,
        Option(
            "divide the logits by this",
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
        0.0, "only tokens with at least this share of the probability of the best", metavar="P"
    )

    def __post_init__(self) -> None:
        """Raises ValueError for settings out of their bounds."""
        if not (self.temperature > 0 and self.top_k >= 0 and 0 < self.top_p <= 1):
            raise ValueError(f"not a sampler: {self}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"not a sampler: {self}")

    def apply(self, logits: Logits) -> LogProbs:
        """Returns the natural log-probabilities of all tokens from their logits, both of shape (vocabulary,); -inf for
        those that cannot be drawn."""
        values = logits.astype(np.float64)
        if self.top_k and self.top_k < len(values):
            # A stable order, so that of equal tokens those with the lower id are kept.
            values[np.argsort(-values, kind="stable")[self.top_k :]] = -np.inf
        if self.top_p < 1:
            order = np.argsort(-values, kind="stable")
            cumulative = np.cumsum(np.exp(_normalized(values)[order]))
            # Keep a token while the cumulative probability before it is below top_p; the best one is always kept.
            values[order[1:][cumulative[:-1] >= self.top_p]] = -np.inf
        if self.min_p:
            values[values < values.max() + np.log(self.min_p)] = -np.inf
        if self.temperature != 1:
            values /= self.temperature
        return _normalized(values)


def _normalized(values: LogProbs) -> LogProbs:
    """Returns logits, shape (vocabulary,), as log-probabilities, whose probabilities sum to 1."""
    # Relative to the maximum, so that no exponential overflows.
    maximum = values.max()
    return np.asarray(values - (maximum + np.log(np.exp(values - maximum).sum())), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Options of the growth of a tree.

    Attributes:
        alpha: In (0, 1]. Mode `path` keeps nodes whose path probability reaches it. Mode `token` follows the best token
            and branches at others whose conditional probability reaches it, the procedure of Soroka et al.,
            "Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions".
        max_tokens: Longest continuation, in tokens.
        stop: Texts that end a continuation.
        transform: The sampler whose distribution is explored.
        widest: Only so many of the most probable tokens after a node may be its children; 0 is no bound. The others
            keep their probability and count as pruned.
    """

    alpha: float = share(0.01, ALPHA_HELP)
    mode: Growth = choice(
        "path",
        "alpha bounds the path, or each branching token as in Soroka et al.",
        get_args(Growth),
    )
    max_tokens: int = whole_number(64, "longest answer", metavar="")
    stop: tuple[str, ...] = declared(
        (), Option("an answer ends at a line break", flag="line", constant=("\n",))
    )
    transform: Transform = field(default_factory=Transform)
    widest: int = whole_number(
        0,
        "follow only the K best tokens after a node; the others count as pruned",
        words="all",
        metavar="K",
    )

    def __post_init__(self) -> None:
        """Raises UsageError for an alpha, and ValueError for a limit, out of its bounds."""
        if not 0 < self.alpha <= 1:
            raise UsageError("Alpha is above 0 and at most 1.", f"Alpha is the {ALPHA_HELP}.")
        if self.max_tokens < 1 or self.widest < 0:
            raise ValueError(f"not a way to grow a tree: {self}")


def options_frame(options: TreeOptions) -> dict[str, Any]:
    """Returns the options as JSON values."""
    return {**asdict(options), "stop": list(options.stop)}


def options_from(frame: Mapping[str, Any]) -> TreeOptions:
    """Returns the inverse of `options_frame`."""
    transform = Transform(**frame["transform"])
    return TreeOptions(**{**frame, "stop": tuple(frame["stop"]), "transform": transform})
