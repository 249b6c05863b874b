"""Asks a question of many conversations."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from engine.base.number_format import counted
from engine.conversations.tables import conversations
from engine.jobs.contract import CpuStage, Progress
from engine.project.project import Project
from engine.questions.pattern_matching import PatternMatcher
from engine.questions.question import Question
from engine.questions.records import Answerer, MachineAnswer
from engine.questions.tables import machine_answers

BATCH = 1_000
"""Number of conversations whose answers are committed together."""


class PatternStage(CpuStage):
    """Lets the patterns of a question answer it on what they have not answered in its present text.

    Attributes:
        counts: Number of conversations by answer; None for those without one.
    """

    name: ClassVar[str] = "ask"

    def __init__(self, project: Project, question: Question, ids: Sequence[int]) -> None:
        """Reads nothing yet.

        Args:
            ids: The conversations that are asked about.

        Raises:
            UsageError: The question has no pattern that can be read.
        """
        super().__init__(project)
        self.title = f"Asking {question.name}"
        self.counts: Counter[str | None] = Counter()
        self._question, self._ids = question, ids
        self._matcher = PatternMatcher(question)

    @property
    def params(self) -> Mapping[str, Any]:
        """The question with its patterns; its words change no answer."""
        patterns = msgspec.to_builtins(self._question.patterns)
        return {
            "question": self._question.name,
            "kind": self._question.kind,
            "patterns": patterns,
            "otherwise": self._question.otherwise,
        }

    @property
    def answered(self) -> int:
        """Number of conversations that were read."""
        return self.counts.total()

    def waiting(self) -> list[int]:
        """Returns the conversations that the patterns have not answered on."""
        with self._project.reading() as conn:
            known = frozenset(machine_answers.answered(conn, self.config_hash))
        return [key for key in self._ids if key not in known]

    def run(self, run_id: int) -> Iterator[Progress]:
        """Commits the answers batch by batch.

        Raises:
            Cancelled: `interrupt` was called.
        """
        ids = self.waiting()
        answerer = Answerer(self.config_hash, self._question.name, "pattern", "pattern")

        def put(conn: sqlite3.Connection, answers: Sequence[MachineAnswer]) -> None:
            """Stores the answers of a batch."""
            machine_answers.register(conn, answerer)
            machine_answers.put(conn, answerer.config_hash, run_id, answers)

        yield from self._each_batch(run_id, ids, BATCH, self._read_answers, put)

    def _read_answers(self, conn: sqlite3.Connection, ids: Sequence[int]) -> list[MachineAnswer]:
        """Returns the answers on conversations, and counts them."""
        answers = []
        for key, messages in conversations.conversations_for(conn, ids):
            value, cites = self._matcher.answer(messages)
            self.counts[value] += 1
            answers.append(MachineAnswer(key, value, cites=cites))
        return answers

    def summary(self) -> str:
        """Returns how often each answer was given, in one sentence."""
        given = ", ".join(
            f"{value or 'no answer'} {count:,}" for value, count in self.counts.most_common()
        )
        return f"{self._question.name}: {counted(self.answered, 'conversation')} read{given and ': '}{given}."
