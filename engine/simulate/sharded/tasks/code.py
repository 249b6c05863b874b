"""Programming (HumanEval, LiveCodeBench): the answer is one Python function, correct if it passes all tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.errors import BadInstruction
from engine.simulate.sharded.confined import Limits, require_confinement, run_function
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Evaluating, Evaluation, Extraction, without_judge
from engine.simulate.sharded.tasks.base import TaskText, bullets, mapped
from engine.simulate.sharded.tasks.packed_tests import BadTests, unpacked
from engine.simulate.sharded.tasks.python_answer import callable_as, function_in

_SOURCES = ("humaneval", "lcb_easy", "lcb_medium")


@dataclass(frozen=True, slots=True)
class _Test:
    arguments: Sequence[Any]
    expected: Any


class CodeTask(TaskText):
    """Keys: `source`, `public_test_cases`, `private_test_cases`, `metadata.func_name`; `prompt` (HumanEval) or
    `question_content` and `starter_code` (LiveCodeBench).

    A test case has the arguments, one JSON value a line, and the JSON value that the function must return.
    """

    extraction: Extraction = "task_specific"

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        source = instruction.text("source")
        if source not in _SOURCES:
            raise BadInstruction(
                f"{instruction.task_id}: `source` must be one of {', '.join(_SOURCES)}."
            )
        self._is_completion = source == "humaneval"
        self._prompt = instruction.text("prompt" if self._is_completion else "question_content")
        self._starter = "" if self._is_completion else instruction.text("starter_code")
        name = mapped(instruction, "metadata").get("func_name")
        if not isinstance(name, str) or not name.isidentifier():
            raise BadInstruction(f"{instruction.task_id}: `metadata.func_name` must be a name.")
        self._name = name
        self._tests = [
            *_tests(instruction, "public_test_cases"),
            *_tests(instruction, "private_test_cases"),
        ]
        if not self._tests:
            raise BadInstruction(f"{instruction.task_id}: there are no test cases.")
        require_confinement()
        self._limits = Limits()

    def full_prompt(self) -> str:
        if self._is_completion:
            return self.text("complete", CODE=self._prompt)
        return self._with_starter(self._prompt)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        request = f"{shards[0].text}\n{bullets(shards[1:])}"
        return (
            self.text("full", QUESTION=request)
            if self._is_completion
            else self._with_starter(request)
        )

    def _with_starter(self, question: str) -> str:
        starter = self._starter or "# YOUR CODE HERE"
        return self.text("starter", QUESTION=question, STARTER_CODE=starter)

    def extract(self, reply: str) -> str:
        return function_in(reply)

    def evaluate(self, answer: str) -> Evaluating:
        module = callable_as(answer, self._name, self._prompt if self._is_completion else "")
        if not module:
            return without_judge(Evaluation(0.0, {"failed": "there is no function"}))
        for number, test in enumerate(self._tests, 1):
            outcome = run_function(module, self._name, test.arguments, self._limits)
            if outcome.ended != "returned" or outcome.value != test.expected:
                why = outcome.error or (
                    "another value" if outcome.ended == "returned" else outcome.ended
                )
                failed = {"failed": f"test {number}: {why}", "tests": len(self._tests)}
                return without_judge(Evaluation(0.0, failed))
        return without_judge(Evaluation(1.0, {"tests": len(self._tests)}))


def _tests(instruction: Instruction, key: str) -> list[_Test]:
    value = instruction.keys.get(key)
    if not value:
        return []
    try:
        cases = unpacked(value)
        return [
            _Test([json.loads(line) for line in str(case["input"]).split("\n")], _expected(case))
            for case in cases
        ]
    except BadTests as error:
        raise BadInstruction(f"{instruction.task_id}: `{key}`: {error}.") from error
    except ValueError as error:
        raise BadInstruction(
            f"{instruction.task_id}: `{key}`: an input or output is no JSON, as tests of a function have it: {error}."
        ) from error


def _expected(case: Mapping[str, Any]) -> Any:
    return json.loads(str(case["output"]))
