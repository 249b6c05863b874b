"""What the tasks share: where their texts come from, and the checks of an instruction's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.simulate.prompt_files import filled
from engine.simulate.sharded.instruction import BadInstruction, Instruction, Shard
from engine.simulate.sharded.task import Extraction


class TaskText:
    """A task bound to one instruction, as most tasks are: a user that is simulated, and an answer that is cut out.

    Its texts are `texts["TASK-system"]`, `texts["TASK-full"]` and `texts["TASK-answer"]`.
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
        """The task's text of this name, with its places filled."""
        return filled(self._texts[f"{self.instruction.task}-{part}"].strip("\n"), places)


def bullets(shards: Sequence[Shard]) -> str:
    """The shards as CONCAT lists them."""
    return "".join(f"- {shard.text}\n" for shard in shards)


def listed(instruction: Instruction, key: str) -> list[Any]:
    """A key that must be a list with something in it.

    Raises:
        BadInstruction: It is not.
    """
    value = instruction.keys.get(key)
    if not isinstance(value, list) or not value:
        raise BadInstruction(f"{instruction.task_id}: `{key}` must be a list that is not empty.")
    return value


def mapped(instruction: Instruction, key: str) -> Mapping[str, Any]:
    """A key that must be an object.

    Raises:
        BadInstruction: It is not.
    """
    value = instruction.keys.get(key)
    if not isinstance(value, dict):
        raise BadInstruction(f"{instruction.task_id}: `{key}` must be an object.")
    return value
