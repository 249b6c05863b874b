"""Records of the simulation service: choices, sets of plays, live replies, drafts of shards, form state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.base.report_table import ReportTable
from engine.simulate.service.request import SimulationRequest

State = Literal["proposed", "approved", "rejected"]


@dataclass(frozen=True, slots=True)
class SimulationOffers:
    """The choices for a new request.

    Attributes:
        models: Names of models; the one that the project uses for simulations is first.
        usual_conditions: The conditions of the default.
        forms: Name and subject of each bundled form.
        last: The last request, or None.
    """

    models: tuple[str, ...]
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
        source: The source that its conversations are stored with.
        models: Role and label of each model.
        played, broken: Number of plays that ended, and that broke off.
        summary: Seed, temperature and language, as text.
        can_go_on: Whether its request is stored, so that the rest can be played.
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
        summary: The result in a few words.
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
    """One reply of a running play.

    Attributes:
        note: The part of the conversation that did not fit the context of the model, or None.
    """

    module: str
    role: str
    text: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class LivePlay:
    """A play of the current run: its newest replies, oldest first; `replies` counts all of them."""

    key: str
    replies: int
    lines: tuple[LiveLine, ...]


@dataclass(frozen=True, slots=True)
class DraftShard:
    """A proposed shard.

    Attributes:
        start, end: The characters of the full instruction that it covers.
        by: Who wrote its text: `text` (as in the instruction), `model` or `person`.
    """

    shard_id: int
    text: str
    start: int
    end: int
    by: str


@dataclass(frozen=True, slots=True)
class ShardDraft:
    """The proposed shards of one instruction; the first one opens the conversation.

    Attributes:
        text: The full instruction.
        lost: Numbers and names of the instruction that no shard contains.
        missing: What is missing in the shards, by a model; empty for nothing, None if no model checked these shards.
        segmented: Whether a model split the text; otherwise it is split into sentences.
        full, concat: Mean scores, 0 to 1, of the checks under FULL and CONCAT; None without checks.
        holds: Whether the shards lose little by these scores; None without checks.
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
    """A field of a form that a question asks for.

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
        key: Key of the play; empty before it began.
        lines: All replies so far, those of the person included.
        question: The question that waits for an answer, or None.
        asked: The fields that the question asks for, if a module named them.
        over: The result as a sentence; None while the form is being filled.
        play_id: Id of the play, once it is stored.
        conversation_id: Id of the conversation of the play, if one was stored.
    """

    key: str
    lines: tuple[LiveLine, ...]
    question: str | None
    asked: tuple[AskedField, ...] = ()
    over: str | None = None
    play_id: int | None = None
    conversation_id: int | None = None


def chosen_models(models: Sequence[str], at: int) -> str | None:
    """The model at a position of a choice whose first entry is the default; None for the default."""
    return None if at == 0 else models[at - 1]
