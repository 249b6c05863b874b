"""What a run says while it works: one event for each step, validation and checkpoint."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from engine.completeness.block import LogItem
from training.base import HubTokenizer
from training.curves import Point, curve
from training.examples import Log, readings
from training.loop import AdapterTrainer
from training.protocol import EventLog
from training.replies import Wanted, written

SAMPLED = 3
"""Conversations whose words at a boundary are shown before and after."""

SHOWN_CHARS = 160
"""Characters before a boundary that are shown with it."""

SAID_TOKENS = 24
"""Tokens that the model writes there."""


class Telling(TrainerCallback):
    """Writes events as the loop goes; the trainer is given once it exists."""

    def __init__(self, events: EventLog, tokens: int) -> None:
        """Prepares for a run.

        Args:
            tokens: Tokens of one epoch.
        """
        self._events, self._epoch_tokens = events, tokens
        self.trainer: AdapterTrainer | None = None
        self._valid_seconds = 0.0
        self._valid_started: float | None = None

    def on_log(self, args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        """A step."""
        trainer = self.trainer
        if trainer is None or not state.is_world_process_zero or "loss" not in (logs or {}):
            return
        speed = trainer.tokens / trainer.seconds if trainer.seconds else 0.0
        ahead = state.max_steps - state.global_step
        left = None
        if speed:
            reads = -(-ahead // args.eval_steps)
            tokens = self._epoch_tokens * args.num_train_epochs * ahead / state.max_steps
            left = round(tokens / speed + reads * self._valid_seconds, 1)
        self._events.write(
            "step",
            step=state.global_step,
            epoch=round(state.epoch or 0.0, 3),
            loss=float(logs["loss"]),
            learning_rate=float(logs["learning_rate"]),
            tokens=trainer.tokens,
            tokens_per_s=round(speed, 1),
            seconds_left=left,
            memory=memory(),
        )
        if state.global_step % args.eval_steps == 0:
            self._valid_started = time.monotonic()

    def on_evaluate(
        self, args: Any, state: Any, _control: Any, metrics: Any = None, **_: Any
    ) -> None:
        """A validation."""
        if self._valid_started is not None:
            self._valid_seconds = time.monotonic() - self._valid_started
            self._valid_started = None
        if not state.is_world_process_zero:
            return
        gained = metrics[args.metric_for_best_model] - (state.best_metric or 0.0)
        best = state.best_metric is None or (gained > 0 if args.greater_is_better else gained < 0)
        self._events.write(
            "valid",
            step=state.global_step,
            loss=metrics["eval_loss"],
            auroc=metrics["eval_auroc"],
            f1=metrics["eval_f1"],
            n=metrics["eval_pairs"],
            best=best,
        )

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """A checkpoint."""
        if state.is_world_process_zero:
            path = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            self._events.write(
                "checkpoint",
                step=state.global_step,
                path=f"{path.parent.name}/{path.name}",
                best=state.best_global_step == state.global_step,
            )


def memory() -> int:
    """The most memory that was in use so far, in bytes: of the GPU where there is one, else of the process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


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
