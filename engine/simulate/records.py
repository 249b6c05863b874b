"""Plays, that is, simulated conversations: settings, results, transcripts, estimated cost, and what screens show of
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PlaySetting:
    """The setting that comparable plays share; they are a *set*, which screens show as one.

    Attributes:
        config_hash: The key of the setting.
        kind: Name of the simulation, e.g. `sharded`.
        params: The parameters, without the number of plays. JSON.
        models: Label of the model of each role.
        played: Number of plays that ended.
        broken: Number of plays that broke off.
    """

    config_hash: str
    kind: str
    params: Mapping[str, Any]
    models: Mapping[str, str]
    played: int = 0
    broken: int = 0

    @property
    def source(self) -> str:
        """The name of the source that the conversations of these plays are stored with."""
        return f"{self.kind}-{self.config_hash[:6]}"


@dataclass(frozen=True, slots=True)
class PlayRow:
    """One play, as it is stored.

    Attributes:
        id: Id in the project; 0 before it is stored.
        config_hash: Config hash of its setting.
        kind: Name of the simulation.
        key: Identifies the play among those of its setting.
        run_id: The run that played it.
        conversation_id: The stored conversation; None if the play gave none.
        reason: Why it broke off; None if it ended.
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
class TranscriptLine:
    """One call of a play with its reply.

    Attributes:
        module, role: The part of the simulation that made the call, and the role of the model that answered.
        messages: Speaker and content of each message of the conversation as the model saw it.
        opening: Beginning of the reply that was given to the model.
        text: The reply.
        stopped: `end` by the model, `stop` by a stop text, `length` by the limit.
        note: The part of the conversation that was cut from the model's view; None if it saw all.
        seed: Seed of the sampling.
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
