"""The triage queue and the answers of people in one open project."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from typing import TypeVar

from engine.base.conversation import Verdict
from engine.conversations.filters import ListQuery
from engine.project import settings
from engine.project.project import Project
from engine.questions.records import Act, AnswerRow, QueueOrder, TriagePage, TriagePlace
from engine.questions.tables import answers, second_answers, triage_queue
from engine.signs import tables as sign_tables

T = TypeVar("T")

PLACE = "triage.place"
"""Setting: where triage goes on: order, filter, what was skipped."""
FORMER_INFORMATIVE = "teaching"
"""The name of the order `informative` in places that earlier versions stored."""
RECENT_VERDICTS = 10
"""Number of newest verdicts that are not asked again, because a person may still remember them."""


class TriageService:
    """The triage queue and the verdicts of one project, and the name of the person who judges.

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
    ) -> TriagePage:
        """Returns the conversations that wait for a verdict, the most valuable first, of `only` where that is given;
        `engine.questions.tables.triage_queue` explains the orders."""
        with self._project.reading() as conn:
            return triage_queue.queue(conn, order, query, only=only)

    def _store(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Stores an act of a person, tells that something changed, and returns what the act returns."""
        result = self._project.write(act)
        self._changed()
        return result

    def give(self, conversation_id: int, verdict: Verdict, note: str = "") -> AnswerRow:
        """Stores a verdict and returns it."""
        return self._store(
            lambda conn: answers.give(conn, conversation_id, verdict, note, self.annotator)
        )

    def repeat(self, conversation_id: int, verdict: Verdict) -> AnswerRow:
        """Stores a second verdict, given blind, and returns it; the current verdict does not change."""
        return self._store(
            lambda conn: answers.repeat(conn, conversation_id, verdict, self.annotator)
        )

    def note(self, conversation_id: int, note: str) -> AnswerRow:
        """Stores a note and returns it; the verdict stays as it is."""
        return self._store(lambda conn: answers.note(conn, conversation_id, note, self.annotator))

    def tag(self, conversation_ids: Sequence[int], tag: str) -> None:
        """Tags conversations in one act."""
        self._store(lambda conn: answers.tag(conn, conversation_ids, tag, self.annotator))

    def untag(self, conversation_ids: Sequence[int], tag: str) -> None:
        """Takes a tag from conversations in one act."""
        self._store(
            lambda conn: answers.tag(conn, conversation_ids, tag, self.annotator, value=None)
        )

    def answer(self, acts: Sequence[Act]) -> int:
        """Answers questions in one act that one undo takes back, and returns on how many conversations that changes
        something; what is there already is not stored again."""
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
        with self._project.reading() as conn:
            return answers.current(conn, conversation_id)

    def tally(self) -> dict[Verdict, int]:
        """Returns the number of conversations with each verdict; every verdict is a key."""
        with self._project.reading() as conn:
            return answers.tally(conn)

    def to_repeat(self, count: int) -> list[int]:
        """Returns the ids of at most `count` conversations to judge again, at random among those that this person
        judged once and not recently."""
        with self._project.reading() as conn:
            return second_answers.to_repeat(
                conn, count, RECENT_VERDICTS, random.Random(count), self.annotator
            )

    def to_judge_second(self, count: int) -> list[int]:
        """Returns the ids of at most `count` conversations at random that others judged and this person did not."""
        with self._project.reading() as conn:
            return second_answers.to_judge_second(conn, count, random.Random(count), self.annotator)

    def place(self) -> TriagePlace:
        """Returns the stored place of the person in the queue; where there is none, the beginning of the order that
        suits the project: the most trouble first before there are verdicts, then the most informative first."""
        with self._project.reading() as conn:
            stored = settings.get(conn, PLACE)
            if stored is None and any(answers.tally(conn).values()):
                # measured in docs/lab/verdicts.md: near the threshold takes twice as many verdicts
                return TriagePlace("informative")
            if stored is None and next(sign_tables.by_trouble(conn), None) is not None:
                return TriagePlace("trouble")
            stored = stored or {}
        if stored.get("order") == FORMER_INFORMATIVE:
            stored = {**stored, "order": "informative"}
        return TriagePlace(**{**stored, "skipped": tuple(stored.get("skipped", ()))})

    def keep_place(self, place: TriagePlace) -> None:
        """Stores the place of the person in the queue."""
        self._project.write(lambda conn: settings.put(conn, PLACE, asdict(place)))
