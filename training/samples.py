"""Samples of what the model writes at boundaries of conversations of the selection part, before and after training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from engine.completeness.block import LogItem
from engine.training.run_directory.events import EventLog
from training.base import HubTokenizer
from training.curves import Point, curve
from training.examples import Log, token_windows

CONVERSATIONS = 3
"""Conversations that are sampled."""

SHOWN_CHARS = 160
"""Characters of text before the boundary that are shown with a sample."""

WRITTEN_TOKENS = 24
"""Tokens that the model writes for a sample."""


def write_samples(
    events: EventLog,
    step: int,
    model: Any,
    tokenizer: HubTokenizer,
    logs: Sequence[Log],
    limit: int,
    end_tag: str = "",
) -> None:
    """Writes two `sample` events for each of the first conversations: at a boundary in the middle and at the last.

    Args:
        step: Optimiser step that the model is at; 0 before training.
        logs: Logs of the selection part; those with a single boundary are passed over.
        limit: Longest window in tokens.
        end_tag: See `TrainConfig`.
    """
    model.eval()
    for log in [log for log in logs if len(log.item.boundaries) > 1][:CONVERSATIONS]:
        last = len(log.item.boundaries) - 1
        points = curve(model, tokenizer, log, limit, end_tag)
        for at in (last // 2, last):
            _write_sample(events, step, model, tokenizer, _cut_after(log, at), points[at], limit)


def _cut_after(log: Log, boundary: int) -> Log:
    """The log up to a boundary, given by its index, and one piece more where the log goes on."""
    boundaries = log.item.boundaries[: boundary + 1]
    texts = log.item.texts
    if len(boundaries) < len(log.item.boundaries):
        texts = texts[: boundaries[-1] + 2]
    return Log(log.id, LogItem(texts, boundaries, log.item.kept))


def _write_sample(
    events: EventLog, step: int, model: Any, tokenizer: HubTokenizer, log: Log, point: Point, limit: int,
) -> None:  # fmt: skip
    last = log.item.boundaries[-1]
    *_, window = token_windows(tokenizer, log.item, limit)
    tokens = torch.tensor([window.tokens], device=model.device)
    with torch.inference_mode():
        written = model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=WRITTEN_TOKENS,
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
