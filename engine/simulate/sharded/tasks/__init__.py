"""The seven tasks of sharded simulation: the prompts of each, and how it scores an answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.simulate.sharded.instruction import Instruction
from engine.simulate.sharded.task import Task
from engine.simulate.sharded.tasks.actions import ActionsTask
from engine.simulate.sharded.tasks.code import CodeTask
from engine.simulate.sharded.tasks.data2text import DataToTextTask
from engine.simulate.sharded.tasks.database import DatabaseTask
from engine.simulate.sharded.tasks.math import MathTask
from engine.simulate.sharded.tasks.summary import SummaryTask
from engine.simulate.sharded.tasks.translation import TranslationTask


def task_for(
    instruction: Instruction, texts: Mapping[str, str], databases: Path | None = None
) -> Task:
    """Returns the task that an instruction names, bound to that instruction.

    Args:
        texts: The prompts by name: the files `prompts/sharded/TASK-PART.txt` without suffix, perhaps edited.
        databases: Folder with `DB_ID/*.sqlite` for database tasks; if None, each database is built from `schema_sql`.

    Raises:
        BadInstruction: A key of the task is missing or of the wrong kind.
        UsageError: A library that scores the task is not installed, or this system cannot confine the code of answers.
    """
    match instruction.task:
        case "math":
            return MathTask(instruction, texts)
        case "database":
            return DatabaseTask(instruction, texts, databases)
        case "actions":
            return ActionsTask(instruction, texts)
        case "code":
            return CodeTask(instruction, texts)
        case "data2text":
            return DataToTextTask(instruction, texts)
        case "summary":
            return SummaryTask(instruction, texts)
        case _:
            return TranslationTask(instruction, texts)
