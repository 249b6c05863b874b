"""Triage as the screens see it, bound to a project."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict

from engine.filters import ListQuery
from engine.records.conversations import QueueOrder, TriagePage, TriagePlace, Verdict, VerdictRow
from engine.store import queue, settings, verdicts
from engine.store.project import Project

PLACE = "triage.place"
RECENT = 10
"""The newest verdicts, which a person may still remember and which are not asked again."""


class TriageStore:
    """The queue and the verdicts of one project; satisfies `engine.services.ports.Triage`."""

    def __init__(self, project: Project, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called after every act of a person that was stored."""
        self._project = project
        self._changed = changed

    def queue(self, order: QueueOrder = "threshold", query: ListQuery | None = None) -> TriagePage:
        """What waits for a verdict, what is worth most first; see `engine.store.queue`."""
        with self._project.reading() as conn:
            return queue.queue(conn, order, query)

    def give(self, conversation_id: int, verdict: Verdict, note: str = "") -> VerdictRow:
        """Records a verdict."""
        row = self._project.write(lambda conn: verdicts.give(conn, conversation_id, verdict, note))
        self._changed()
        return row

    def repeat(self, conversation_id: int, verdict: Verdict) -> VerdictRow:
        """Records a second verdict, given blind; what stands is as it was."""
        row = self._project.write(lambda conn: verdicts.repeat(conn, conversation_id, verdict))
        self._changed()
        return row

    def note(self, conversation_id: int, note: str) -> VerdictRow:
        """Records a note and leaves the verdict as it is."""
        row = self._project.write(lambda conn: verdicts.note(conn, conversation_id, note))
        self._changed()
        return row

    def tag(self, conversation_ids: Sequence[int], tag: str) -> None:
        """Tags conversations in one act."""
        self._project.write(lambda conn: verdicts.tag(conn, conversation_ids, tag))
        self._changed()

    def untag(self, conversation_ids: Sequence[int], tag: str) -> None:
        """Takes a tag from conversations in one act."""
        self._project.write(lambda conn: verdicts.untag(conn, conversation_ids, tag))
        self._changed()

    def undo(self) -> VerdictRow | None:
        """Takes back the newest act that stands."""
        row = self._project.write(verdicts.undo)
        self._changed()
        return row

    def redo(self) -> VerdictRow | None:
        """Makes stand again what the newest undo took back."""
        row = self._project.write(verdicts.redo)
        self._changed()
        return row

    def current(self, conversation_id: int) -> VerdictRow | None:
        """What stands for this conversation."""
        with self._project.reading() as conn:
            return verdicts.current(conn, conversation_id)

    def tally(self) -> dict[Verdict, int]:
        """How many verdicts of each kind stand."""
        with self._project.reading() as conn:
            return verdicts.tally(conn)

    def to_repeat(self, count: int) -> list[int]:
        """Conversations to judge again, at random among those that stand and were not asked again yet."""
        with self._project.reading() as conn:
            return verdicts.to_repeat(conn, count, RECENT, random.Random(count))

    def place(self) -> TriagePlace:
        """Where the person was."""
        with self._project.reading() as conn:
            kept = settings.get(conn, PLACE, {})
        return TriagePlace(**{**kept, "skipped": tuple(kept.get("skipped", ()))})

    def keep_place(self, place: TriagePlace) -> None:
        """Remembers where the person is."""
        self._project.write(lambda conn: settings.put(conn, PLACE, asdict(place)))
