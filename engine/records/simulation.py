"""Conversations that were simulated, as the rest of the program sees them: frozen rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PlaySetting:
    """The setting that comparable plays share.

    Attributes:
        config_hash: Their key.
        kind: Which simulation, e.g. `sharded`.
        params: What was asked, apart from how much of it. JSON.
        models: Label of the model of each role.
        played: Plays that ended.
        broken: Plays that broke off.
    """

    config_hash: str
    kind: str
    params: Mapping[str, Any]
    models: Mapping[str, str]
    played: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True)
class PlayRow:
    """One play.

    Attributes:
        id: Its number in the project.
        config_hash: Of its setting.
        kind: Which simulation.
        key: Names it among those of its setting.
        run_id: The run that played it.
        conversation_id: What was played, or None where it was no conversation.
        reason: Why it broke off, or None.
        result: Scores, counts and labels. JSON.
    """

    id: int
    config_hash: str
    kind: str
    key: str
    run_id: int
    conversation_id: int | None
    reason: str | None
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlayEstimate:
    """Cost of plays, by the latest run of their kind with the same models.

    Attributes:
        plays: Plays still to do.
        replies: Replies that they will ask for; None where there was no such run.
        seconds: How long that will take; None where there was no such run.
        models: What the models are called.
    """

    plays: int
    replies: int | None
    seconds: float | None
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One call of a play with its reply.

    Attributes:
        module, role: Which part asked, and which of the models answered.
        messages: Speaker and content of each message of the conversation as the model saw it.
        opening: Beginning of the reply, written for the model.
        text: What it said.
        stopped: `end` by the model, `stop` by a stop text, `length` by the limit.
        note: What of the conversation the model did not see, or None.
        seed: Of the sampling.
        sampling: How the reply was sampled, with its schema or grammar. JSON.
    """

    module: str
    role: str
    messages: tuple[tuple[str, str], ...]
    opening: str
    text: str
    stopped: str
    note: str | None
    seed: int
    sampling: Mapping[str, Any]
