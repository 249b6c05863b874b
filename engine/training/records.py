"""Rows about training runs for screens and command line."""

from __future__ import annotations

from dataclasses import dataclass

from engine.training.events import State

RunState = State
"""The state of a run."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One allowed value of a field, with a sentence about its meaning."""

    name: str
    help: str


@dataclass(frozen=True, slots=True)
class TrainingChoices:
    """The choices for a new run on this machine.

    Attributes:
        recipes: The recipes, the default first.
        bases: Models in the catalog, the default first; `name` goes into `TrainingRequest.base`.
        memory: Bytes that a run may use on this machine; None if unknown.
        device: The device with this memory: `CPU`, or the name of the GPU.
        missing: Why training is not possible here; empty if it is.
        hint: What to do about that.
    """

    recipes: tuple[Choice, ...]
    bases: tuple[Choice, ...]
    memory: int | None = None
    device: str = ""
    missing: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """The estimated cost of a run.

    Attributes:
        name: Name of the run.
        matched: Conversations that the filter matches.
        train, held_out: Number of them to train on and to hold out; the others cannot be used.
        selection, test: Number of those held out that select the checkpoint, and that test it.
        tokens: Tokens of one epoch; None if they were not counted.
        steps: Optimizer steps in all.
        memory: Peak memory in bytes; None if unknown.
        fits: Whether this machine has that memory.
        seconds: Duration, by the speed of an earlier run on this machine; None without one.
        base: Name of the base.
        advice: What to change if it does not fit, a sentence; empty if it fits.
        notes: Remarks on the data and the settings, a sentence each.
    """

    name: str
    matched: int
    train: int
    held_out: int
    selection: int
    test: int
    tokens: int | None
    steps: int | None
    memory: int | None
    fits: bool
    seconds: float | None
    base: str
    advice: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The current state of a run.

    Attributes:
        conversations: Number of conversations that it is trained on.
        created_at: When it was created, ISO 8601, UTC.
        seconds: Running time of all its processes together.
        step, steps, epoch, epochs: Progress and total; None before the first step, `epoch` counts from 0.
        loss: Mean training loss over the labels of the last steps.
        tokens_per_s, seconds_left, memory: Values in the newest event; memory is the peak so far in bytes.
        validating: Whether it is validating now.
        selection, test: Number of held-out conversations that select the checkpoint and that test it.
        auroc, f1, best_step: Values of the validation whose weights are or would be the adapter, on the selection part.
        pid: Process id; None if no process is running.
        stopping: Whether it was asked to stop and has not ended yet.
        problem, hint: Why it failed or was interrupted, and what to do; empty otherwise.
        adapter: Whether it has an adapter that scoring can use.
        in_use: Whether scoring in the mode `tuned` uses this adapter.
    """

    name: str
    state: RunState
    recipe: str
    base: str
    conversations: int
    held_out: int
    created_at: str
    seconds: float
    step: int | None = None
    steps: int | None = None
    epoch: float | None = None
    epochs: float | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    seconds_left: float | None = None
    memory: int | None = None
    validating: bool = False
    auroc: float | None = None
    f1: float | None = None
    best_step: int | None = None
    selection: int = 0
    test: int = 0
    pid: int | None = None
    stopping: bool = False
    problem: str = ""
    hint: str = ""
    adapter: bool = False
    in_use: bool = False

    @property
    def phase(self) -> str:
        """The phase outside training steps: `starting`, `validating`, `stopping` or `finishing`; else empty."""
        if self.stopping:
            return "stopping"
        if self.validating:
            return "validating"
        if self.state == "running" and self.step is None:
            return "starting"
        if self.state == "running" and self.step == self.steps:
            return "finishing"  # it converts the adapter
        return ""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """Mean training loss of the steps since the last point."""

    step: int
    loss: float


@dataclass(frozen=True, slots=True)
class ValidPoint:
    """Results of one validation, None if undefined; `n` is the number of pairs in the truncation test."""

    step: int
    loss: float | None
    auroc: float | None
    f1: float | None
    n: int
    best: bool


@dataclass(frozen=True, slots=True)
class SampleRow:
    """The model's output at one boundary of a conversation of the selection part.

    Attributes:
        step: Optimizer step of the model; 0 before training.
        id: Name of the conversation.
        text: The last words before the boundary.
        ends: Whether the conversation ends there.
        p_end, p_continue: Probability of the end token, and of the continuation.
        generated: Text that the model generates there.
    """

    step: int
    id: str
    text: str
    ends: bool
    p_end: float
    p_continue: float
    generated: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a run's config: its name, and its value as text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with its curves, samples and config.

    Attributes:
        loss: Training loss by step; steps repeated after a resume count once.
        valid: Validations in order of steps.
        resumed: Steps at which a later process resumed.
        samples: Samples in order of steps, then as written.
        warnings: Warnings of the trainer, the newest last.
        last_lines: The last lines of its log.
        config: The fields of `TrainConfig`, in order.
        filter: The filter that chose its conversations, as text.
        folder: The run directory.
    """

    run: TrainingRun
    loss: tuple[LossPoint, ...] = ()
    valid: tuple[ValidPoint, ...] = ()
    resumed: tuple[int, ...] = ()
    samples: tuple[SampleRow, ...] = ()
    warnings: tuple[str, ...] = ()
    last_lines: tuple[str, ...] = ()
    config: tuple[Setting, ...] = ()
    filter: str = ""
    folder: str = ""
