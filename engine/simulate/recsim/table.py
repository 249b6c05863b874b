"""Statistics of simulated conversations with profiles, by task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.simulate.recsim.people import TASKS


@dataclass(frozen=True, slots=True)
class TaskRow:
    """All conversations of one task.

    Attributes:
        turns: Mean number of answers of the assistant.
        goodbyes: Number of conversations that the user ended; the others reached the limit of turns.
        user_chars, assistant_chars: Mean length of a message.
        stand_ins: Number of fixed messages that replaced empty replies.
    """

    task: str
    conversations: int
    turns: float
    goodbyes: int
    user_chars: float
    assistant_chars: float
    stand_ins: int


def by_task(results: Iterable[Mapping[str, Any]]) -> list[TaskRow]:
    """Returns a row for each task that was played, in the order of `TASKS`.

    Args:
        results: `Ending.result` of each play.
    """
    of_task: dict[str, list[Mapping[str, Any]]] = {}
    for one in results:
        of_task.setdefault(str(one["task"]), []).append(one)
    return [_row(task, of_task[task]) for task in TASKS if task in of_task]


def _row(task: str, played: list[Mapping[str, Any]]) -> TaskRow:
    turns = sum(one["turns"] for one in played)
    return TaskRow(
        task,
        len(played),
        turns / len(played),
        sum(one["ended"] == "goodbye" for one in played),
        sum(one["user_chars"] for one in played) / turns,
        sum(one["assistant_chars"] for one in played) / turns,
        sum(one["stand_ins"] for one in played),
    )
