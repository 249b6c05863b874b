"""The simulated user, who reveals at most one shard in each turn."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.model.chat import Call, ChatMessage, Completion
from engine.model.prompt_texts import filled
from engine.simulate.sharded.instruction import Shard
from engine.model.asking import ask_json, object_schema
from engine.simulate.sharded.log import Trace
from engine.simulate.sharded.scenario import Case

NOTHING = -1
"""The shard id of a turn that reveals no shard."""

PATIENCE = 2
"""Most consecutive turns without a new shard. After them the user must reveal one, so that every play ends."""

_LONGEST = 250
"""Longest reply of the simulated user, in tokens, JSON included."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One turn of the user.

    Attributes:
        shard_id: Id of the shard it reveals; NOTHING for none.
        stand_in: Whether the text is the next shard itself, because the model gave no usable reply.
    """

    text: str
    shard_id: int
    stand_in: bool = False


def user_turn(case: Case, trace: Trace, number: int) -> Generator[Call, Completion, UserTurn]:
    """Returns the user's next turn; at least one shard must be unrevealed.

    Args:
        number: Number of the turn, from 0.
    """
    shards = case.instruction.shards
    known = trace.shards()
    fixed = case.task.user_turn(shards, len(known))
    if fixed is not None:
        return UserTurn(fixed, shards[len(known)].shard_id)
    if not known:
        return UserTurn(shards[0].text, shards[0].shard_id)
    left = [one for one in shards if one.shard_id not in known]
    idle = _idle(trace)
    offered = [one.shard_id for one in left] + ([NOTHING] if idle < PATIENCE else [])
    schema = object_schema(
        response={"type": "string", "minLength": 1}, shard_id={"type": "integer", "enum": offered}
    )

    def accept(found: Mapping[str, Any]) -> UserTurn | None:
        text, shard_id = found.get("response"), found.get("shard_id")
        if not isinstance(text, str) or not text.strip():
            return None
        # The type is checked too, because True and 1.0 equal 1.
        if type(shard_id) is not int or shard_id not in offered:
            return None
        return UserTurn(text, shard_id)

    prompt = filled(
        case.setting.texts["user"],
        {
            "CONVERSATION_SO_FAR": conversation(trace),
            "SHARDS_REVEALED": as_listed([one for one in shards[1:] if one.shard_id in known]),
            "SHARDS_NOT_REVEALED": as_listed(left),
        },
    )
    call = Call(
        "user",
        "user",
        (ChatMessage("user", prompt),),
        max_tokens=_LONGEST,
        seed=case.seed("user", number),
    )
    temperature = case.setting.user_temperature
    turn = yield from ask_json(call, schema, accept, (temperature, max(temperature, 1.0)))
    return turn or UserTurn(left[0].text, left[0].shard_id, stand_in=True)


def conversation(trace: Trace) -> str:
    """Formats the messages so far, without the system message, for a prompt."""
    return "\n\n".join(
        f"[{message.speaker}]\n{message.content}"
        for message in trace.messages()
        if message.speaker != "system"
    )


def as_listed(shards: Sequence[Shard]) -> str:
    """Formats shards as JSON for a prompt."""
    listed = [{"shard_id": one.shard_id, "shard": one.text} for one in shards]
    return json.dumps(listed, ensure_ascii=False, indent=1)


def _idle(trace: Trace) -> int:
    """Returns the number of user turns since the last one that revealed a shard."""
    turns = 0
    for item in reversed(trace.items):
        if item["role"] == "log" and item["content"]["type"] == "shard_revealed":
            break
        turns += item["role"] == "user"
    return turns
