"""The triage queue and the answers of people in one open project."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from typing import TypeVar

from engine.base.conversation import SUCCEEDED
from engine.conversations.filters import ListQuery
from engine.project import settings
from engine.project.project import Project
from engine.questions.question import NOTE
from engine.questions.records import AnswerRow, NewAnswer, QueueOrder, TriagePage, TriagePlace
from engine.questions.tables import (
    answers,
    example_probes,
    machine_answers,
    opinions,
    questions,
    triage_queue,
)
from engine.signs import tables as sign_tables

T = TypeVar("T")

PLACE = "triage.place"
"""Setting: where triage goes on: its order and whether a person chose it, its filter, and what was skipped."""
_DEFAULT_ORDERS = ("trouble", "threshold", "informative")
"""Orders in which triage of verdicts began by itself, in places that do not say whether a person chose the order."""
RECENT_ANSWERS = 10
"""Number of newest answers that are not asked again, because a person may still remember them."""


class TriageService:
    """The triage queue and the answers of people in one project, and the name of the person who judges.

    Attributes:
        annotator: Stored with every act; empty without a name.

    `current`, `tally` and `place` are fast enough for the user-interface thread. Methods that write raise
    ProjectReadOnly if the project cannot be written.
    """

    def __init__(self, project: Project, changed: Callable[[], None] = lambda: None) -> None:
        """Reads nothing yet.

        Args:
            changed: Called after every act of a person that was stored.
        """
        self.annotator = ""
        self._project = project
        self._changed = changed

    def queue(
        self,
        order: QueueOrder = "threshold",
        query: ListQuery | None = None,
        only: Collection[int] | None = None,
        question: str = SUCCEEDED,
        passed: int = 0,
    ) -> TriagePage:
        """Returns the conversations that wait for an answer, the most valuable first, of `only` where that is given: a
        page, and `passed` more, for what was passed without an answer still waits.
        `engine.questions.tables.triage_queue` explains the orders."""
        page = triage_queue.PAGE + passed
        return self._project.read(triage_queue.queue, order, query, page, only, question)

    def give(
        self, conversation_id: int, value: str, note: str = "", question: str = SUCCEEDED
    ) -> AnswerRow:
        """Stores an answer as `Question.answer` gives it, and a note with it, and returns the answer."""
        notes = [NewAnswer(conversation_id, NOTE, note, self.annotator)] if note else []
        acts = [*notes, NewAnswer(conversation_id, question, value, self.annotator)]
        return self._store(lambda conn: answers.append(conn, acts))

    def repeat(self, conversation_id: int, value: str, question: str = SUCCEEDED) -> AnswerRow:
        """Stores a second answer, given blind, and returns it; the current answer does not change."""
        act = NewAnswer(conversation_id, question, value, self.annotator, blind=True)
        return self._store(lambda conn: answers.append(conn, [act]))

    def note(self, conversation_id: int, note: str) -> AnswerRow:
        """Stores a note, an empty one to clear it, and returns it; the verdict stays as it is."""
        act = NewAnswer(conversation_id, NOTE, note or None, self.annotator)
        return self._store(lambda conn: answers.append(conn, [act]))

    def answer(self, acts: Sequence[NewAnswer]) -> int:
        """Stores several answers that one undo takes back, and returns the number of conversations that they change;
        answers that are in force already are not stored again."""
        named = [replace(act, annotator=self.annotator) for act in acts]
        return self._store(lambda conn: answers.change(conn, named))

    def undo(self) -> AnswerRow | None:
        """Undoes the newest act in force and returns it; None when nothing is left."""
        return self._store(answers.undo)

    def redo(self) -> AnswerRow | None:
        """Redoes the act that the newest undo took back; None when there is none."""
        return self._store(answers.redo)

    def current(self, conversation_id: int) -> AnswerRow | None:
        """Returns the current verdict, note and tags of a conversation; None when it has none of them."""
        return self._project.read(answers.current, conversation_id)

    def tally(self, question: str = SUCCEEDED) -> dict[str, int]:
        """Returns the number of conversations by the answer in force of people; every answer that the question can have
        is a key."""
        with self._project.reading() as conn:
            known = dict.fromkeys(questions.get(conn, question).answers, 0)
            return known | answers.counts(conn, question)

    def to_repeat(self, count: int, question: str = SUCCEEDED) -> list[int]:
        """Returns the ids of at most `count` conversations to answer again, at random among those that this person
        answered once and not recently."""
        with self._project.reading() as conn:
            return opinions.draw_for_repeat(
                conn, count, RECENT_ANSWERS, random.Random(count), self.annotator, question
            )

    def to_judge_second(self, count: int, question: str = SUCCEEDED) -> list[int]:
        """Returns the ids of at most `count` conversations at random that others answered and this person did not."""
        return self._project.read(
            opinions.draw_for_second_person, count, random.Random(count), self.annotator, question
        )

    def place(self) -> TriagePlace:
        """Returns the stored place of the person in the queue; where there is none, the beginning of that of
        `SUCCEEDED`."""
        stored = self._project.read(settings.get, PLACE)
        if stored is None:
            return self.start(SUCCEEDED)
        chosen = stored.get("chosen", stored.get("order") not in _DEFAULT_ORDERS)
        skipped = tuple(stored.get("skipped", ()))
        return TriagePlace(**{**stored, "skipped": skipped, "chosen": chosen})

    def start(self, question: str) -> TriagePlace:
        """Returns the beginning of the order that suits a question: the check of a machine if one answered, the
        `failures` where answers tell them, else `informative`; while there are no answers, `trouble`."""
        with self._project.reading() as conn:
            is_yes_no = questions.get(conn, question).kind == "yes-no"
            order: QueueOrder = "threshold" if question == SUCCEEDED else "list"
            probe = example_probes.get(conn, question)
            if question != SUCCEEDED and machine_answers.answerers(conn, question):
                order = "check"
            elif question == SUCCEEDED and probe is not None and probe.tells:
                order = "failures"
            elif is_yes_no and answers.counts(conn, question):
                # measured in docs/lab/verdicts.md: near the threshold takes twice as many verdicts
                order = "informative"
            elif next(sign_tables.ids_most_trouble_first(conn), None) is not None:
                order = "trouble"
        return TriagePlace(order, question=question)

    def better_order(self, order: QueueOrder, question: str) -> QueueOrder:
        """Returns the order that goes on in the place of one that nobody chose: the `failures` as soon as answers tell
        them, and not once they no longer do."""
        default = self.start(question).order
        return default if "failures" in (order, default) else order

    def keep_place(self, place: TriagePlace) -> None:
        """Stores the place of the person in the queue."""
        self._project.write(lambda conn: settings.put(conn, PLACE, asdict(place)))

    def _store(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a write that stores an act of a person, reports the change, and returns what the write returns."""
        result = self._project.write(act)
        self._changed()
        return result
