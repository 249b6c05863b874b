"""Each task in the loop: a late answer, no answer, which models are called, and what their prompts must not contain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from engine.formats.coded.task_dialogues import SHARDED_LOGS
from engine.model.chat import Call, Completion
from engine.model.prompt_files import prompt_texts
from engine.simulate.play import EndedPlay
from engine.simulate.service import TASK_CLASSES
from engine.simulate.sharded.instruction import BUNDLED, Instruction, bundled_instructions
from engine.simulate.sharded.play import CONDITIONS, Condition, ShardedScenario
from tests.engine.simulate.playing import play_all
from tests.engine.simulate.sharded.scripted import setting

EVERY = [instruction for name in BUNDLED for instruction in bundled_instructions(name)]
ONE_OF_EACH = [instruction for instruction in EVERY if instruction.task_id.endswith("/1")]


def right_reply(instruction: Instruction) -> str:
    """A reply that solves an instruction."""
    keys = instruction.fields
    if instruction.task == "math":
        return f"All in all: {keys['answer'].split('####')[1].strip()}"
    calls = []
    for wanted in reversed(keys["reference_answer"]):
        for name, parameters in wanted.items():
            said = ", ".join(f"{key}={some[0]!r}" for key, some in parameters.items())
            calls.append(f"{name}({said})")
    return f"[{', '.join(calls)}]"


class Models:
    """All models of a simulation: an assistant that solves the task from the given user turn on, and valid replies for
    the others. Attributes: asked: Every call.
    """

    def __init__(self, instruction: Instruction, right_from: int) -> None:
        self.instruction = instruction
        self.right_from = right_from
        self.asked: list[Call] = []

    def __call__(self, calls: Sequence[Call]) -> list[Completion]:
        self.asked += calls
        return [Completion(self._reply(call), "end") for call in calls]

    def _reply(self, call: Call) -> str:
        seen = call.messages[-1].content
        match call.module:
            case "assistant":
                turn = sum(message.speaker == "user" for message in call.messages)
                return (
                    right_reply(self.instruction) if turn >= self.right_from else "I am not sure."
                )
            case "classify":
                unsure = seen.rstrip().endswith("I am not sure.")
                return json.dumps({"response_type": "discussion" if unsure else "answer_attempt"})
            case "extract":
                return json.dumps({"answer": self._cut(seen)})
            case "user":
                return json.dumps(self._shard(call))
        raise AssertionError(f"nobody plays {call.module}")

    def _cut(self, seen: str) -> str:
        if "I am not sure." in seen:
            return "I am not sure."
        return right_reply(self.instruction).split(": ")[1]

    def _shard(self, call: Call) -> dict[str, Any]:
        schema = json.loads(call.sampling.json_schema or "")
        shard_id = schema["properties"]["shard_id"]["enum"][0]
        text = next(one.text for one in self.instruction.shards if one.shard_id == shard_id)
        return {"response": f"well, {text}", "shard_id": shard_id}


def simulated(
    instruction: Instruction, condition: Condition, right_from: int = 1
) -> tuple[EndedPlay, Models]:
    """One conversation."""
    texts = prompt_texts("sharded")
    scenario = ShardedScenario(
        setting(), instruction, TASK_CLASSES[instruction.task](instruction, texts), condition, 0
    )
    models = Models(instruction, right_from)
    [played] = play_all([scenario], models, parallel=1)
    return played, models


def named(value: Any) -> str | None:
    return value.task_id if isinstance(value, Instruction) else None


@pytest.mark.parametrize("instruction", EVERY, ids=named)
def test_each_shipped_instruction_is_solved_by_its_right_answer_alone(
    instruction: Instruction,
) -> None:
    """In FULL the gold answer in a sentence scores 1; another reply does not."""
    right, _ = simulated(instruction, "full")
    wrong, _ = simulated(instruction, "full", right_from=2)
    assert right.ending.result["score"] == 1
    assert wrong.ending.result["score"] != 1


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("instruction", ONE_OF_EACH, ids=named)
def test_every_task_ends_under_every_condition(
    instruction: Instruction, condition: Condition
) -> None:
    """With a right reply from the second turn on, the conversation ends solved, and its record can be imported."""
    one_turn = condition in ("full", "concat", "shuffle-concat")
    played, _ = simulated(instruction, condition, right_from=1 if one_turn else 2)
    assert played.ending.record is not None
    assert played.ending.record["is_correct"] is True
    read = SHARDED_LOGS.read(played.ending.record, "1", None).conversation
    assert read.truth is not None
    assert read.truth["reward"] == 1.0
    assert {message.role for message in read.messages} == {"system", "user", "assistant"}
    if condition in ("sharded", "snowball"):
        assert played.ending.result["turns"] == 2
        assert played.ending.result["revealed"] == 2


@pytest.mark.parametrize("condition", ["full", "sharded"])
@pytest.mark.parametrize("instruction", ONE_OF_EACH, ids=named)
def test_the_assistant_is_told_no_answer(instruction: Instruction, condition: Condition) -> None:
    """The assistant's prompts have neither the gold answer, nor a score."""
    gold = instruction.fields["answer"] if instruction.task == "math" else "reference_answer"
    _, models = simulated(instruction, condition, right_from=99)
    for call in models.asked:
        if call.module == "assistant":
            assert not any(gold in message.content for message in call.messages)
