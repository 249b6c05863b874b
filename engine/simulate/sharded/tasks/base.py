"""The base class of the tasks, which fills their prompts, and checks of an instruction's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.errors import BadInstruction
from engine.model.prompt_texts import filled
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Extraction


class TaskText:
    """A task bound to one instruction. By default models play the user and copy the answer out of a reply.

    The prompts are `texts["TASK-system"]`, `texts["TASK-full"]` and `texts["TASK-answer"]`.
    """

    extraction: Extraction = "gen"
    always_attempts = False
    scored_at_end = False

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        self.instruction = instruction
        self._texts = texts

    @property
    def answer_description(self) -> str:
        return self.text("answer")

    def system_prompt(self) -> str:
        return self.text("system")

    def user_turn(self, shards: Sequence[Shard], at: int) -> str | None:
        return None

    def extract(self, reply: str) -> str:
        return reply.strip()

    def text(self, part: str, **places: str) -> str:
        """Returns the prompt `TASK-part` with its places filled."""
        return filled(self._texts[f"{self.instruction.task}-{part}"].strip("\n"), places)


def bullets(shards: Sequence[Shard]) -> str:
    """Returns the shards as the list of CONCAT, one line each."""
    return "".join(f"- {shard.text}\n" for shard in shards)


def listed(instruction: Instruction, key: str) -> list[Any]:
    """Returns the value of a key that must be a list with at least one element.

    Raises:
        BadInstruction: It is not.
    """
    value = instruction.keys.get(key)
    if not isinstance(value, list) or not value:
        raise BadInstruction(f"{instruction.task_id}: `{key}` must be a list that is not empty.")
    return value


def mapped(instruction: Instruction, key: str) -> Mapping[str, Any]:
    """Returns the value of a key that must be an object.

    Raises:
        BadInstruction: It is not.
    """
    value = instruction.keys.get(key)
    if not isinstance(value, dict):
        raise BadInstruction(f"{instruction.task_id}: `{key}` must be an object.")
    return value
