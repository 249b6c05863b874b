"""Records of training runs for screens and the command line: what can be chosen, what a run would cost, and how runs
stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.base.number_format import amount, counted, duration, size
from engine.base.text import one_line

MAX_BASE_CHARACTERS = 50
"""Most characters of the name of a base in an estimate."""

RunState = Literal["new", "running", "interrupted", "stopped", "finished", "failed"]
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
        bases: The models in the catalog, the default first; a name becomes `TrainingRequest.base`.
        memory: Memory of the device in bytes; None if unknown.
        missing: Why training is not possible here; empty if it is possible.
        hint: What to do about that.
    """

    recipes: tuple[Choice, ...]
    bases: tuple[Choice, ...]
    memory: int | None = None
    missing: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """The estimated cost of a run.

    Attributes:
        name: Name of the run.
        matched: Number of conversations that match the filter.
        train, held_out: Number of these to train on and to hold out; the others are not used.
        selection, test: Number of held-out conversations that select the checkpoint, and that test it.
        tokens: Number of tokens of one epoch.
        steps: Number of optimizer steps.
        memory: Peak memory in bytes; None if unknown.
        fits: Whether this machine has that memory.
        seconds: Duration, by the speed of an earlier run on this machine; None without one.
        base: Name of the base.
        advice: A sentence on what to change if the run does not fit; empty if it fits.
        notes: Sentences on the data and the settings.
    """

    name: str
    matched: int
    train: int
    held_out: int
    selection: int
    test: int
    tokens: int
    steps: int
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
        name: Name of the run.
        state: How the run stands.
        recipe: Name of the recipe.
        base: Name of the model that is trained.
        conversations: Number of conversations that the run is trained on.
        held_out: Number of conversations that are held out of training.
        created_at: When the run was created, in UTC as ISO 8601.
        seconds: Running time of all processes of the run together.
        step, steps: Number of steps that are done, and of all; None before the process has started.
        epoch, epochs: Number of epochs that are done, as a fraction, and of all; None where it is not known.
        loss: Mean training loss over the labels of the last steps.
        tokens_per_s, seconds_left, memory: Values of the newest event `step`; memory is the peak so far in bytes.
        validating: Whether the run is validating now.
        selection, test: Number of held-out conversations that select the checkpoint, and that test it.
        auroc, f1, best_step: Values of the validation, on the selection part, whose weights are or would be the
            adapter.
        pid: Id of the process; None if no process is running.
        stopping: Whether the run was asked to stop and has not ended yet.
        problem, hint: Why the run failed or was interrupted, and what to do; empty otherwise.
        adapter: Whether the run has an adapter that scoring can use.
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
        """The phase of a run that is not in a training step, such as `starting`; empty in a step and after the end."""
        if self.stopping:
            return "stopping"
        if self.validating:
            return "validating"
        if self.state == "running" and self.step is None:
            return "starting"
        if self.state == "running" and self.step == self.steps:
            return "finishing"  # the run converts the adapter
        return ""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """Mean training loss of the steps since the last point."""

    step: int
    loss: float


@dataclass(frozen=True, slots=True)
class ValidPoint:
    """The figures of one validation, None if undefined; `n` is the number of pairs in the truncation test."""

    step: int
    loss: float | None
    auroc: float | None
    f1: float | None
    n: int
    best: bool


@dataclass(frozen=True, slots=True)
class SampleRow:
    """The output of the model at one boundary of a conversation of the selection part.

    Attributes:
        step: The optimizer step after which the model was sampled; 0 before training.
        id: External id of the conversation.
        text: The last words before the boundary.
        ends: Whether the conversation ends there.
        p_end, p_continue: Probability of the end token, and of a next step.
        generated: Text that the model writes there.
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
        run: The current state of the run.
        loss: Training loss by step; a step that was repeated after a resume counts once.
        valid: Validations in the order of their steps.
        resumed: Steps at which a later process resumed the run.
        samples: Samples in the order of their steps, then as they were written.
        warnings: Warnings of the trainer, the newest last.
        last_lines: The last lines of the log.
        config: The fields of `TrainConfig` in order.
        filter: The filter that selected the conversations, as text.
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


def estimate_lines(estimate: TrainingEstimate) -> list[str]:
    """Returns an estimate as lines of display-safe text.

    The lines are on the conversations, on tokens, steps and time, and on the memory; a line for each note follows.
    """
    unused = estimate.matched - estimate.train - estimate.held_out
    conversations = (
        f"{counted(estimate.matched, 'conversation')}: {estimate.train:,} to train on,"
        f" {estimate.selection:,} to select by, {estimate.test:,} to test on"
    )
    facts = [f"{amount(estimate.tokens)} tokens an epoch", counted(estimate.steps, "step")]
    if estimate.seconds is None:
        facts.append("time unknown until the first steps")
    else:
        facts.append(f"about {duration(estimate.seconds)} (as in earlier runs)")
    memory = "memory unknown" if estimate.memory is None else f"memory {size(estimate.memory)}"
    if estimate.fits:
        memory += f" · with {one_line(estimate.base, MAX_BASE_CHARACTERS)}"
    else:
        memory += f": more than this machine has. {estimate.advice}"
    return [
        conversations + (f", {unused:,} not used" if unused > 0 else ""),
        " · ".join(facts),
        memory,
        *estimate.notes,
    ]
