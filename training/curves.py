"""The curve of each conversation as the model in training sees it, and what the truncation test says of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError
from engine.model.prompting import opening_tokens
from engine.run_directory.microbatches import width
from engine.validate.statistics.classification import figures
from engine.validate.truncation import truncate
from training.base import HubTokenizer
from training.examples import Log, Reading, readings


@dataclass(frozen=True, slots=True)
class Point:
    """Natural log-probabilities at one boundary: that the log ends there, and that it goes on."""

    log_end: float
    log_continue: float

    @property
    def value(self) -> float:
        """p_end / (p_end + p_continue)."""
        return 1 / (1 + math.exp(min(self.log_continue - self.log_end, 700.0)))


@dataclass(frozen=True, slots=True)
class Validation:
    """Figures of one validation.

    Attributes:
        loss: Mean of -log p of what came at each boundary, the end tag or the next step.
        auroc, f1: Of the truncation test; None where nothing could be cut.
        pairs: Conversations in it.
    """

    loss: float
    auroc: float | None
    f1: float | None
    pairs: int


def curve(model: Any, tokenizer: HubTokenizer, log: Log, limit: int) -> list[Point]:
    """The points of all boundaries of a log, as scoring reads them."""
    opening = opening_tokens(tokenizer)
    return [
        point
        for reading in readings(tokenizer, log.item, limit)
        for point in _points(model, reading, opening, tokenizer.end_token)
    ]


def _points(model: Any, reading: Reading, opening: Sequence[int], end: int) -> list[Point]:
    import torch

    # The last boundary is asked too how the log would go on; nothing attends to what follows it.
    tokens = [*reading.tokens, *opening[:-1]]
    tokens += [end] * (width(len(tokens)) - len(tokens))
    asked = [mark - 1 + offset for mark in reading.marks for offset in range(len(opening))]
    for mark in reading.marks[:-1]:
        if tokens[mark : mark + len(opening)] != list(opening):
            raise ModelError(f"The log does not continue with a step header after token {mark}.")
    device = model.device
    with torch.inference_mode():
        logits = model(
            input_ids=torch.tensor([tokens], device=device),
            logits_to_keep=torch.tensor(asked, device=device),
        ).logits[0]
        logs = torch.log_softmax(logits.float(), -1).view(len(reading.marks), len(opening), -1)
        ends = logs[:, 0, end].tolist()
        steps = torch.arange(len(opening), device=device)
        goes_on = logs[:, steps, torch.tensor(opening, device=device)].sum(-1).tolist()
    return [Point(*both) for both in zip(ends, goes_on, strict=True)]


def validate(
    model: Any,
    tokenizer: HubTokenizer,
    logs: Sequence[Log],
    limit: int,
    seed: int,
    tell: Callable[[int], None] = lambda done: None,
) -> Validation:
    """Reads all logs and cuts each once, at a place drawn with `seed`; `tell` hears after each how many are read."""
    model.eval()
    curves = {}
    for done, log in enumerate(logs, 1):
        curves[log.id] = curve(model, tokenizer, log, limit)
        tell(done)
    losses = []
    for points in curves.values():
        losses += [-point.log_continue for point in points[:-1]]
        losses.append(-points[-1].log_end)
    test = truncate(
        {key: [point.value for point in points] for key, points in curves.items()}, seed
    )
    loss = math.fsum(losses) / len(losses) if losses else 0.0
    if not test.pairs:
        return Validation(loss, None, None, 0)
    found = figures(test.values, test.complete)
    return Validation(loss, found.auroc, found.f1, len(test.pairs))
