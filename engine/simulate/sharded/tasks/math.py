"""Grade-school mathematics (GSM8K): the last number of an answer must equal the number after `####`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Evaluating, Evaluation, without_judge
from engine.simulate.sharded.tasks.base import TaskText, bullets

_NUMBER = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
_MARK = "####"


def last_number(text: str) -> str | None:
    """Returns the last number of a text in the form that is compared; None if there is none.

    A number is what the regular expression of the published evaluation matches, which also matches two or more of `$.,`
    without a digit. The form that is compared has no `,`, no `$`, no `.00` after a sum in dollars and no final dot.
    """
    found = [match.group() for match in _NUMBER.finditer(text.strip())]
    return _plain(found[-1]) if found else None


def _plain(number: str) -> str:
    if "$" in number:
        number = number.removesuffix(".00")
    return number.replace(",", "").replace("$", "").removesuffix(".")


class MathTask(TaskText):
    """A word problem with one number as its answer. Keys: `question`, `answer` ("... #### 16")."""

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        self._question = instruction.text("question")
        _, mark, gold = instruction.text("answer").partition(_MARK)
        if not mark or not gold.strip():
            raise BadInstruction(
                f"{instruction.task_id}: `answer` must end with {_MARK} and the number."
            )
        self._gold = _plain(gold.strip().lower())

    def full_prompt(self) -> str:
        return self.text("full", QUESTION=self._question)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        return self.text("full", QUESTION=bullets(shards))

    def evaluate(self, answer: str) -> Evaluating:
        number = last_number(answer)
        score = 1.0 if number == self._gold else 0.0
        return without_judge(Evaluation(score, {"number": number, "gold": self._gold}))
