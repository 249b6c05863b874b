"""The training loop: that of `transformers`, with the loss only where there is something to predict, validation by the
truncation test, and checkpoints that are whole or not there."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils.rnn import pad_sequence
from transformers import Trainer, TrainerCallback, TrainerControl, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import get_last_checkpoint

from engine.errors import ModelError
from engine.run_directory.config import TrainConfig
from engine.run_directory.events import write_atomically
from engine.run_directory.microbatches import parts, room_of, width
from training.choosing import best_of
from training.curves import Validation
from training.examples import Example

IGNORED = -100
"""The label of what is not to be predicted."""

VALIDATION, BEST = "validation", "eval_rank"
"""Keys of the figures of a validation in the trainer's history, and of its rank."""

WHOLE = "whole"
"""A file that a checkpoint gets when all else of it is written."""


class Interrupted(Exception):
    """The process was asked to end at once; what happened since the last checkpoint is done again on resuming."""


class Examples(torch.utils.data.Dataset[dict[str, Any]]):
    """Examples as the loop takes them."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, at: int) -> dict[str, Any]:
        one = self._examples[at]
        tokens = torch.tensor(one.tokens)
        labels = torch.full_like(tokens, IGNORED)
        labels[one.targets] = tokens[one.targets]
        weights = torch.zeros(len(one.tokens))
        weights[one.targets] = torch.tensor(one.weights)
        length = len(one.tokens)
        return {"input_ids": tokens, "labels": labels, "weights": weights, "length": length}


def collate(rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Examples as one batch, padded at the end, to a length that comes again.

    Returns:
        `input_ids`, `labels` and `attention_mask`, shape (rows, tokens), and `weights` of the same shape: what each
        label counts in the loss.
    """
    tokens = pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    labels = pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=IGNORED)
    room = (0, width(tokens.shape[1]) - tokens.shape[1])
    tokens, labels = pad(tokens, room), pad(labels, room, value=IGNORED)
    weights = pad(pad_sequence([row["weights"] for row in rows], batch_first=True), room)
    lengths = torch.tensor([row["length"] for row in rows])
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    return {
        "input_ids": tokens,
        "labels": labels,
        "weights": weights,
        "attention_mask": mask.long(),
    }


class AdapterTrainer(Trainer):
    """Trains an adapter; `validation` is asked for figures where `transformers` would read an evaluation set."""

    def __init__(
        self,
        *,
        validation: Callable[[], Validation],
        room: int,
        by_loss: bool = False,
        **options: Any,
    ) -> None:
        """As the base.

        Args:
            room: Tokens that are in memory together, see `engine.run_directory.microbatches`.
            by_loss: Whether the best validation is that of the lowest loss, see `training.choosing`.
        """
        # Evaluation is asked for by naming a set; what it reads is the validation's affair.
        super().__init__(eval_dataset=Examples([]), **options)
        self.control: TrainerControl
        self._validation, self._room, self._by_loss = validation, room, by_loss
        self.tokens = 0
        """Tokens read in training since the process began; each of several is taken to read as many."""
        self.seconds = 0.0
        """Seconds spent on them."""

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Weighed mean of -log p over the labels of the whole step. Only where there is one is the vocabulary projected
        on."""
        asked = inputs["labels"] != IGNORED
        wanted, weights = inputs["labels"][asked], inputs["weights"][asked]
        before = asked.roll(-1, 1)
        # No mask: padding stands at the end, where no token that counts attends to it, and without a mask attention
        # takes its fastest way.
        with _projected(self.accelerator.unwrap_model(model), before):
            outputs = model(input_ids=inputs["input_ids"], use_cache=False)
        loss = (cross_entropy(outputs.logits.float(), wanted, reduction="none") * weights).sum()
        if num_items_in_batch is None:
            loss = loss / wanted.numel()
        else:
            # Each process adds its part, and the gradients of several are averaged.
            loss = loss * self.accelerator.num_processes / num_items_in_batch
        return (loss, outputs) if return_outputs else loss

    def training_step(
        self,
        model: Any,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Forward and backward of one step, part by part, counted and timed."""
        start = time.perf_counter()
        lengths = inputs["attention_mask"].sum(1).tolist()
        split = parts(lengths, self._room)
        losses: list[torch.Tensor] = []
        for number, rows in enumerate(split, 1):
            longest = width(max(lengths[row] for row in rows))
            part = {name: found[rows, :longest] for name, found in inputs.items()}
            # Several processes add up their gradients once a step.
            apart = self.accelerator.no_sync(model) if number < len(split) else nullcontext()
            with apart:
                loss = super().training_step(model, part, num_items_in_batch)
            if not math.isfinite(float(loss)):
                raise ModelError("The loss is no number any more.", "Lower learning_rate.")
            losses.append(loss)
            if number < len(split):
                self.control = self.callback_handler.on_substep_end(
                    self.args, self.state, self.control
                )
        self.seconds += time.perf_counter() - start
        self.tokens += sum(lengths) * self.accelerator.num_processes
        return torch.stack(losses).sum()

    def evaluate(self, *_args: Any, **_options: Any) -> dict[str, float]:
        """Figures of a validation, and its rank: its step if it is the best so far, else 0."""
        found = asdict(self._validation())
        # Checkpoints carry this list, so that a run that goes on knows what it had.
        self.state.log_history.append({"step": self.state.global_step, VALIDATION: found})
        known = [
            Validation(**one[VALIDATION]) for one in self.state.log_history if VALIDATION in one
        ]
        best = best_of(known, by_loss=self._by_loss) == len(known) - 1
        figures = {**found, BEST: self.state.global_step if best else 0}
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, figures
        )
        return figures

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        path = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        (path / WHOLE).write_text("")


@contextmanager
def _projected(model: Any, places: torch.Tensor) -> Iterator[None]:
    """Lets the output projection of a model see the states at some places only, shape (rows, tokens); its logits are
    then of shape (places, vocabulary)."""
    hook = model.get_output_embeddings().register_forward_pre_hook(
        lambda _module, given: (given[0][places],)
    )
    try:
        yield
    finally:
        hook.remove()


def room_for(config: TrainConfig, examples: Sequence[Example]) -> int:
    """Tokens that are in memory together in a run over these examples."""
    longest = max(len(one.tokens) for one in examples)
    return room_of(config.rows, config.batch, longest)


def arguments(config: TrainConfig, folder: Path, optimiser: str, *, cpu: bool) -> TrainingArguments:
    """What `transformers` is told of a run."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    return TrainingArguments(
        output_dir=str(folder),
        # A whole step; the trainer splits it.
        per_device_train_batch_size=max(1, config.batch // processes),
        num_train_epochs=config.epochs,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        warmup_steps=config.warmup,  # below 1 a share
        lr_scheduler_type="cosine",
        optim=optimiser,
        activation_checkpointing=config.recompute,
        activation_checkpointing_kwargs={"use_reentrant": False},
        remove_unused_columns=False,
        eval_strategy="steps",
        eval_steps=config.valid_every,
        save_strategy="steps",
        save_steps=config.valid_every,
        save_total_limit=3,  # the best and the last two
        load_best_model_at_end=True,
        metric_for_best_model=BEST,
        greater_is_better=True,
        logging_steps=1,
        logging_nan_inf_filter=False,
        seed=config.seed,
        data_seed=config.seed,
        use_cpu=cpu,
        ddp_find_unused_parameters=False,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=not cpu,
    )


def last_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint that is whole, ready to go on with; what a killed process left half written is removed."""
    if not folder.is_dir():
        return None
    for path in folder.glob("checkpoint-*"):
        if not (path / WHOLE).exists():
            shutil.rmtree(path)
    found = get_last_checkpoint(str(folder))
    if found is None:
        return None
    _name_best(folder, Path(found) / TRAINER_STATE_NAME)
    return Path(found)


def _name_best(folder: Path, state: Path) -> None:
    """A checkpoint names the best one by its whole path, which is no longer there where the project has moved."""
    known = json.loads(state.read_text("utf-8"))
    best = known.get("best_model_checkpoint")
    if best and Path(best).parent != folder:
        known["best_model_checkpoint"] = str(folder / Path(best).name)
        write_atomically(state, json.dumps(known, indent=2) + "\n")


class StopCallback(TrainerCallback):
    """Ends a run when it is asked to: after a step with a checkpoint, or at once without."""

    def __init__(self, wanted: Callable[[], bool], at_once: Callable[[], bool]) -> None:
        self._wanted, self._at_once = wanted, at_once
        self.stopped = False

    def on_substep_end(self, *_args: Any, **_options: Any) -> None:
        """Looks between the parts of a step."""
        if self._at_once():
            raise Interrupted

    def on_step_end(self, _args: Any, state: Any, control: Any, **_options: Any) -> None:
        """Looks after a step; the last step of a run is validated too."""
        if self._at_once():
            raise Interrupted
        if state.global_step >= state.max_steps:
            control.should_save = control.should_evaluate = True
        elif self._wanted():
            self.stopped = True
            control.should_save = control.should_evaluate = control.should_training_stop = True
