"""Tasks bound to small instructions."""

from __future__ import annotations

import json
from typing import Any

from engine.model.prompt_files import prompt_texts
from engine.simulate.service import TASK_CLASSES
from engine.simulate.sharded.instruction import Instruction, Task, read_instructions

TEXTS = prompt_texts("sharded")
SHARDS = [{"shard_id": 1, "shard": "the intent"}, {"shard_id": 2, "shard": "a detail"}]


def instruction_of(record: dict[str, Any]) -> Instruction:
    """The instruction of a record."""
    (instruction,) = read_instructions(json.dumps(record))
    return instruction


def bound(task: str, **keys: Any) -> Task:
    """A task with these keys."""
    record = {"task_id": f"sharded-{task}", "task": task, "shards": SHARDS, **keys}
    return TASK_CLASSES[task](instruction_of(record), TEXTS)


def score(task: Task, answer: str) -> float:
    """The score of an answer."""
    return task.evaluate(answer).score
