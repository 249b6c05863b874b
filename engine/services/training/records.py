"""What the training screens need of the rest of the program: runs that train an adapter, each a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from engine.filters import Filter
from engine.records.validation import CompletenessTable

RunState = Literal["new", "running", "interrupted", "stopped", "finished", "failed"]
"""As `engine.run_directory.events.State` has it: `new` has not said anything yet and no process works on it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Something to choose between: what it is called in commands, and what it means in plain words.

    Attributes:
        title: What a person reads; the name where there is no better word.
    """

    name: str
    title: str
    help: str


@dataclass(frozen=True, slots=True)
class TrainingOffers:
    """What a new run may be made of.

    Attributes:
        recipes: The default first.
        presets: By memory, smallest machine first.
        preset: Name of the one that is fit for this machine.
        bases: Weights at hand, the default first; `name` is what `TrainingRequest.base` takes.
        settings: Fields of the config that a wish may set, with what they mean.
        memory: Bytes that a run may use on this machine, None where that is not known; `device` says of what
            (`CPU`, a GPU's name).
        missing: Why nothing can be trained here, empty when it can; `hint` says what to do (install the extra).
    """

    recipes: tuple[Offer, ...]
    presets: tuple[Offer, ...]
    preset: str
    bases: tuple[Offer, ...]
    settings: tuple[Offer, ...]
    memory: int | None = None
    device: str = ""
    missing: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What a person asks for.

    Attributes:
        name: Of the run; empty lets the program choose one.
        base: Name of an offer, or a path; empty takes the default.
        preset: Name of an offer; empty takes the one that is fit for this machine.
        held_out: Share of the conversations that is kept from training, above 0 and below 1.
        limit: Most conversations to train on; None for all.
        settings: Fields of the config with their values as typed, over what the preset says.
    """

    filter: Filter = field(default_factory=Filter)
    name: str = ""
    recipe: str = "boundary"
    preset: str = ""
    base: str = ""
    held_out: float = 0.5
    limit: int | None = None
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """What a run would cost, before it starts.

    Attributes:
        name: What the run would be called.
        matched: Conversations that the filter matches.
        train, held_out: Of them those to train on and those kept from it; the rest cannot be used (no boundary, twice).
        tokens: Of one epoch; None while not counted.
        steps: Optimiser steps in all.
        memory: Bytes at the peak; None where it cannot be said.
        fits: Whether that is there; `advice` names the setting to lower when not.
        seconds: None where it cannot be said; `measured` says whether earlier runs on this machine tell it, else it
            is a guess.
        base: What the base is called.
        notes: What else a person should know, each a sentence.
    """

    name: str
    matched: int
    train: int
    held_out: int
    tokens: int | None
    steps: int | None
    memory: int | None
    fits: bool
    seconds: float | None
    measured: bool
    base: str
    advice: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A run as it stands.

    Attributes:
        conversations: Trained on.
        created_at: When it was begun, ISO 8601, UTC.
        seconds: Time that its processes worked, all together.
        step, steps, epoch, epochs: How far it is; None before the first step, `epoch` counts from 0.
        loss: Mean over the labels of the last steps.
        tokens_per_s, seconds_left, memory: As the newest event has them, memory in bytes.
        validated, to_validate: Conversations of the validation that is going on, read and in all; else None.
        auroc, f1, best_step: Of the best validation so far.
        pid: Of the process that works on it.
        stopping: It was asked to stop and has not ended yet.
        problem, hint: Why it failed or broke off and what to do, empty otherwise.
        adapter: Whether an adapter is there that scoring can use.
        in_use: Whether scoring in the mode `tuned` uses it.
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
    validated: int | None = None
    to_validate: int | None = None
    auroc: float | None = None
    f1: float | None = None
    best_step: int | None = None
    pid: int | None = None
    stopping: bool = False
    problem: str = ""
    hint: str = ""
    adapter: bool = False
    in_use: bool = False

    @property
    def phase(self) -> str:
        """What a run does that is not between its first and its last step, in a word; empty otherwise."""
        if self.stopping:
            return "stopping"
        if self.to_validate:
            return "validating"
        if self.state == "running" and self.step is None:
            return "starting"
        if self.state == "running" and self.step == self.steps:
            return "finishing"  # converts the adapter and compares it
        return ""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """Mean training loss of the steps up to this one."""

    step: int
    loss: float


@dataclass(frozen=True, slots=True)
class ValidPoint:
    """One validation; `n` counts pairs of the truncation test. A measure is None where it is not defined."""

    step: int
    loss: float | None
    auroc: float | None
    f1: float | None
    n: int
    best: bool


@dataclass(frozen=True, slots=True)
class SampleRow:
    """What the model says at one boundary of a held-out conversation; step 0 is before training.

    Attributes:
        text: The last words before the boundary.
        ends: Whether the log ends there.
        p_end, p_continue: Probability of the end tag, and of going on.
        says: What the model writes there.
    """

    step: int
    id: str
    text: str
    ends: bool
    p_end: float
    p_continue: float
    says: str


@dataclass(frozen=True, slots=True)
class Parity:
    """How well llama.cpp with the converted adapter agrees with the program that trained it.

    Attributes:
        top1: Share of the tokens at which both hold the same token most probable; None when `skipped` says why not.
        max_dp: Largest difference of a probability.
    """

    top1: float | None
    max_dp: float | None
    tokens: int
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a run's config with its value in words."""

    name: str
    value: str
    help: str


@dataclass(frozen=True, slots=True)
class RunDetail:
    """Everything about one run.

    Attributes:
        loss: At most about a thousand points, by step; steps that were done twice after a resume only once.
        valid: By step.
        resumed: Steps at which a later process went on.
        samples: By step, then as written.
        warnings: Newest last.
        last_lines: The end of its log, a few lines.
        config: In the order of the config's fields.
        filter: Which conversations it was made from, as it was written.
        folder: Where its files lie.
    """

    run: TrainingRun
    loss: tuple[LossPoint, ...] = ()
    valid: tuple[ValidPoint, ...] = ()
    resumed: tuple[int, ...] = ()
    samples: tuple[SampleRow, ...] = ()
    warnings: tuple[str, ...] = ()
    parity: Parity | None = None
    last_lines: tuple[str, ...] = ()
    config: tuple[Setting, ...] = ()
    filter: str = ""
    folder: str = ""


class Training(Protocol):
    """Training runs of the project. Not one method is quick: each reads files. Methods that write raise
    ProjectReadOnly, those that name a run UsageError when it is not there.

    A run is a process that nothing here has to keep alive: screens ask again at most twice a second while one of
    them works, and the implementation reads only what was written since.
    """

    def offers(self) -> TrainingOffers:
        """What a new run may be made of, and whether training is possible here."""

    def runs(self) -> list[TrainingRun]:
        """All runs, newest first."""

    def detail(self, name: str) -> RunDetail:
        """Curves, samples and settings of a run."""

    def log(self, name: str) -> str:
        """What the process of a run wrote, to its end; of a long one the last megabyte."""

    def estimate(self, wish: TrainingRequest) -> TrainingEstimate:
        """What a run would cost; raises UsageError saying what is wrong with the wish."""

    def start(self, wish: TrainingRequest) -> str:
        """Writes the data and starts the process; returns the run's name. Raises as `estimate` does, and when
        another run of the project works."""

    def stop(self, name: str) -> None:
        """Asks a run to end after its step; the best checkpoint becomes its adapter."""

    def resume(self, name: str) -> None:
        """Starts a process that goes on at the last checkpoint; raises UsageError for a run that cannot go on."""

    def delete(self, name: str) -> None:
        """Removes a run with all its files; raises UsageError for one that works or whose adapter is in use."""

    def use(self, name: str | None) -> None:
        """Scoring in the mode `tuned` uses this run's adapter from now on; None takes the one the program brings.
        Raises UsageError for a run without an adapter."""

    def table(self, name: str | None) -> CompletenessTable:
        """The truncation test over the conversations that a run held out, or over all for None, a row for each
        configuration of scores that the project holds; raises UsageError saying what to score when there is none."""
