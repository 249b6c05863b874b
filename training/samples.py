"""What the model says of a few conversations, before a run and after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from engine.completeness.block import LogItem
from engine.run_directory.events import EventLog
from training.base import HubTokenizer
from training.curves import Point, curve
from training.examples import Log, readings
from training.replies import Wanted, written

SAMPLED = 3
"""Conversations whose words at a boundary are shown before and after."""

SHOWN_CHARS = 160
"""Characters before a boundary that are shown with it."""

SAID_TOKENS = 24
"""Tokens that the model writes there."""


def tell_samples(
    events: EventLog,
    step: int,
    model: Any,
    tokenizer: HubTokenizer,
    logs: Sequence[Log],
    limit: int,
) -> None:
    """Says of a few conversations what the model makes of a boundary in the middle and of the last one."""
    chosen = [log for log in logs if len(log.item.boundaries) > 1][:SAMPLED]
    model.eval()
    for log in chosen:
        middle = log.item.boundaries[(len(log.item.boundaries) - 1) // 2]
        points = curve(model, tokenizer, log, limit)
        for boundary in (middle, log.item.boundaries[-1]):
            at = log.item.boundaries.index(boundary)
            _tell(events, step, model, tokenizer, _until(log, at), points[at], limit)


def tell_replies(
    events: EventLog,
    step: int,
    model: Any,
    tokenizer: HubTokenizer,
    many: Sequence[Wanted],
    limit: int,
) -> None:
    """Says what the model replies to one prompt of each kind."""
    model.eval()
    for one in {wanted.prompt.name: wanted for wanted in reversed(many)}.values():
        events.write(
            "reply",
            step=step,
            id=one.id,
            text=one.texts[-1][-SHOWN_CHARS:],
            wanted=one.prompt.reply + one.reply,
            says=one.prompt.reply + written(model, tokenizer, one, limit, SAID_TOKENS),
        )


def _until(log: Log, at: int) -> Log:
    boundaries = log.item.boundaries[: at + 1]
    texts = (
        log.item.texts
        if at + 1 == len(log.item.boundaries)
        else log.item.texts[: boundaries[-1] + 2]
    )
    return Log(log.id, LogItem(texts, boundaries, log.item.kept))


def _tell(
    events: EventLog, step: int, model: Any, tokenizer: HubTokenizer, log: Log, point: Point, limit: int,
) -> None:  # fmt: skip
    last = log.item.boundaries[-1]
    *_, reading = readings(tokenizer, log.item, limit)
    tokens = torch.tensor([reading.tokens], device=model.device)
    with torch.inference_mode():
        written = model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=SAID_TOKENS,
            do_sample=False,
            pad_token_id=tokenizer.end_token,
            use_cache=True,
        )
    events.write(
        "sample",
        step=step,
        id=log.id,
        text=log.item.texts[last][-SHOWN_CHARS:],
        ends=last + 1 >= len(log.item.texts),
        p_end=math.exp(point.log_end),
        p_continue=math.exp(point.log_continue),
        says=tokenizer.text(written[0, tokens.shape[1] :].tolist()),
    )
