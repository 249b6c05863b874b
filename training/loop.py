"""The training loop: the `Trainer` of `transformers` with a weighted loss, microbatches, validations and sealed
checkpoints.

The loss is that of the target tokens of the examples. The conversations of a step are trained in *microbatches*, the
parts that are in memory at one time. A validation is the truncation test on the selection part.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainerCallback, TrainerControl, TrainingArguments

from engine.base.errors import ModelError
from engine.training.base import find_token_budget, padded_length
from engine.training.config import TrainConfig
from training.checkpoints import VALIDATION_KEY, seal
from training.examples import Example
from training.validation import Validation, best_validation

WEIGHT_DECAY = 0.01

WARMUP_SHARE = 0.05
"""Share of the steps in which the learning rate rises, where the recipe has a warm-up."""

PASS_COST = 100
"""Fixed cost of one forward and backward pass, in tokens. On two cores with the default model a pass over 128 tokens
takes 0.53 s, and one over eight rows of 128 takes 2.75 s. It was not measured on a GPU."""

IGNORED = -100
"""Label of the tokens that are no targets."""

BEST = "eval_rank"
"""Key of the figure by which `transformers` compares validations, see `AdapterTrainer.evaluate`; higher is better."""


class Interrupted(Exception):
    """Raised when the process has to end at once; a resumed run repeats the steps since the last checkpoint."""


def collate(examples: Sequence[Example]) -> dict[str, torch.Tensor]:
    """Returns examples as one batch, a row for each, padded at the end to a multiple of `LENGTH_STEP`.

    The batch has `input_ids`, `labels` (`IGNORED` for tokens that are no targets), `attention_mask` and `weights` (of
    each label in the loss), each of shape (rows, tokens).
    """
    length = padded_length(max(len(example.tokens) for example in examples))
    tokens = torch.zeros((len(examples), length), dtype=torch.long)
    labels = torch.full_like(tokens, IGNORED)
    mask = torch.zeros_like(tokens)
    weights = torch.zeros(tokens.shape)
    for row, example in enumerate(examples):
        tokens[row, : len(example.tokens)] = torch.tensor(example.tokens)
        labels[row, example.targets] = tokens[row, example.targets]
        mask[row, : len(example.tokens)] = 1
        weights[row, example.targets] = torch.tensor(example.weights)
    return {"input_ids": tokens, "labels": labels, "weights": weights, "attention_mask": mask}


class AdapterTrainer(Trainer):
    """Trains an adapter; calls `validation` where `transformers` would use an evaluation set.

    Attributes:
        tokens: Number of tokens that were trained on since the process began.
        seconds: Seconds spent on these tokens.
    """

    def __init__(
        self,
        *,
        validation: Callable[[], Validation],
        budget: int,
        config: TrainConfig,
        **options: Any,
    ) -> None:
        """Creates the trainer.

        Args:
            validation: Validates the model in its present state.
            budget: Most tokens of a microbatch, see `engine.training.base.find_token_budget`.
            config: The config of the run.
            options: Options of `transformers.Trainer`.
        """
        # `transformers` evaluates only if it has an evaluation set; `evaluate` below does not use it
        super().__init__(eval_dataset=[], **options)
        self.control: TrainerControl
        self._validation, self._budget, self._config = validation, budget, config
        self.tokens, self.seconds = 0, 0.0

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Returns the weighted mean of -log p over the labels of the whole step: the weights of the labels of an
        example have mean 1 (`training.examples`), so the sum is divided by the number of labels.

        The first token of a row is no label. Logits are computed only where they are needed: the projection to the
        vocabulary is the largest part of a step of a small model.
        """
        labeled = inputs["labels"] != IGNORED
        # both in the order of rows and tokens, as are the logits below
        targets, weights = inputs["labels"][labeled], inputs["weights"][labeled]
        # the logits at a position are those of the next token
        before_labels = labeled.roll(-1, 1)
        # without an attention mask: padding is at the end, where no real token attends to it, and attention without a
        # mask uses its fastest kernel
        with _projecting_only(model, before_labels):
            outputs = model(input_ids=inputs["input_ids"], use_cache=False)
        loss = (cross_entropy(outputs.logits.float(), targets, reduction="none") * weights).sum()
        loss = loss / (targets.numel() if num_items_in_batch is None else num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    def training_step(
        self,
        model: Any,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Runs the forward and backward passes of one step, a microbatch at a time, and returns the loss of the
        step.

        Raises:
            ModelError: The loss is no number.
        """
        start = time.perf_counter()
        lengths = inputs["attention_mask"].sum(1).tolist()
        split = microbatches(lengths, self._budget)
        losses: list[torch.Tensor] = []
        for number, rows in enumerate(split, 1):
            longest = padded_length(max(lengths[row] for row in rows))
            microbatch = {name: values[rows, :longest] for name, values in inputs.items()}
            loss = super().training_step(model, microbatch, num_items_in_batch)
            if not math.isfinite(float(loss)):
                raise ModelError("The loss is no longer a number.", "Lower learning_rate.")
            losses.append(loss)
            if number < len(split):
                self.control = self.callback_handler.on_substep_end(
                    self.args, self.state, self.control
                )
        self.seconds += time.perf_counter() - start
        self.tokens += sum(lengths)
        return torch.stack(losses).sum()

    def evaluate(self, *_args: Any, **_options: Any) -> dict[str, float]:
        """Validates the model and returns the fields of `Validation`, with one more figure under `BEST`.

        That figure is the step if its weights are to be the adapter unless later ones are: if this validation is the
        best so far, or the run is as printed; else it is 0.
        """
        measured = asdict(self._validation())
        # checkpoints contain this list, so a resumed run knows its earlier validations
        self.state.log_history.append({"step": self.state.global_step, VALIDATION_KEY: measured})
        validations = [
            Validation(**entry[VALIDATION_KEY])
            for entry in self.state.log_history
            if VALIDATION_KEY in entry
        ]
        is_best = self._config.as_printed or best_validation(validations) == len(validations) - 1
        figures = {**measured, BEST: self.state.global_step if is_best else 0}
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, figures
        )
        return figures

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Writes a checkpoint as `transformers` does, and seals the checkpoint."""
        super()._save_checkpoint(model, trial)
        seal(Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}")


@contextmanager
def _projecting_only(model: Any, places: torch.Tensor) -> Iterator[None]:
    """Makes the model compute logits at some positions only, in the block; the logits have shape (positions,
    vocabulary).

    Args:
        places: A mask of the positions, shape (rows, tokens).
    """

    def keep_places(_module: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        """Returns, of the input of the projection to the vocabulary, shape (rows, tokens, hidden), that at `places`."""
        (hidden,) = inputs
        return (hidden[places],)

    hook = model.get_output_embeddings().register_forward_pre_hook(keep_places)
    try:
        yield
    finally:
        hook.remove()


def budget_for(config: TrainConfig, examples: Sequence[Example]) -> int:
    """Returns the most tokens of a microbatch in a run over these examples."""
    longest = max(len(example.tokens) for example in examples)
    return find_token_budget(config.rows, config.batch, longest)


def microbatches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Returns the microbatches of one step, as indices into `lengths`; each index is in exactly one of them.

    A microbatch of n rows costs n times the padded length of its longest row, plus `PASS_COST`. The split is the
    cheapest one in which every microbatch keeps to `budget`; a single row may exceed it. In the cheapest split rows of
    similar length share a microbatch, so only consecutive rows in the order of length are tried (dynamic programming
    over the sorted rows).

    Args:
        lengths: Number of tokens of each conversation.
        budget: See `find_token_budget`.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    # entry n is about the n longest rows: the lowest cost, and where their last microbatch begins
    costs, begins = [0], [0]
    for end in range(1, len(order) + 1):
        options = [
            (costs[start] + PASS_COST + tokens, start)
            for start in range(end)
            if (tokens := (end - start) * padded_length(lengths[order[start]])) <= budget
            or end - start == 1
        ]
        cost, start = min(options)
        costs.append(cost)
        begins.append(start)
    split: list[list[int]] = []
    end = len(order)
    while end:
        split.append(order[begins[end] : end])
        end = begins[end]
    return split[::-1]


class _Arguments(TrainingArguments):
    """The arguments of `transformers`, with a warm-up that ends before the last step."""

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """Returns the number of steps of the library, but never all steps of the run.

        The first step of a warm-up has the learning rate 0, so a run of a single step would learn nothing.
        """
        steps: int = super().get_warmup_steps(num_training_steps)
        return min(steps, num_training_steps - 1)


def trainer_arguments(
    config: TrainConfig, folder: Path, optimizer: str, *, cpu: bool
) -> TrainingArguments:
    """Returns the arguments of `transformers` for a run.

    Args:
        folder: Folder of the checkpoints.
        optimizer: One of `transformers.training_args.OptimizerNames`.
        cpu: Whether the CPU trains.
    """
    return _Arguments(
        output_dir=str(folder),
        # all conversations of a step, which `training_step` splits
        per_device_train_batch_size=config.batch,
        num_train_epochs=config.epochs,
        learning_rate=config.learning_rate,
        weight_decay=WEIGHT_DECAY,
        # a number below 1 is a share of the steps
        warmup_steps=0 if config.as_printed else WARMUP_SHARE,
        lr_scheduler_type="constant" if config.as_printed else "cosine",
        optim=optimizer,
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
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=not cpu,
    )


class StopCallback(TrainerCallback):
    """Ends a run on request: after the current step with a checkpoint, or before it without one. After the last step of
    all it orders a validation and a checkpoint.

    Attributes:
        stopped: Whether the run ended after a step on request.
    """

    def __init__(self, stopping: Callable[[], bool], terminated: Callable[[], bool]) -> None:
        """Creates the callback.

        Args:
            stopping: Returns whether the run was asked to end after its current step.
            terminated: Returns whether the process was asked to end at once.
        """
        self._stopping, self._terminated = stopping, terminated
        self.stopped = False

    def on_substep_end(self, *_args: Any, **_options: Any) -> None:
        """Raises `Interrupted` between two microbatches if the process has to end at once."""
        if self._terminated():
            raise Interrupted

    def on_step_end(self, _args: Any, state: Any, control: Any, **_options: Any) -> None:
        """Ends the run after a step on request; orders a validation and a checkpoint after the last step."""
        if self._terminated():
            raise Interrupted
        if state.global_step >= state.max_steps:
            control.should_save = control.should_evaluate = True
        elif self._stopping():
            self.stopped = True
            control.should_save = control.should_evaluate = control.should_training_stop = True
