"""What simulations are asked with and what they hand out: requests, sets of plays, replies, drafts of shards, forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.records.report import ReportTable

Kind = Literal["sharded", "forms", "recsim", "shards"]
"""Kinds of simulation; `shards` proposes shards for full instructions and plays no conversation."""

State = Literal["proposed", "approved", "rejected"]


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A simulation to run. Fields that a kind does not use keep their defaults.

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
    """The values that a request may have.

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
    """The plays of one setting, which can be compared.

    Attributes:
        source: What the conversations name as their source.
        models: Role and label of each model that takes part.
        played, broken: Plays that ended and that broke off.
        summary: What else was chosen, a few words.
        can_go_on: Its request is stored, so the rest can be played.
    """

    config_hash: str
    kind: str
    source: str
    models: tuple[tuple[str, str], ...]
    played: int
    broken: int
    summary: str
    can_go_on: bool


@dataclass(frozen=True, slots=True)
class PlayItem:
    """One play.

    Attributes:
        name: Its key without the kind.
        summary: Its result, a few words.
        reason: Why it broke off, or None.
    """

    id: int
    name: str
    conversation_id: int | None
    summary: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class SetResults:
    """The tables and the plays of one set."""

    tables: tuple[ReportTable, ...]
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
    """A proposed shard: its text, the span of the instruction that it covers, who wrote it."""

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
class SessionState:
    """The state of a form that a person fills.

    Attributes:
        key: Names the play; empty before it began.
        lines: Every reply so far, the person's among them.
        question: What waits for an answer, or None.
        asked: The fields that it is for, as far as a module said so.
        over: The result, a sentence, once it is over; None before.
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


def chosen_models(models: Sequence[str], at: int) -> str | None:
    """The model at a place of a list that begins with what is taken where nothing is named."""
    return None if at == 0 else models[at - 1]
