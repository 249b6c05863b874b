"""The interface of a task in sharded simulation: its prompts, the extraction of an answer, and its evaluation.

A task is bound to one instruction. Its constructor checks the keys of the instruction, so that a bad instruction is
refused when the file is read and not in the middle of a run. `tasks.task_for(instruction, texts, databases)` builds the
one that an instruction names; `texts` are the prompts (prompts/sharded/TASK_NAME.txt, perhaps edited),
`databases` the folder with `DB_ID/*.sqlite`, if there is one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from engine.base.errors import BadInstruction
from engine.model.chat import Call, Completion
from engine.model.prompt_files import filled
from engine.simulate.sharded.instruction import Instruction, Shard

T = TypeVar("T")
"""Type of a value of an instruction."""

Extraction = Literal["full_response", "task_specific", "gen", "prefix_suffix"]
"""The ways to find an answer in a reply: all of it; by the task's own rule; a model copies it out; a model names its
start and its end (`start [...] end`)."""


_FENCE = "```"
"""Opens and closes a block of code in a reply."""

_TAG = re.compile(
    r"\A[ \t]*(?:python3?|py|java|javascript|js|sql|json|text)?[ \t]*(?:\r?\n|\b)", re.IGNORECASE
)
"""Matches the name of the language at the beginning of a block."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The score of an answer.

    Attributes:
        score: 0 to 1; exactly 1 is a correct answer.
        details: JSON values for the record: the two numbers compared, an error message, the parts of a score.
    """

    score: float
    details: Mapping[str, Any] = field(default_factory=dict)


Evaluating = Generator[Call, Completion, Evaluation]
"""A generator that may yield calls of a judge and returns the evaluation."""


def without_judge(evaluation: Evaluation) -> Evaluating:
    """Wraps a finished evaluation as a generator that yields no calls, for tasks that need no judge."""
    yield from ()
    return evaluation


class Task(ABC):
    """A task bound to one instruction: its prompts and its scoring. All methods but `evaluate` are pure functions.

    The prompts are `texts["TASK-system"]`, `texts["TASK-full"]` and `texts["TASK-answer"]`. By default models play the
    user and copy the answer out of a reply.

    Attributes:
        extraction: How an answer is found in a reply.
        always_attempts: Whether every reply is an answer attempt, so that none is classified: in summary and
            translation.
        scored_at_end: Whether only the attempt after the last shard is evaluated and earlier ones score 0: in summary.
    """

    extraction: Extraction = "gen"
    always_attempts = False
    scored_at_end = False

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        self.instruction = instruction
        self._texts = texts

    @property
    def answer_description(self) -> str:
        """Describes what counts as an answer; part of the prompts that classify a reply and extract the answer."""
        return self.text("answer")

    def system_prompt(self) -> str:
        """Returns the system message, the same under every condition."""
        return self.text("system")

    @abstractmethod
    def full_prompt(self) -> str:
        """Returns the only user turn of FULL: the original instruction."""

    @abstractmethod
    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the only user turn of CONCAT: the shards in the given order, as a list in the prompt of the task."""

    def user_turn(self, shards: Sequence[Shard], index: int) -> str | None:
        """Returns the fixed text that reveals `shards[index]`; None if a model plays the user.

        With None, the first shard is sent verbatim.
        """
        return None

    def extract(self, reply: str) -> str:
        """Returns the answer in a reply by the task's own rule, "" if there is none; used with `task_specific` only."""
        return reply.strip()

    @abstractmethod
    def evaluate(self, answer: str) -> Evaluating:
        """Scores an answer, which may be empty. Does not raise, whatever the model wrote."""

    def text(self, part: str, **places: str) -> str:
        """Returns the prompt `TASK-part` with its places filled."""
        return filled(self._texts[f"{self.instruction.task}-{part}"].strip("\n"), places)


def bullets(shards: Sequence[Shard]) -> str:
    """Returns the shards as the list of CONCAT, one line each."""
    return "".join(f"- {shard.text}\n" for shard in shards)


def value_of(instruction: Instruction, key: str, kind: type[T]) -> T:
    """Returns the value of a key of an instruction.

    Raises:
        BadInstruction: It is missing, or it is not of this kind; the message says where.
    """
    try:
        return msgspec.convert(instruction.keys.get(key), kind)
    except msgspec.ValidationError as error:
        raise BadInstruction(f"{instruction.task_id}: `{key}`: {error}.") from error


def list_of(instruction: Instruction, key: str, kind: type[T]) -> list[T]:
    """Returns the value of a key that must be a list with at least one element.

    Raises:
        BadInstruction: It is not, or an element is not of this kind; the message says where.
    """
    values = value_of(instruction, key, list[kind])  # type: ignore[valid-type]  # mypy reads types only
    if not values:
        raise BadInstruction(f"{instruction.task_id}: `{key}` must be a list that is not empty.")
    return values


def fenced_blocks(reply: str) -> list[str]:
    """Returns the contents of the closed fenced blocks, stripped and without the name of the language."""
    # After a split at fences, every second part is inside of one; with an even number of parts the last fence is open.
    # Splits instead of matching a pattern, which takes minutes on the long runs of spaces that small models write.
    parts = reply.split(_FENCE)
    closed = parts[1::2] if len(parts) % 2 else parts[1:-1:2]
    return [_TAG.sub("", part, count=1).strip() for part in closed]
