"""One run from its directory: load, check, train, keep the best, convert, compare, write the card."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers import EarlyStoppingCallback, set_seed

from engine.errors import ModelError
from engine.model.adapter_files import AdapterOrigin
from engine.run_directory.config import EVALUATOR, TrainConfig
from engine.run_directory.events import EventLog, RunDirectory, read_events, write_atomically
from training.base import HubTokenizer, add_adapter, load_base
from training.datasets import datasets
from training.event_writer import EventWriter
from training.examples import Example
from training.gguf_adapter import architecture_of, convert, fingerprint_of
from training.loop import (
    AdapterTrainer,
    Examples,
    StopCallback,
    arguments,
    collate,
    last_checkpoint,
    room_for,
)
from training.parity import ParitySkipped, check


def train(run: RunDirectory, config: TrainConfig, events: EventLog) -> None:
    """Trains, or goes on where an earlier process left off; ends with the event `done`.

    Raises:
        DataError: The data cannot be trained on.
        ModelError: The base cannot be used.
        Interrupted: The process was asked to end at once.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    set_seed(config.seed)
    cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    model, tokenizer = load_base(config)
    architecture_of(model.config)
    data = datasets(run, config, tokenizer)
    found = data.examples
    model = add_adapter(model, config)
    folder = run.checkpoints
    resumed = last_checkpoint(folder)
    telling = EventWriter(events, data, run.stop.exists)
    stop = StopCallback(run.stop.exists, _terminated())
    callbacks: list[Any] = [telling, stop]
    if config.patience:
        callbacks.append(EarlyStoppingCallback(config.patience))
    trainer = AdapterTrainer(
        validation=lambda: data.validate(model, telling.validating),
        # Choices are a part of what an evaluator learns; the loss is about all of it.
        by_loss=config.recipe == EVALUATOR,
        room=room_for(config, found),
        model=model,
        args=arguments(config, folder, _optimiser(events), cpu=cpu),
        train_dataset=Examples(found),
        data_collator=collate,
        callbacks=callbacks,
    )
    telling.trainer = trainer
    first = trainer.is_world_process_zero()
    step = _step(resumed)
    if first:
        _tell_start(events, config, found, tokenizer, data.held_out, step)
        if resumed is None:
            data.tell(events, 0, model)
    trainer.train(resume_from_checkpoint=None if resumed is None else str(resumed))
    if first:
        state = trainer.state
        data.tell(events, state.global_step, model)
        model.save_pretrained(str(run.adapter))
        reason = _reason(stop.stopped, state.global_step, state.max_steps)
        _finish(run, config, events, model, tokenizer, state, reason)


def _optimiser(events: EventLog) -> str:
    if not torch.cuda.is_available():
        return "adamw_torch"
    try:
        metadata.version("bitsandbytes")
    except metadata.PackageNotFoundError:
        events.write(
            "warning",
            message="bitsandbytes is not installed, so the optimiser's state takes four times the memory.",
        )
        return "adamw_torch_fused"
    return "adamw_bnb_8bit"


def _terminated() -> Any:
    """Whether SIGTERM came."""
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    return lambda: bool(seen)


def _step(checkpoint: Path | None) -> int:
    return 0 if checkpoint is None else int(checkpoint.name.rsplit("-", 1)[1])


def _tell_start(
    events: EventLog,
    config: TrainConfig,
    found: Sequence[Example],
    tokenizer: HubTokenizer,
    valid: int,
    step: int,
) -> None:
    labels = [one.tokens[at] for one in found for at in one.targets]
    ends = labels.count(tokenizer.end_token)
    events.write(
        "started",
        step=step,
        steps=max(1, round(-(-len(found) // config.batch) * config.epochs)),
        examples=len(found),
        tokens=sum(len(one.tokens) for one in found),
        end_labels=ends,
        other_labels=len(labels) - ends,
        valid=valid,
        pid=os.getpid(),
    )


def _reason(stopped: bool, step: int, steps: int) -> str:
    if stopped:
        return "stopped"
    return "finished" if step >= steps else "no-better"


def _finish(
    run: RunDirectory,
    config: TrainConfig,
    events: EventLog,
    model: Any,
    tokenizer: HubTokenizer,
    state: Any,
    reason: str,
) -> None:
    data = run.train.read_bytes()
    origin = AdapterOrigin(
        base_fingerprint=fingerprint_of(model),
        base_name=config.base_name,
        data_fingerprint=hashlib.sha256(data).hexdigest(),
        recipe=config.recipe,
        end_token=tokenizer.end_token,
    )
    convert(run.adapter, model.config, run.adapter_gguf, origin)
    validations = [one for one in read_events(run.events)[0] if one["event"] == "valid"]
    best = next(one for one in reversed(validations) if one["step"] == state.best_global_step)
    card = {
        **asdict(origin),
        # Files by name: a card goes where the adapter goes.
        "config": asdict(config)
        | {"base": Path(config.base).name, "base_gguf": Path(config.base_gguf).name},
        "steps": state.global_step,
        "best_step": state.best_global_step,
        "conversations": len(data.splitlines()),
        "cut": _cut(run),
        "auroc": best["auroc"],
        "f1": best["f1"],
        "parity": _parity(run, config, events),
    }
    write_atomically(run.card, json.dumps(card, indent=1) + "\n")
    events.write(
        "done",
        step=state.global_step,
        reason=reason,
        best_step=state.best_global_step,
        adapter=run.adapter.name,
        adapter_gguf=run.adapter_gguf.name,
    )


def _cut(run: RunDirectory) -> int | None:
    """How many of the conversations were cut to measure what incomplete ones cost; None where nobody said."""
    try:
        counts = json.loads(run.manifest.read_text("utf-8"))["counts"]
        return int(counts["cut"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parity(run: RunDirectory, config: TrainConfig, events: EventLog) -> dict[str, Any]:
    try:
        found = check(run, config)
    except ParitySkipped as skipped:
        events.write("parity", skipped=str(skipped))
        return {"skipped": str(skipped)}
    events.write("parity", **found.as_event())
    if not found.passed:
        raise ModelError(
            f"The adapter is of no use in llama.cpp: {found.failing}.",
            "Train for more steps."
            if found.moved == 0
            else "It works with PEFT; please report this.",
        )
    return found.as_event()
