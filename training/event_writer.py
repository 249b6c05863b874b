"""Writes the events of a run while it trains: one for each step, validation and checkpoint, and samples of its text.

`engine.training.events` lists the events and says what each of their fields holds.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainingArguments

from engine.completeness.scoring import LogItem
from engine.training.events import EventLog
from engine.training.presets import VALIDATION_SPEEDUP
from training.base import HubTokenizer
from training.examples import Datasets, Log, token_windows
from training.loop import BEST, AdapterTrainer
from training.validation import CHANCE, Point, curve

PROGRESS_SECONDS = 2.0
"""Least time between two `validating` events."""


SAMPLED_CONVERSATIONS = 3
"""Conversations that are sampled."""

SHOWN_CHARS = 160
"""Characters of text before the boundary that are shown with a sample."""

WRITTEN_TOKENS = 24
"""Tokens that the model writes for a sample."""


class EventWriter(TrainerCallback):
    """A callback of the trainer that writes events; set `trainer` once it exists."""

    def __init__(self, events: EventLog, data: Datasets, stopping: Callable[[], bool]) -> None:
        """Creates the callback.

        Args:
            stopping: Returns whether the run was asked to end after its current step or validation.
        """
        self._events, self._data, self._stopping = events, data, stopping
        self._epoch_tokens = sum(len(example.tokens) for example in data.examples)
        self.trainer: AdapterTrainer | None = None
        self._last_validation_seconds: float | None = None
        self._validation_started: float | None = None
        self._last_progress = -math.inf

    def on_log(self, args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        """Writes a `step` event."""
        trainer = self.trainer
        if trainer is None or "loss" not in (logs or {}):
            return
        self._events.write(
            "step",
            step=state.global_step,
            epoch=round(state.epoch or 0.0, 3),
            loss=float(logs["loss"]),
            learning_rate=float(logs["learning_rate"]),
            tokens=trainer.tokens,
            tokens_per_s=round(self._speed(trainer), 1),
            seconds_left=self._seconds_left(
                trainer, validation_due=self._validation_is_due(trainer)
            ),
            memory=peak_memory(),
        )

    def validating(self, done: int) -> None:
        """Writes a `validating` event, at most every `PROGRESS_SECONDS`; `done` is how many conversations are read."""
        trainer, now = self.trainer, time.monotonic()
        if self._validation_started is None:
            self._validation_started = now
        if trainer is None or now - self._last_progress < PROGRESS_SECONDS:
            return
        self._last_progress = now
        conversations = len(self._data.selection)
        passed_seconds = now - self._validation_started
        # The clock starts after the first conversation, so the seconds are those of `done - 1`.
        this_validation_seconds = (
            passed_seconds / (done - 1) * conversations
            if done > 1
            else self._expected_validation_seconds(trainer)
        )
        seconds_left = self._seconds_left(trainer)
        if seconds_left is not None:
            seconds_left = round(
                seconds_left + max(0.0, this_validation_seconds - passed_seconds), 1
            )
        self._events.write(
            "validating",
            step=trainer.state.global_step,
            done=done,
            of=conversations,
            seconds_left=seconds_left,
        )

    def _speed(self, trainer: AdapterTrainer) -> float:
        """Returns the training speed so far in tokens a second; 0 before the first step."""
        return trainer.tokens / trainer.seconds if trainer.seconds else 0.0

    def _expected_validation_seconds(self, trainer: AdapterTrainer) -> float:
        """Returns the seconds of one validation: those of the last one; before it, estimated from the speed of
        training."""
        if self._last_validation_seconds is not None:
            return self._last_validation_seconds
        speed = self._speed(trainer)
        return self._data.selection_tokens / (VALIDATION_SPEEDUP * speed) if speed else 0.0

    def _validation_is_due(self, trainer: AdapterTrainer) -> bool:
        """Returns whether a validation comes before the next step."""
        step, args = trainer.state.global_step, trainer.args
        return self._stopping() or step % args.eval_steps == 0 or step >= trainer.state.max_steps

    def _seconds_left(
        self, trainer: AdapterTrainer, *, validation_due: bool = False
    ) -> float | None:
        """Returns the seconds to the end of the run; None before the speed is known.

        Args:
            validation_due: Whether the validation after this step is still to come.
        """
        speed = self._speed(trainer)
        if not speed:
            return None
        args: TrainingArguments = trainer.args
        step, steps = trainer.state.global_step, max(1, trainer.state.max_steps)
        steps_left = 0 if self._stopping() else steps - step
        tokens_left = self._epoch_tokens * args.num_train_epochs * steps_left / steps
        # Validations come every `eval_steps` steps, and after the last step: with 8, from step 10 of 20 on, there is
        # one after step 16 and one after step 20, which is no multiple of 8.
        eval_steps = int(args.eval_steps)
        validations = (step + steps_left) // eval_steps - step // eval_steps
        validations += int(steps_left > 0 and steps % eval_steps > 0)
        validation_seconds = (
            validations + int(validation_due)
        ) * self._expected_validation_seconds(trainer)
        seconds: float = tokens_left / speed + validation_seconds
        return round(seconds, 1)

    def on_evaluate(
        self, _args: Any, state: Any, _control: Any, metrics: Any = None, **_: Any
    ) -> None:
        """Writes a `valid` event."""
        if self._validation_started is not None:
            self._last_validation_seconds = time.monotonic() - self._validation_started
            self._validation_started = None
        self._events.write(
            "valid",
            step=state.global_step,
            loss=metrics["loss"],
            # A number in each event: an AUROC that is unknown, for want of pairs, counts as chance.
            auroc=CHANCE if metrics["auroc"] is None else metrics["auroc"],
            f1=metrics["f1"] or 0.0,
            n=metrics["pairs"],
            # The step, where its weights are the ones to keep so far; else 0.
            best=metrics[BEST] > 0,
        )

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Writes a `checkpoint` event."""
        path = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self._events.write(
            "checkpoint",
            step=state.global_step,
            path=f"{path.parent.name}/{path.name}",
            best=state.best_global_step == state.global_step,
        )


def peak_memory() -> int:
    """Returns the peak memory so far in bytes: of the GPU where there is one, else of the process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    # In bytes on macOS, in KiB on Linux.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# Samples of what the model writes at boundaries of conversations of the selection part, before and after training


def write_samples(
    events: EventLog,
    step: int,
    model: Any,
    tokenizer: HubTokenizer,
    logs: Sequence[Log],
    limit: int,
) -> None:
    """Writes two `sample` events for each of the first conversations: at a boundary in the middle and at the last.

    A boundary is a place where the conversation could end.

    Args:
        step: Optimizer step that the model is at; 0 before training.
        logs: Logs of the selection part; those with a single boundary are passed over.
        limit: Longest window in tokens.
    """
    model.eval()
    for log in [log for log in logs if len(log.item.boundaries) > 1][:SAMPLED_CONVERSATIONS]:
        last = len(log.item.boundaries) - 1
        # The probabilities at each boundary, in their order.
        points = curve(model, tokenizer, log, limit)
        for boundary in (last // 2, last):
            _write_sample(
                events,
                step,
                model,
                tokenizer,
                log=_cut_after(log, boundary),
                point=points[boundary],
                limit=limit,
            )


def _cut_after(log: Log, boundary: int) -> Log:
    """Returns the log up to a boundary, given by its index, and one piece more where the log goes on."""
    boundaries = log.item.boundaries[: boundary + 1]
    texts = log.item.texts
    if len(boundaries) < len(log.item.boundaries):
        texts = texts[: boundaries[-1] + 2]
    return Log(log.id, LogItem(texts, boundaries, log.item.pinned_pieces))


def _write_sample(
    events: EventLog,
    step: int,
    model: Any,
    tokenizer: HubTokenizer,
    *,
    log: Log,
    point: Point,
    limit: int,
) -> None:
    """Writes the event of one sample: both probabilities at a boundary, and what the model writes there.

    Args:
        log: The log up to that boundary, which is its last, and one piece more where it goes on.
        point: The probabilities at the boundary.
        limit: Longest window in tokens.
    """
    last = log.item.boundaries[-1]
    # The last window ends where the model is to go on.
    *_, window = token_windows(tokenizer, log.item, limit)
    tokens = torch.tensor([window.tokens], device=model.device)
    with torch.inference_mode():
        written = model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=WRITTEN_TOKENS,
            do_sample=False,  # the most probable token each time
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
