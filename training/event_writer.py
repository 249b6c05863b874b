"""What a run says while it works: one event for each step, validation and checkpoint."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainingArguments

from engine.run_directory.events import EventLog
from training.choosing import CHANCE
from training.datasets import Datasets
from training.loop import BEST, AdapterTrainer

READING = 2.0
"""How many times as fast a log is read as trained on: of a validation's length before there was one."""

VALIDATING_SECONDS = 2.0
"""Between two events that say how far a validation is."""


class EventWriter(TrainerCallback):
    """Writes events as the loop goes; the trainer is given once it exists."""

    def __init__(self, events: EventLog, data: Datasets, stopping: Callable[[], bool]) -> None:
        """Prepares for a run.

        Args:
            data: What is trained and validated on.
            stopping: Whether the run ends after the step or validation that it is at.
        """
        self._events, self._data, self._stopping = events, data, stopping
        self._epoch_tokens = sum(len(one.tokens) for one in data.examples)
        self.trainer: AdapterTrainer | None = None
        self._valid_seconds: float | None = None
        self._valid_started: float | None = None
        self._told = -math.inf

    def on_log(self, args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        """A step."""
        trainer = self.trainer
        if trainer is None or not state.is_world_process_zero or "loss" not in (logs or {}):
            return
        self._events.write(
            "step",
            step=state.global_step,
            epoch=round(state.epoch or 0.0, 3),
            loss=float(logs["loss"]),
            learning_rate=float(logs["learning_rate"]),
            tokens=trainer.tokens,
            tokens_per_s=round(self._speed(trainer), 1),
            seconds_left=self._left(trainer, reading=self._reads_now(trainer)),
            memory=memory(),
        )

    def validating(self, done: int) -> None:
        """So many of what is held out are read."""
        trainer, now = self.trainer, time.monotonic()
        if self._valid_started is None:
            self._valid_started = now
        if trainer is None or now - self._told < VALIDATING_SECONDS:
            return
        self._told = now
        of = self._data.held_out
        passed = now - self._valid_started
        # The first is over when the clock starts.
        whole = passed / (done - 1) * of if done > 1 else self._valid(trainer)
        rest = self._left(trainer)
        self._events.write(
            "validating",
            step=trainer.state.global_step,
            done=done,
            of=of,
            seconds_left=rest if rest is None else round(rest + max(0.0, whole - passed), 1),
        )

    def _speed(self, trainer: AdapterTrainer) -> float:
        return trainer.tokens / trainer.seconds if trainer.seconds else 0.0

    def _valid(self, trainer: AdapterTrainer) -> float:
        """Seconds of a validation: of the last one, or by the speed of training."""
        if self._valid_seconds is not None:
            return self._valid_seconds
        speed = self._speed(trainer)
        return self._data.held_out_tokens / (READING * speed) if speed else 0.0

    def _reads_now(self, trainer: AdapterTrainer) -> bool:
        """Whether a validation comes before the next step."""
        step, args = trainer.state.global_step, trainer.args
        return self._stopping() or step % args.eval_steps == 0 or step >= trainer.state.max_steps

    def _left(self, trainer: AdapterTrainer, *, reading: bool = False) -> float | None:
        """Seconds to the end of the run, with the validation of this step where it is still to come."""
        speed = self._speed(trainer)
        if not speed:
            return None
        args: TrainingArguments = trainer.args
        step, steps = trainer.state.global_step, max(1, trainer.state.max_steps)
        ahead = 0 if self._stopping() else steps - step
        tokens = self._epoch_tokens * args.num_train_epochs * ahead / steps
        # At every so many steps, and after the last.
        every = int(args.eval_steps)
        reads = (step + ahead) // every - step // every
        reads += int(ahead > 0 and steps % every > 0)
        seconds: float = tokens / speed + (reads + reading) * self._valid(trainer)
        return round(seconds, 1)

    def on_evaluate(
        self, _args: Any, state: Any, _control: Any, metrics: Any = None, **_: Any
    ) -> None:
        """A validation."""
        if self._valid_started is not None:
            self._valid_seconds = time.monotonic() - self._valid_started
            self._valid_started = None
        if not state.is_world_process_zero:
            return
        self._events.write(
            "valid",
            step=state.global_step,
            loss=metrics["loss"],
            auroc=CHANCE if metrics["auroc"] is None else metrics["auroc"],
            f1=metrics["f1"] or 0.0,
            n=metrics["pairs"],
            best=metrics[BEST] > 0,
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
