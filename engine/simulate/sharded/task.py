"""The interface of a task in sharded simulation: its prompts, the extraction of an answer, and its evaluation.

A task is bound to one instruction: whoever builds it checks the instruction's keys, so that a bad instruction is
refused when the file is read and not in the middle of a run. `tasks.task_for(instruction, texts, databases)` builds the
one that an instruction names; `texts` are the prompts (prompts/sharded/TASK_NAME.txt, perhaps edited),
`databases` the folder with `DB_ID/*.sqlite`, if there is one.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from engine.model.chat import Call, Completion
from engine.simulate.sharded.instruction import Shard

Extraction = Literal["full_response", "task_specific", "gen", "prefix_suffix"]
"""How an answer is found in a reply: all of it; by the task's own rule; a model copies it out; a model names its
start and its end (`start [...] end`)."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The score of an answer.

    Attributes:
        score: 0 to 1; exactly 1 is a correct answer.
        details: What else is worth keeping, JSON: the two numbers compared, an error message, the parts of a score.
    """

    score: float
    details: Mapping[str, Any] = field(default_factory=dict)


Evaluating = Generator[Call, Completion, Evaluation]
"""A generator that may yield calls of a judge and returns the evaluation."""


def settled(evaluation: Evaluation) -> Evaluating:
    """Returns the generator of an evaluation that needs no judge."""
    yield from ()
    return evaluation


class Task(Protocol):
    """One instruction, as its kind of task lays it out and scores it. Everything but `evaluate` is a pure function."""

    @property
    def answer_description(self) -> str:
        """What counts as an answer, for whoever classifies a reply and copies the answer out of it."""

    @property
    def extraction(self) -> Extraction:
        """How an answer is found in a reply."""

    @property
    def always_attempts(self) -> bool:
        """Every reply counts as an answer attempt, unasked: summary and translation."""

    @property
    def scored_at_end(self) -> bool:
        """Only the attempt after the last shard is evaluated, earlier ones score 0: summary."""

    def system_prompt(self) -> str:
        """The system message of every condition."""

    def full_prompt(self) -> str:
        """The one user turn of FULL: the original instruction."""

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """The one user turn of CONCAT: these shards, in this order, as a list in the task's prompt."""

    def user_turn(self, shards: Sequence[Shard], at: int) -> str | None:
        """The fixed text that reveals `shards[at]`, or None where the user is simulated.

        None for the first shard sends its text verbatim.
        """

    def extract(self, reply: str) -> str:
        """The answer in a reply by the task's own rule, "" if there is none; for `task_specific` only."""

    def evaluate(self, answer: str) -> Evaluating:
        """Scores an answer, which may be empty. Never raises for what a model may have written."""
