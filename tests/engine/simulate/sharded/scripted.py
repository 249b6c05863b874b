"""A task and models with scripted replies, for tests of the loop."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.model.chat import Call, Completion, Ending, Scenario
from engine.model.prompt_files import prompt_texts
from engine.simulate.sharded.instruction import Evaluation, Task
from engine.simulate.sharded.play import Condition, Setting, ShardedScenario
from tests.engine.simulate.sharded.bound import instruction_of

SHELLS = instruction_of(
    {
        "task_id": "sharded-shells",
        "task": "math",
        "shards": [
            {"shard_id": 1, "shard": "How many plums has Ada?"},
            {"shard_id": 2, "shard": "Bo has 4 plums."},
            {"shard_id": 3, "shard": "Ada has twice as many as Bo."},
        ],
        "question": "Bo has 4 plums, Ada twice as many. How many has Ada?",
        "answer": "4 * 2 = 8 #### 8",
    }
)


class PlainTask(Task):
    """A task whose correct answer is `gold`; `whole` is whether the whole reply is the answer."""

    def __init__(self, *, whole: bool = False, gold: str = "8") -> None:
        super().__init__(SHELLS, {"math-full": "Q: [[QUESTION]]"}, SHELLS.text("question"))
        self.extracts_answer, self.gold = not whole, gold

    @property
    def answer_description(self) -> str:
        return "A number."

    def system_prompt(self) -> str:
        return "Solve it."

    def evaluate(self, answer: str) -> Evaluation:
        return Evaluation(float(answer == self.gold), {"seen": answer})


@dataclass
class ScriptedReplies:
    """Answers calls from lists of replies, one list for each module; a call of a module without a list fails.
    Attributes: asked: Every call, in order.
    """

    replies: Mapping[str, list[Any]]
    asked: list[Call] = field(default_factory=list)

    def __call__(self, calls: Sequence[Call]) -> list[Completion]:
        self.asked += calls
        return [self._say(call) for call in calls]

    def _say(self, call: Call) -> Completion:
        reply = self.replies[call.module].pop(0)
        return Completion(reply if isinstance(reply, str) else json.dumps(reply), "end")

    def of(self, module: str) -> list[Call]:
        """The calls of a module."""
        return [call for call in self.asked if call.module == module]


def setting(**changes: Any) -> Setting:
    """Names and numbers of a simulation."""
    values: dict[str, Any] = {
        "texts": prompt_texts("sharded"),
        "assistant": "small",
        "user": "chatty",
        "system": "strict",
        "dataset": "instructions.json",
        "version": "1.0",
        "moment": "2026-01-02 03:04:05",
    }
    return Setting(**{**values, **changes})


def scenario(
    condition: Condition,
    task: PlainTask | None = None,
    run: int = 0,
    **changes: Any,
) -> ShardedScenario:
    """A scenario of the instruction on plums."""
    task = task or PlainTask()
    return ShardedScenario(setting(**changes), task.instruction, task, condition, run)


def played(one: Scenario, speakers: ScriptedReplies) -> Ending:
    """The result of a scenario."""
    play = one.play()
    try:
        call = next(play)
        while True:
            call = play.send(speakers([call])[0])
    except StopIteration as stop:
        ending = stop.value
    assert isinstance(ending, Ending)
    return ending


def attempt(category: str = "answer_attempt") -> dict[str, str]:
    """The judge's reply that the answer is an attempt."""
    return {"response_type": category}
