"""What a task of sharded simulation is, its prompts and the evaluation of an answer; and the word problems of `math`.

A task is bound to one instruction. Its constructor checks the keys of the instruction, so that a bad instruction is
refused when the file is read and not in the middle of a run. `texts` are the prompts (prompts/sharded/TASK_NAME.txt,
perhaps edited).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.base.errors import BadInstruction
from engine.model.prompt_files import filled
from engine.simulate.sharded.instruction import Instruction, Shard

_NUMBER = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
"""Matches a number as the published evaluation finds it."""

_MARK = "####"
"""Stands before the number in a known answer."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The score of an answer.

    Attributes:
        score: 0 to 1; exactly 1 is a correct answer.
        details: JSON values for the record: the two numbers compared, an error message, the parts of a score.
    """

    score: float
    details: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC):
    """A task bound to one instruction: its prompts and its scoring. All methods are pure functions.

    The prompts are `texts["TASK-system"]`, `texts["TASK-full"]` and `texts["TASK-answer"]`.

    Attributes:
        is_copied: Whether a model copies the answer out of a reply; else the whole reply is the answer.
    """

    is_copied = True

    def __init__(self, instruction: Instruction, texts: Mapping[str, str], question: str) -> None:
        """Binds the task; `question` is the original instruction."""
        self.instruction = instruction
        self._texts, self._question = texts, question

    @property
    def answer_description(self) -> str:
        """Describes what counts as an answer; part of the prompts that classify a reply and extract the answer."""
        return self.text("answer")

    def system_prompt(self) -> str:
        """Returns the system message, the same under every condition."""
        return self.text("system")

    def full_prompt(self) -> str:
        """Returns the only user turn of FULL: the original instruction."""
        return self.text("full", QUESTION=self._question)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the only user turn of CONCAT: the shards in the given order, as a list in place of the question."""
        bullets = "".join(f"- {shard.text}\n" for shard in shards)
        return self.text("full", QUESTION=bullets)

    @abstractmethod
    def evaluate(self, answer: str) -> Evaluation:
        """Scores an answer, which may be empty. Does not raise, whatever the model wrote."""

    def text(self, part: str, **places: str) -> str:
        """Returns the prompt `TASK-part` with its places filled."""
        return filled(self._texts[f"{self.instruction.task}-{part}"].strip("\n"), places)


def last_number(text: str) -> str | None:
    """Returns the last number of a text in the form that is compared; None if there is none.

    A number is what the regular expression of the published evaluation matches, which also matches two or more of `$.,`
    without a digit. The form that is compared has no `,`, no `$`, no `.00` after a sum in dollars and no final dot.
    """
    numbers = [match.group() for match in _NUMBER.finditer(text.strip())]
    return _plain(numbers[-1]) if numbers else None


def _plain(number: str) -> str:
    """Returns a number in the form that is compared."""
    if "$" in number:
        number = number.removesuffix(".00")
    return number.replace(",", "").replace("$", "").removesuffix(".")


class MathTask(Task):
    """A word problem with one number as its answer. Keys: `question`, `answer` ("... #### 16")."""

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts, instruction.text("question"))
        _, mark, gold = instruction.text("answer").partition(_MARK)
        if not mark or not gold.strip():
            raise BadInstruction(
                f"{instruction.task_id}: `answer` must end with {_MARK} and the number."
            )
        self._gold = _plain(gold.strip().lower())

    def evaluate(self, answer: str) -> Evaluation:
        """Scores 1 if the last number of the answer is the known one."""
        number = last_number(answer)
        score = 1.0 if number == self._gold else 0.0
        return Evaluation(score, {"number": number, "gold": self._gold})
