"""Runs one training: loads the base, trains, keeps the best or the last checkpoint, converts it to GGUF, checks parity,
writes the model card."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed

from engine.base.errors import AdapterError
from engine.base.files import sync_tree, write_atomically
from engine.model.adapter_files import AdapterOrigin, refuse_without_numbers
from engine.training.config import TrainConfig
from engine.training.events import Event, EventLog, RunDirectory, read_events
from training.base import HubTokenizer, add_adapter, load_base
from training.checkpoints import last_checkpoint, step_of
from training.event_writer import EventWriter, write_samples
from training.examples import Datasets, read_datasets
from training.gguf_adapter import (
    ParitySkipped,
    architecture_of,
    check_parity,
    convert,
    fingerprint_of,
)
from training.loop import (
    AdapterTrainer,
    ExampleDataset,
    StopCallback,
    arguments,
    budget_for,
    collate,
)
from training.validation import validate


def train(run: RunDirectory, config: TrainConfig, events: EventLog) -> None:
    """Trains, or resumes at the last checkpoint; writes the event `done` at the end.

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
    model = add_adapter(model, config)
    writer = EventWriter(events, data, run.stop.exists)
    stop = StopCallback(run.stop.exists, _on_sigterm())
    trainer = _make_trainer(
        run, config, model=model, tokenizer=tokenizer, data=data, writer=writer, stop=stop
    )
    writer.trainer = trainer

    def sample(step: int) -> None:
        """Writes samples of what the model writes after a step."""
        write_samples(
            events,
            step,
            model,
            tokenizer,
            logs=data.selection,
            limit=config.max_tokens,
        )

    checkpoint = last_checkpoint(
        run.checkpoints, lambda message: events.write("warning", message=message)
    )
    _write_started(events, config, data, step_of(checkpoint) if checkpoint else 0)
    if checkpoint is None:
        sample(0)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    state = trainer.state
    sample(state.global_step)
    model.save_pretrained(str(run.adapter))
    reason = "stopped" if stop.stopped else "finished"
    _finish(run, config, events, model=model, tokenizer=tokenizer, state=state, reason=reason)


def _make_trainer(
    run: RunDirectory,
    config: TrainConfig,
    *,
    model: Any,
    tokenizer: HubTokenizer,
    data: Datasets,
    writer: EventWriter,
    stop: StopCallback,
) -> AdapterTrainer:
    """Returns the trainer of a run, which tells `writer` and `stop` of each step."""
    cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    return AdapterTrainer(
        validation=lambda: validate(
            model,
            tokenizer,
            data.selection,
            config.max_tokens,
            config.seed,
            progress=writer.validating,
        ),
        budget=budget_for(config, data.examples),
        config=config,
        model=model,
        args=arguments(config, run.checkpoints, _optimizer(config), cpu=cpu),
        train_dataset=ExampleDataset(data.examples),
        data_collator=collate,
        callbacks=[writer, stop],
    )


def _optimizer(config: TrainConfig) -> str:
    """Returns the name of AdamW in `transformers`; who starts the run has checked that its library is there."""
    if not torch.cuda.is_available():
        return "adamw_torch"
    return "adamw_bnb_8bit" if config.eight_bit else "adamw_torch_fused"


def _on_sigterm() -> Callable[[], bool]:
    """Catches SIGTERM from now on; the function returned says whether it came."""
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    return lambda: bool(received)


def _write_started(events: EventLog, config: TrainConfig, data: Datasets, step: int) -> None:
    """Writes the event `started`, with the number of labels of each kind."""
    examples = data.examples
    labels = [example.tokens[index] for example in examples for index in example.targets]
    ends = 0 if config.recipe == "no-end-tag" else len(examples)
    events.write(
        "started",
        step=step,
        steps=max(1, round(math.ceil(len(examples) / config.batch) * config.epochs)),
        examples=len(examples),
        tokens=sum(len(example.tokens) for example in examples),
        end_labels=ends,
        other_labels=len(labels) - ends,
        valid=len(data.selection),
        pid=os.getpid(),
    )


def _finish(
    run: RunDirectory,
    config: TrainConfig,
    events: EventLog,
    *,
    model: Any,
    tokenizer: HubTokenizer,
    state: Any,
    reason: str,
) -> None:
    """Converts the adapter, checks it, and writes its card and the event `done`.

    Args:
        state: State of the trainer at its end.
        reason: Why it ended, as the event `done` says it.
    """
    data = run.train.read_bytes()
    origin = AdapterOrigin(
        base_fingerprint=fingerprint_of(model),
        base_name=config.base_name,
        data_fingerprint=hashlib.sha256(data).hexdigest(),
        recipe=config.recipe,
        end_token=tokenizer.end_token,
    )
    convert(run.adapter, model.config, run.adapter_gguf, origin)
    refuse_without_numbers(run.adapter_gguf)
    best = _validation_at(run, state.best_global_step)
    card = {
        **asdict(origin),
        # File names without folders: the card is passed on with the adapter.
        "config": asdict(config)
        | {"base": Path(config.base).name, "base_gguf": Path(config.base_gguf).name},
        "steps": state.global_step,
        "best_step": state.best_global_step,
        "conversations": len(data.splitlines()),
        "auroc": best["auroc"],
        "f1": best["f1"],
        "parity": _parity(run, config, events),
    }
    write_atomically(run.card, json.dumps(card, indent=1) + "\n")
    sync_tree(run.path)
    events.write(
        "done",
        step=state.global_step,
        reason=reason,
        best_step=state.best_global_step,
        adapter=run.adapter.name,
        adapter_gguf=run.adapter_gguf.name,
    )


def _validation_at(run: RunDirectory, step: int) -> Event:
    """Returns the last event `valid` of a step; a resumed run may have validated there twice."""
    events, _ = read_events(run.events)
    return next(
        event for event in reversed(events) if event["event"] == "valid" and event["step"] == step
    )


def _parity(run: RunDirectory, config: TrainConfig, events: EventLog) -> dict[str, Any]:
    """Compares the trainer with llama.cpp; returns the result for the card.

    Raises:
        AdapterError: They differ.
    """
    try:
        result = check_parity(run, config)
    except ParitySkipped as skipped:
        events.write("parity", skipped=str(skipped))
        return {"skipped": str(skipped)}
    events.write("parity", **result.as_event())
    if not result.passed:
        raise AdapterError(
            f"The adapter cannot be used in llama.cpp: {result.failing}.",
            "Train for more steps."
            if result.moved == 0
            else "It works with PEFT; please report this.",
        )
    return result.as_event()
