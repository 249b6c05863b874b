"""Tasks bound to small instructions, and the score of an answer to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.model.chat import Call, Completion
from engine.model.prompt_files import prompt_texts
from engine.simulate.sharded.instruction import Instruction, read_instructions
from engine.simulate.sharded.task import Evaluation, Task
from engine.simulate.sharded.tasks import task_for

TEXTS = prompt_texts("sharded")
SHARDS = [{"shard_id": 1, "shard": "the intent"}, {"shard_id": 2, "shard": "a detail"}]


def instruction_of(record: dict[str, Any]) -> Instruction:
    """The instruction of a record."""
    (instruction,) = read_instructions(json.dumps(record))
    return instruction


def bound(
    task: str, shards: Sequence[Any] = SHARDS, databases: Path | None = None, **keys: Any
) -> Task:
    """A task with these keys."""
    record = {"task_id": f"sharded-{task}", "task": task, "shards": list(shards), **keys}
    return task_for(instruction_of(record), TEXTS, databases)


def scored(
    task: Task, answer: str, judge: Callable[[Call], Any] | None = None
) -> tuple[Evaluation, list[Call]]:
    """The score of an answer, and the calls of the judge."""
    asked: list[Call] = []
    evaluating = task.evaluate(answer)
    try:
        call = next(evaluating)
        while True:
            assert judge is not None, "nobody is to be asked"
            asked.append(call)
            reply = judge(call)
            text = reply if isinstance(reply, str) else json.dumps(reply)
            call = evaluating.send(Completion(text, "end"))
    except StopIteration as stop:
        evaluation = stop.value
    assert isinstance(evaluation, Evaluation)
    return evaluation, asked


def score(task: Task, answer: str) -> float:
    """The score of an answer for which no model is called."""
    return scored(task, answer)[0].score
