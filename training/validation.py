"""Validates a model in training on the selection part, and chooses the best validation.

A *boundary* is a place where a conversation could end, and the *curve* of a conversation has a point for each of its
boundaries, from which its score there follows. A *step header* opens each step of a log. The truncation test tells
whether whole conversations get higher scores at their end than the same ones cut at a boundary. Log-probabilities are
natural.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.errors import ModelError
from engine.base.statistics.bootstrap import figures
from engine.base.statistics.ranking import auroc_error
from engine.completeness.truncation import truncate
from engine.model.prompt_files import opening_tokens
from engine.training.base import padded_length
from training.base import HubTokenizer
from training.examples import Log, TokenWindow, token_windows

MAX_EXPONENT = 700.0
"""Largest exponent, just below the one at which `math.exp` overflows."""

CHANCE = 0.5
"""The AUROC of a validation without pairs, which is that of guessing."""


@dataclass(frozen=True, slots=True)
class Point:
    """Natural log-probabilities at one boundary: of the end token, and of the opening of a step header."""

    log_end: float
    log_continue: float

    @property
    def score(self) -> float:
        """The normalized completeness score, p_end / (p_end + p_continue)."""
        return 1 / (1 + math.exp(min(self.log_continue - self.log_end, MAX_EXPONENT)))


@dataclass(frozen=True, slots=True)
class Validation:
    """Figures of one validation.

    Attributes:
        loss: Mean of -log p over all boundaries, where p is the probability of what follows: the end token, or the
            opening of a step header; 0 without boundaries.
        auroc, f1: Figures of the truncation test; None where no conversation could be cut.
        pairs: Number of conversations in the truncation test, each once whole and once cut.
    """

    loss: float
    auroc: float | None
    f1: float | None
    pairs: int


def curve(model: Any, tokenizer: HubTokenizer, log: Log, limit: int) -> list[Point]:
    """Returns one point for each boundary of a log, in the windows in which scoring reads the log.

    Args:
        limit: Most tokens of a window.

    Raises:
        ModelError: The tokens after a boundary are not those of a step header.
    """
    opening = opening_tokens(tokenizer)
    return [
        point
        for window in token_windows(tokenizer, log.item, limit)
        for point in _points(model, window, opening, tokenizer.end_token)
    ]


def _points(model: Any, window: TokenWindow, opening: Sequence[int], end_token: int) -> list[Point]:
    """Returns the point of each boundary of one window.

    Args:
        opening: Tokens of the beginning of a step header.
        end_token: The end token, which also pads the window.

    Raises:
        ModelError: The tokens after a boundary are not those of a step header.
    """
    import torch

    # the opening is appended, because the probability of going on is needed at the last boundary too; attention is
    # causal, so nothing before it changes
    tokens = [*window.tokens, *opening[:-1]]
    tokens += [end_token] * (padded_length(len(tokens)) - len(tokens))
    # the logits at a position are those of the next token; needed are those of all tokens of the opening: for one of
    # two tokens after the boundary 7, which has tokens[7] behind it, the positions 6 and 7
    places = [
        boundary - 1 + offset for boundary in window.boundaries for offset in range(len(opening))
    ]
    for boundary in window.boundaries[:-1]:
        if tokens[boundary : boundary + len(opening)] != list(opening):
            raise ModelError(
                f"The log does not continue with a step header after token {boundary}."
            )
    device = model.device
    with torch.inference_mode():
        (logits,) = model(
            input_ids=torch.tensor([tokens], device=device),
            logits_to_keep=torch.tensor(places, device=device),
        ).logits
        # shape (boundaries, tokens of the opening, vocabulary)
        log_p = torch.log_softmax(logits.float(), -1).view(len(window.boundaries), len(opening), -1)
        # the end would stand in the place of the first token of the opening
        log_end = log_p[:, 0, end_token]
        offsets = torch.arange(len(opening), device=device)
        log_continue = log_p[:, offsets, torch.tensor(opening, device=device)].sum(-1)
    return [Point(*both) for both in zip(log_end.tolist(), log_continue.tolist(), strict=True)]


def validate(
    model: Any,
    tokenizer: HubTokenizer,
    logs: Sequence[Log],
    limit: int,
    seed: int,
) -> Validation:
    """Returns the figures of a validation: of the curves of all logs, and of the truncation test on them.

    Args:
        model, tokenizer: The model in training, and its tokenizer.
        logs: The selection part.
        limit: Most tokens of a window.
        seed: Seed of the cuts.
    """
    model.eval()
    curves = [curve(model, tokenizer, log, limit) for log in logs]
    losses = []
    for points in curves:
        losses += [-point.log_continue for point in points[:-1]]
        losses += [-point.log_end for point in points[-1:]]
    whole, cut = truncate(
        [log.id for log in logs], [[point.score for point in points] for points in curves], seed
    )
    loss = math.fsum(losses) / len(losses) if losses else 0.0
    if not whole:
        return Validation(loss, None, None, 0)
    measured = figures([*whole, *cut], [True] * len(whole) + [False] * len(cut))
    return Validation(loss, measured["auroc"], measured["f1"], len(whole))


# Which checkpoint becomes the adapter: that of the best validation


def best_validation(validations: Sequence[Validation]) -> int:
    """Returns the index of the best of the validations so far, given first to last; there must be at least one.

    The best is the one with the highest F1 among those whose AUROC lies within one standard error of the highest
    AUROC; of equally good ones the last, because an early one may have learned nothing yet. Only the best so far is
    compared with each new one, because the weights of the others are deleted. The reasons are in
    docs/decisions/0018-the-best-of-those-that-cannot-be-told-apart.md.
    """
    best = 0
    for index in range(1, len(validations)):
        highest = max(map(_auroc, validations[: index + 1]))
        if _rank(validations[index], highest) >= _rank(validations[best], highest):
            best = index
    return best


def _rank(validation: Validation, highest: float) -> tuple[bool, float, float]:
    """Returns the sort key of a validation: whether its AUROC is near the highest one, then F1 and AUROC.

    Near is a difference of at most one standard error. Of validations that are not near, only the AUROC counts.
    """
    auroc = _auroc(validation)
    pairs = validation.pairs
    # the error of the lower AUROC, because an AUROC of 1 has an error of 0
    if pairs and highest - auroc > auroc_error(auroc, pairs, pairs):
        return False, auroc, 0.0
    return True, validation.f1 or 0.0, auroc


def _auroc(validation: Validation) -> float:
    """Returns the AUROC of a validation; `CHANCE` without pairs."""
    return CHANCE if validation.auroc is None else validation.auroc
