"""The shipped instructions can be solved: a right answer scores 1, a wrong one does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from engine.model.chat import Call, Completion
from engine.model.prompt_files import prompt_texts
from engine.simulate.sharded.instruction import BUNDLED, Instruction, bundled_instructions
from engine.simulate.sharded.play import ShardedScenario
from engine.simulate.sharded.scenario import CONDITIONS, Condition
from engine.simulate.sharded.tasks import task_for
from tests.engine.simulate.sharded.scripted import setting

TEXTS = prompt_texts("sharded")
EVERY = [one for name in BUNDLED for one in bundled_instructions(name)]
FIRST_OF_TASK = [one for one in EVERY if one.task_id.endswith("/1")]
CODE = {
    "sharded-workbench-code/1": """\
```python
def longest_run(numbers):
    best = []
    at = 0
    while at < len(numbers):
        end = at
        while end < len(numbers) and numbers[end] == numbers[at]:
            end += 1
        if not best or end - at > best[1]:
            best = [numbers[at], end - at]
        at = end
    return best
```""",
    "sharded-workbench-code/2": """\
```python
def settle(paid):
    share = sum(paid) // len(paid)
    return [share - one for one in paid]
```""",
}
CALLS = {
    "sharded-workbench-actions/1": (
        "[book_table(restaurant='Blue Lantern', guests=6, date='2026-06-12', time='19:30')]"
    ),
    "sharded-workbench-actions/2": (
        "[forecast(city='Lisbon', days=3, unit='celsius'), "
        "forecast(city='Tromsø', days=3, unit='celsius')]"
    ),
}
SUMMARY = "\n".join(
    [
        "- Traders fear to lose customers [1, 3]",
        "- Most residents welcome the closing [2]",
        "- Deliveries are possible until 10 [1, 4]",
        "- There will be bicycle stands and bus stops [4]",
    ]
)


def right(one: Instruction) -> str:
    """A reply that solves an instruction."""
    match one.task:
        case "math":
            return f"The answer is {one.text('answer').rpartition('#### ')[2]}."
        case "database":
            return one.text("reference_sql")
        case "data2text":
            return str(one.keys["references"][0])
        case "translation":
            return one.text("document_en")
        case "summary":
            return SUMMARY
        case _:
            return (CODE | CALLS)[one.task_id]


class Solver:
    """Models of a play: an assistant with one reply, a user who gives the shards in order, a judge who accepts it as an
    answer.
    """

    def __init__(self, one: Instruction, reply: str) -> None:
        self._one, self._reply, self._insights = one, reply, 0

    def __call__(self, calls: Sequence[Call]) -> list[Completion]:
        return [Completion(self._say(call), "end") for call in calls]

    def _say(self, call: Call) -> str:
        if call.module == "assistant":
            return self._reply
        schema = json.loads(call.sampling.json_schema or "{}")["properties"]
        if call.module == "user":
            return json.dumps({"response": "this", "shard_id": schema["shard_id"]["enum"][0]})
        if call.module == "classify":
            return json.dumps({"response_type": "answer_attempt"})
        if call.module == "extract":
            return json.dumps({"answer": self._reply})
        self._insights = self._insights % len(self._one.keys["insights"]) + 1
        return json.dumps({"coverage": "FULL_COVERAGE", "bullet_id": self._insights})


def result(one: Instruction, condition: Condition, reply: str) -> Any:
    """The result of a play with that reply."""
    play = ShardedScenario(setting(), one, task_for(one, TEXTS), condition, 0).play()
    say = Solver(one, reply)
    try:
        call = next(play)
        while True:
            call = play.send(say([call])[0])
    except StopIteration as stop:
        return stop.value.result


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.task_id)
def test_full_is_solved_by_the_right_answer_alone(one: Instruction) -> None:
    """In FULL the gold answer in a sentence scores 1; another reply does not."""
    assert result(one, "full", right(one))["score"] == 1
    assert result(one, "full", "I would say 123456.")["score"] < 1


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("one", FIRST_OF_TASK, ids=lambda one: one.task)
def test_every_condition_of_every_task(one: Instruction, condition: Condition) -> None:
    """Each kind of task is solved under each condition; a task scored at the end goes through all its shards."""
    found = result(one, condition, right(one))
    assert (found["score"], found["is_correct"]) == (1, True)
    last = len(one.shards) if one.task == "summary" else 1
    turns = {"sharded": last, "snowball": last, "recap": last + 1}.get(condition, 1)
    assert found["turns"] == turns
