"""Runs one training: loads the base, trains, converts the best or the last checkpoint to GGUF, and writes its card.

`engine.training.events` lists the events that a run writes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from msgspec import structs
from transformers import TrainerCallback, set_seed

from engine.base.errors import ModelError
from engine.base.files import sync_tree, write_atomically
from engine.completeness.scoring import LogItem
from engine.model.adapter_files import AdapterOrigin, refuse_broken_weights
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Tokenize
from engine.training.base import count_steps
from engine.training.config import TrainConfig
from engine.training.events import Event, EventLog, read_events
from engine.training.run_directory import RunDirectory
from training import loop
from training.base import HubTokenizer, add_adapter, load_base
from training.checkpoints import last_checkpoint, step_of
from training.examples import Datasets, Log, read_datasets, token_windows
from training.gguf_adapter import architecture_of, convert, fingerprint_of
from training.validation import CHANCE, Point, Validation, curve, validate

COMPARED_LOGS = 6
"""Number of logs that both the trainer and llama.cpp split into tokens before a run."""

COMPARED_CONTEXT = 512
"""Tokens of the context of the model that splits logs into tokens; it reads nothing."""

SAMPLED_CONVERSATIONS = 3

SHOWN_CHARS = 160
"""Most characters of the text before the boundary in a sample."""

WRITTEN_TOKENS = 24
"""Number of tokens that the model writes for a sample."""


@dataclass(frozen=True, slots=True)
class _Training:
    """What the parts of one training share.

    Attributes:
        run: The run directory.
        config: The settings of the run.
        events: Gets the events of the run.
        model: The model of `transformers` with its adapter.
        tokenizer: The tokenizer of the base.
        data: The training examples, and the logs of the validation.
    """

    run: RunDirectory
    config: TrainConfig
    events: EventLog
    model: Any
    tokenizer: HubTokenizer
    data: Datasets


def train(run: RunDirectory, config: TrainConfig, events: EventLog) -> None:
    """Trains a run, or resumes it at its last checkpoint; writes the event `done` at the end.

    Raises:
        DataError: The data cannot be trained on.
        ModelError: The base cannot be used.
        Interrupted: The process was asked to end at once.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    set_seed(config.seed)
    model, tokenizer = load_base(config)
    architecture_of(model.config)
    data = read_datasets(run, config, tokenizer)
    refuse_other_tokens(Path(config.base), tokenizer, data.selection, run.path / "tokens.log")
    model = add_adapter(model, config)
    training = _Training(run, config, events, model, tokenizer, data)
    stop = loop.StopCallback(run.stop_file.exists, _on_sigterm())
    trainer = _make_trainer(training, stop)
    checkpoint = last_checkpoint(
        run.checkpoints, lambda message: events.write("warning", message=message)
    )
    _write_started(training, step_of(checkpoint) if checkpoint else 0)
    if checkpoint is None:
        _write_samples(training, 0)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    _write_samples(training, trainer.state.global_step)
    model.save_pretrained(str(run.adapter))
    _finish(training, trainer.state, "stopped" if stop.stopped else "finished")


def refuse_other_tokens(
    base: Path, tokenizer: HubTokenizer, logs: Sequence[Log], log_file: Path
) -> None:
    """Checks that llama.cpp splits text into the tokens on which the adapter is trained.

    A base that is a folder is not checked, because llama.cpp cannot read it.

    Args:
        logs: Logs of which the first few are split.
        log_file: The log of the process in which llama.cpp runs.

    Raises:
        ModelError: The tokens differ, or llama.cpp cannot load the base.
    """
    if not base.is_file():
        return
    texts = ["".join(log.item.texts) for log in logs[:COMPARED_LOGS]]
    process = ModelProcess(log_file)
    try:
        process.load(base, LoadOptions(context=COMPARED_CONTEXT))
        tokens = process.ask(Tokenize(texts))
    finally:
        process.close()
    if tokens != [tokenizer.tokenize(text) for text in texts]:
        raise ModelError(
            f"llama.cpp splits text into other tokens than the tokenizer of {base.name}.",
            "Train on another base: the adapter could not be used.",
        )


def _make_trainer(training: _Training, stop: loop.StopCallback) -> loop.AdapterTrainer:
    """Returns the trainer of a run, which writes events and calls `stop` after each step."""
    config, data = training.config, training.data

    def validation() -> Validation:
        """Writes the event `validating` and validates, which may take minutes."""
        training.events.write("validating", step=trainer.state.global_step)
        return validate(
            training.model, training.tokenizer, data.selection, config.max_tokens, config.seed
        )

    writer = EventWriter(training.events)
    cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    trainer = loop.AdapterTrainer(
        validation=validation,
        budget=loop.budget_for(config, data.examples),
        config=config,
        model=training.model,
        args=loop.trainer_arguments(config, training.run.checkpoints, _optimizer(config), cpu=cpu),
        train_dataset=data.examples,
        data_collator=loop.collate,
        callbacks=[writer, stop],
    )
    writer.trainer = trainer
    return trainer


def _optimizer(config: TrainConfig) -> str:
    """Returns the name of AdamW in `transformers`; the program that starts the run has checked its library."""
    if not torch.cuda.is_available():
        return "adamw_torch"
    return "adamw_bnb_8bit" if config.eight_bit else "adamw_torch_fused"


def _on_sigterm() -> Callable[[], bool]:
    """Catches SIGTERM from now on, and returns a function that returns whether the signal came."""
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    return lambda: bool(received)


def _write_started(training: _Training, step: int) -> None:
    """Writes the event `started`, with the number of labels of each kind.

    Args:
        step: The step after which the process begins.
    """
    config, examples = training.config, training.data.examples
    labels = sum(len(example.targets) for example in examples)
    ends = 0 if config.recipe == "no-end-tag" else len(examples)
    training.events.write(
        "started",
        step=step,
        steps=count_steps(config, len(examples)),
        examples=len(examples),
        tokens=sum(len(example.tokens) for example in examples),
        end_labels=ends,
        other_labels=labels - ends,
        valid=len(training.data.selection),
        pid=os.getpid(),
    )


def _finish(training: _Training, state: Any, reason: str) -> None:
    """Converts the adapter, and writes its card and the event `done`.

    Args:
        state: State of the trainer at the end.
        reason: The reason of the end in the event `done`.
    """
    run, config, model = training.run, training.config, training.model
    data = run.train.read_bytes()
    origin = AdapterOrigin(
        base_fingerprint=fingerprint_of(model),
        base_name=config.base_name,
        data_fingerprint=hashlib.sha256(data).hexdigest(),
        recipe=config.recipe,
        end_token=training.tokenizer.end_token,
    )
    convert(run.adapter, model.config, run.adapter_gguf, origin)
    refuse_broken_weights(run.adapter_gguf)
    best = _validation_of_step(run, state.best_global_step)
    card = {
        **asdict(origin),
        # file names without folders, because the card is passed on with the adapter
        "config": structs.asdict(config) | {"base": Path(config.base).name},
        "steps": state.global_step,
        "best_step": state.best_global_step,
        "conversations": len(data.splitlines()),
        "auroc": best["auroc"],
        "f1": best["f1"],
    }
    write_atomically(run.card, json.dumps(card, indent=1) + "\n")
    sync_tree(run.path)
    training.events.write(
        "done",
        step=state.global_step,
        reason=reason,
        best_step=state.best_global_step,
        adapter=run.adapter.name,
        adapter_gguf=run.adapter_gguf.name,
    )


def _validation_of_step(run: RunDirectory, step: int) -> Event:
    """Returns the last event `valid` of a step; a resumed run may have validated after that step twice."""
    events, _ = read_events(run.events)
    return next(
        event for event in reversed(events) if event["event"] == "valid" and event["step"] == step
    )


# The events of a run while it trains


class EventWriter(TrainerCallback):
    """A callback of the trainer that writes events.

    Attributes:
        trainer: The trainer; the caller sets it once it exists.
    """

    def __init__(self, events: EventLog) -> None:
        """Creates the callback."""
        self._events = events
        self.trainer: loop.AdapterTrainer | None = None
        self._began, self._steps = 0.0, 0

    def on_train_begin(self, *_args: Any, **_options: Any) -> None:
        """Starts the clock."""
        self._began = time.monotonic()

    def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        """Writes a `step` event for a log entry with a loss; the time left follows from the mean time of the steps of
        this process, validations included."""
        trainer = self.trainer
        if trainer is None or "loss" not in (logs or {}):
            return
        self._steps += 1
        seconds_a_step = (time.monotonic() - self._began) / self._steps
        self._events.write(
            "step",
            step=state.global_step,
            epoch=round(state.epoch or 0.0, 3),
            loss=float(logs["loss"]),
            learning_rate=float(logs["learning_rate"]),
            tokens=trainer.tokens,
            tokens_per_s=round(trainer.tokens / trainer.seconds, 1),
            seconds_left=round(seconds_a_step * (state.max_steps - state.global_step), 1),
            memory=peak_memory(),
        )

    def on_evaluate(
        self, _args: Any, state: Any, _control: Any, metrics: Any = None, **_: Any
    ) -> None:
        """Writes a `valid` event."""
        self._events.write(
            "valid",
            step=state.global_step,
            loss=metrics["loss"],
            # each event has a number: an AUROC that is unknown without pairs counts as chance
            auroc=CHANCE if metrics["auroc"] is None else metrics["auroc"],
            f1=metrics["f1"] or 0.0,
            n=metrics["pairs"],
            # the figure is 0 where the weights of this step are not the best so far
            best=metrics[loop.BEST] > 0,
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


# Samples: the output of the model at boundaries of conversations of the selection part, before and after training


def _write_samples(training: _Training, step: int) -> None:
    """Writes two `sample` events for each of the first conversations of the selection part: at a boundary in the middle
    and at the last.

    A boundary is a place where the conversation could end. Conversations with a single one are passed over.

    Args:
        step: The optimizer step after which the model is sampled; 0 before training.
    """
    training.model.eval()
    logs = [log for log in training.data.selection if len(log.item.boundaries) > 1]
    for log in logs[:SAMPLED_CONVERSATIONS]:
        last = len(log.item.boundaries) - 1
        points = curve(training.model, training.tokenizer, log, training.config.max_tokens)
        for boundary in (last // 2, last):
            _write_sample(training, step, _cut_log(log, boundary), points[boundary])


def _cut_log(log: Log, boundary: int) -> Log:
    """Returns the log up to a boundary, given by its index, and one piece more where the log goes on."""
    boundaries = log.item.boundaries[: boundary + 1]
    texts = log.item.texts
    if len(boundaries) < len(log.item.boundaries):
        texts = texts[: boundaries[-1] + 2]
    return Log(log.id, LogItem(texts, boundaries, log.item.pinned_pieces))


def _write_sample(training: _Training, step: int, log: Log, point: Point) -> None:
    """Writes the event of one sample: both probabilities at a boundary, and the text that the model writes there.

    Args:
        log: The log up to that boundary, which is its last one, and one piece more where the conversation goes on.
        point: The probabilities at the boundary.
    """
    model, tokenizer = training.model, training.tokenizer
    last = log.item.boundaries[-1]
    # the last window ends where the model has to go on
    *_, window = token_windows(tokenizer, log.item, training.config.max_tokens)
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
    training.events.write(
        "sample",
        step=step,
        id=log.id,
        text=log.item.texts[last][-SHOWN_CHARS:],
        ends=last + 1 >= len(log.item.texts),
        p_end=math.exp(point.log_end),
        p_continue=math.exp(point.log_continue),
        generated=tokenizer.text(written[0, tokens.shape[1] :].tolist()),
    )
