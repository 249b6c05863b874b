"""Function calls (Berkeley function-calling leaderboard): the calls in an answer are parsed and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Evaluating, Evaluation, Extraction, without_judge
from engine.simulate.sharded.tasks.base import TaskText, bullets, listed
from engine.simulate.sharded.tasks.call_match import LANGUAGES, mismatch
from engine.simulate.sharded.tasks.calls import NotCalls, read_calls


class ActionsTask(TaskText):
    """Keys: `function`, `fully_specified_question`, `reference_answer`, `language`, `test_category`."""

    extraction: Extraction = "full_response"

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        self._functions = _objects(instruction, "function")
        self._wanted = _objects(instruction, "reference_answer")
        for wanted in self._wanted:
            parameters = next(iter(wanted.values()), None)
            if not isinstance(parameters, dict) or not all(
                isinstance(values, list) for values in parameters.values()
            ):
                raise BadInstruction(
                    f"{instruction.task_id}: `reference_answer` must list the accepted values of each parameter."
                )
        self._language = instruction.text("language").lower()
        if self._language not in LANGUAGES:
            raise BadInstruction(
                f"{instruction.task_id}: `language` must be one of {', '.join(sorted(LANGUAGES))}."
            )
        self._category = instruction.text("test_category")
        self._question = _question(instruction)

    def system_prompt(self) -> str:
        schemas = json.dumps(self._functions, ensure_ascii=False, indent=2)
        return self.text("system", FUNCTIONS=schemas)

    def full_prompt(self) -> str:
        return self.text("full", QUESTION=self._question)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        return self.text("full", QUESTION=bullets(shards))

    def evaluate(self, answer: str) -> Evaluating:
        try:
            calls = read_calls(answer, self._language)
            wrong = mismatch(calls, self._wanted, self._functions, self._language, self._category)
        except NotCalls as error:
            wrong = str(error)
        except (RecursionError, OverflowError):
            wrong = "a value is too deep or too large"
        return without_judge(Evaluation(0.0, {"wrong": wrong}) if wrong else Evaluation(1.0))


def _objects(instruction: Instruction, key: str) -> list[dict[str, Any]]:
    """Returns the objects under a key, which holds a list of them or such a list as JSON text.

    Raises:
        BadInstruction: It does not.
    """
    value = instruction.keys.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadInstruction(f"{instruction.task_id}: `{key}` is not JSON: {error}.") from error
        instruction = Instruction(
            instruction.task_id, instruction.task, instruction.shards, {key: value}
        )
    found = listed(instruction, key)
    if not all(isinstance(one, dict) and one for one in found):
        raise BadInstruction(f"{instruction.task_id}: `{key}` must be a list of objects.")
    return found


def _question(instruction: Instruction) -> str:
    """Returns the full question: the value itself, or the content of the last message in a list of turns."""
    value = instruction.keys.get("fully_specified_question")
    while isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, dict):
        value = value.get("content")
    if not isinstance(value, str):
        raise BadInstruction(f"{instruction.task_id}: `fully_specified_question` has no text.")
    return value
