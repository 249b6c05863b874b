"""What the simulation screens need of the rest of the program: playing conversations, what came of it, and shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.records.simulation import PlayEstimate, TranscriptLine

Kind = Literal["sharded", "forms", "recsim", "shards"]
"""What is played; `shards` proposes shards for full instructions and plays no conversation."""

State = Literal["proposed", "approved", "rejected"]


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """What is to be played. Fields that a kind has no use for are left as they are.

    Attributes:
        model, user_model, judge_model: Names; None is the project's model for simulations, and for the others `model`.
        runs: How often each is played; of `recsim`, conversations of each task.
        limit: The first so many only; None for all.
        temperature: Of replies in free words; None leaves it to the kind.
        instructions: What comes along, by name, or a file (sharded, shards).
        checks: Plays of FULL and of CONCAT by which proposed shards are checked (shards).
        forms: Names of forms, or files (forms).
        profile: Whether the user is another one for each `question` or one for a `run` (forms).
        turns: Answers of the assistant, at most (recsim).
    """

    kind: Kind
    model: str | None = None
    user_model: str | None = None
    judge_model: str | None = None
    runs: int = 1
    limit: int | None = None
    seed: int = 0
    temperature: float | None = None
    instructions: str = "math"
    conditions: tuple[str, ...] = ()
    user_temperature: float = 1.0
    checks: int = 0
    forms: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    profile: str = "question"
    tasks: tuple[str, ...] = ()
    language: str = "en"
    turns: int = 10


@dataclass(frozen=True, slots=True)
class SimulationOffers:
    """What a wish may hold.

    Attributes:
        models: Names, the project's own for simulations first.
        instructions: Those that come along.
        usual_conditions: Those that are played unless something else is said.
        forms: Name and subject of those that come along.
        last: What was asked for last, or None.
    """

    models: tuple[str, ...]
    instructions: tuple[str, ...]
    conditions: tuple[str, ...]
    usual_conditions: tuple[str, ...]
    forms: tuple[tuple[str, str], ...]
    variants: tuple[str, ...]
    tasks: tuple[str, ...]
    languages: tuple[str, ...]
    last: SimulationRequest | None = None


@dataclass(frozen=True, slots=True)
class PlayedSet:
    """What was played under one setting: plays that can be compared.

    Attributes:
        source: What the conversations name as their source.
        models: Role and label of each model that takes part.
        played, broken: Plays that ended and that broke off.
        told: What else was chosen, a few words.
        can_go_on: It is known here what was asked for, so it can be asked for again.
    """

    config_hash: str
    kind: str
    source: str
    models: tuple[tuple[str, str], ...]
    played: int
    broken: int
    told: str
    can_go_on: bool


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A column of a results table; `means` is what stands in it, a sentence."""

    name: str
    means: str
    figure: bool = True


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One row.

    Attributes:
        cells: As they are shown, one for each column.
        values: What the row is sorted by, one for each column; None is last in any order.
        plays: Ids of the plays that are counted in it.
    """

    cells: tuple[str, ...]
    values: tuple[float | str | None, ...]
    plays: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResultSheet:
    """One table over a set; `said` is what must be known to read it."""

    title: str
    columns: tuple[SheetColumn, ...]
    rows: tuple[ResultRow, ...]
    said: str = ""


@dataclass(frozen=True, slots=True)
class PlayItem:
    """One play.

    Attributes:
        name: Its key without the kind.
        told: What came of it, a few words.
        reason: Why it broke off, or None.
    """

    id: int
    name: str
    conversation_id: int | None
    told: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class SetResults:
    """Everything of one set."""

    sheets: tuple[ResultSheet, ...]
    plays: tuple[PlayItem, ...]


@dataclass(frozen=True, slots=True)
class LiveLine:
    """One reply as it comes; `note` is what of the conversation the model did not see, or None."""

    module: str
    role: str
    text: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class LivePlay:
    """A play that is on, or was a moment ago: its newest replies, oldest first; `replies` counts all."""

    key: str
    replies: int
    lines: tuple[LiveLine, ...]


@dataclass(frozen=True, slots=True)
class DraftShard:
    """A proposed shard: what it says, the span of the instruction that it stands for, who worded it."""

    shard_id: int
    text: str
    start: int
    end: int
    by: str


@dataclass(frozen=True, slots=True)
class ShardDraft:
    """Proposed shards of one instruction; the first opens the conversation.

    Attributes:
        text: The full instruction.
        lost: Numbers and names of it that no shard says.
        missing: What a model says is missing; empty for nothing, None where nobody was asked about these shards.
        segmented: A model cut the text; else it was cut at its sentences.
        full, concat: Mean scores, 0 to 1, where they were played.
        holds: The shards lose little by these scores; None where nothing was played.
    """

    task_id: str
    task: str
    text: str
    shards: tuple[DraftShard, ...]
    lost: tuple[str, ...]
    missing: str | None
    segmented: bool
    state: State
    full: float | None = None
    concat: float | None = None
    holds: bool | None = None


class Drafts(Protocol):
    """The drafts of one file. Every change is written to it at once, and returns the draft as it is then; it raises
    UsageError where it cannot be made, ProjectError where the file cannot be written."""

    @property
    def path(self) -> str:
        """The file."""

    def items(self) -> list[ShardDraft]:
        """Quick. All of them, in order."""

    def decide(self, nth: int, state: State) -> ShardDraft:
        """Approves or rejects one, or opens it again."""

    def edit(self, nth: int, shard_id: int, text: str) -> ShardDraft:
        """Words a shard anew."""

    def move(self, nth: int, shard_id: int, by: int) -> ShardDraft:
        """Puts a shard so many places later; earlier, if negative."""

    def leave_out(self, nth: int, shard_id: int) -> ShardDraft:
        """Takes a shard out."""


@dataclass(frozen=True, slots=True)
class AskedField:
    """A field of a form that a question is for.

    Attributes:
        options: The only answers that are allowed; empty for free text.
    """

    label: str
    required: bool
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TalkState:
    """Where the filling of a form with a person stands.

    Attributes:
        key: Names the play; empty before it began.
        lines: Every reply so far, the person's among them.
        question: What waits for an answer, or None.
        asked: The fields that it is for, as far as a module said so.
        over: What came of it, once it is over; None before.
        play_id: Its play in the project, once it is over.
        conversation_id: The conversation that it became, if any.
    """

    key: str
    lines: tuple[LiveLine, ...]
    question: str | None
    asked: tuple[AskedField, ...] = ()
    over: str | None = None
    play_id: int | None = None
    conversation_id: int | None = None


class FormTalk(Protocol):
    """A form that is being filled by a person and the modules. All of this is quick."""

    @property
    def job_id(self) -> int:
        """The job that runs it."""

    def state(self) -> TalkState:
        """Where it stands."""

    def answer(self, text: str) -> None:
        """Answers the question that is open."""

    def stop(self) -> None:
        """Ends it with what is filled; the conversation is kept."""


class Simulations(Protocol):
    """Playing conversations with known truth, and what came of it."""

    def offers(self) -> SimulationOffers:
        """What can be chosen."""

    def estimate(self, wish: SimulationRequest) -> PlayEstimate:
        """What is left to play and, going by the latest run of its kind with these models, what it takes. Raises
        UsageError for what cannot be played."""

    def start(self, wish: SimulationRequest) -> int:
        """Plays what was not played yet in the background, and remembers the wish; returns the job id."""

    def go_on(self, config_hash: str) -> int:
        """Plays on what was asked for in a set and is not played yet; returns the job id. Raises UsageError where that
        is not known or would be another set by now."""

    def sets(self) -> list[PlayedSet]:
        """What was played, the newest set first."""

    def results(self, config_hash: str) -> SetResults:
        """The tables and the plays of a set."""

    def transcript(self, play_id: int) -> list[TranscriptLine]:
        """Every call of a play with its reply."""

    def live(self) -> list[LivePlay]:
        """Quick. What is being said now, the play that heard something last first."""

    def export(self, config_hash: str, path: str) -> None:
        """Writes tables and plays of a set as JSON to a new file; raises ProjectError as `Exports.export` does."""

    def open_drafts(self, path: str) -> Drafts:
        """The drafts of a file; where there is no such file yet, it is written with all that this project proposed.
        Raises UsageError where there are none."""

    def fill_form(self, form: str, variant: str, model: str | None) -> FormTalk:
        """Begins, or goes on, to fill a form with a person as the user, in the background."""


def chosen_models(models: Sequence[str], at: int) -> str | None:
    """The model at a place of a list that begins with what is taken where nothing is named."""
    return None if at == 0 else models[at - 1]
