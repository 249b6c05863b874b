"""Watches logs as they grow.

A *watch* is a stage that imports what is new in growing files, reads it, and reports each new turn as an *event* with
its probability. A turn is reported before it is stored as reported, so a kill loses nothing. What was reported just
before a kill may be reported again, as an event of the same name.

The *probe* gives the probability that a conversation ends at a boundary (the end of an assistant or tool step),
from the hidden state of the model there; the probabilities of all boundaries of a conversation are its *curve*. A
*past* conversation had ended when the watch began.
"""

from __future__ import annotations

import datetime
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.errors import Cancelled, FormatError, NotYet, UsageError
from engine.base.number_format import counted
from engine.completeness import probe
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE, DecisionRule
from engine.completeness.regression import States
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.stages.scoring import logs_of
from engine.completeness.tables import hidden_states, score_sets
from engine.completeness.tables.hidden_states import StateEntry
from engine.conversations import shingle_overlap
from engine.conversations.tables import watched
from engine.conversations.tables.conversations import imported
from engine.conversations.tables.watched import WatchedEntry
from engine.goals.tables import clusterings
from engine.goals.tables import groups as goal_groups
from engine.jobs.contract import Lane, Progress, Stage
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.results.watch.watched_inputs import WatchedFiles

LOGS_PER_READ = 50
"""Number of logs that are in memory at the same time."""

Event = dict[str, Any]
"""The report on one turn, as JSON values; docs/watch.md lists the keys."""

PROBABILITY_DIGITS = 4
"""Decimal places of the probability of an end, and of its change, in events."""


class WatchStage(Stage):
    """Watches until it is interrupted; one that looks once ends when everything is reported.

    Attributes:
        reported: Number of events but those of ends: of turns, and of conversations that cannot be scored.
        ended: Number of conversations whose end was reported.
    """

    name = "watch"
    unit = "turns"
    lane: Lane = "model"

    def __init__(
        self,
        project: Project,
        watched_files: WatchedFiles,
        reading: ReadingStage,
        make_assigning_stages: Callable[[], list[Stage]],
        emit: Callable[[Event], None],
        *,
        every: float,
        idle: float,
        once: bool,
    ) -> None:
        """Prepares a watch.

        Args:
            watched_files: The inputs.
            reading: The stage that reads the hidden states of conversations without any.
            make_assigning_stages: Makes the stages that assign conversations to the goals that are shown; raises
                `UsageError` where nothing was clustered.
            emit: Called with each event.
            every: Seconds between two looks.
            idle: Seconds without growth after which a conversation counts as ended.
            once: Whether to look once, report what is new, and end.
        """
        self._project, self._watched_files, self._reading = project, watched_files, reading
        self._make_assigning_stages, self._emit = make_assigning_stages, emit
        self._every, self._idle, self._once = every, idle, once
        self._interrupted = threading.Event()
        self._running_part: Stage | None = None  # the stage that runs as a part of this run
        self.reported = 0
        self.ended = 0

    @property
    def title(self) -> str:
        """The title of the run, for screens and logs."""
        return "Watching"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the events: how conversations are read, and when they end."""
        return {"states": self._reading.config_hash, "idle": self._idle}

    @cached_property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the stages that assign goals, by the names of the stages.

        Before the watch starts they tell to which endpoints it would send texts.
        """
        return {stage.name: stage.fingerprints for stage in self._assigning_stages()}

    def interrupt(self) -> None:
        """Ends the watch after the present batch."""
        self._interrupted.set()
        part = self._running_part
        if part is not None:
            part.interrupt()

    def summary(self) -> str:
        """Returns the numbers of reported turns and ended conversations in one sentence."""
        return f"Reported {counted(self.reported, 'turn')}; {counted(self.ended, 'conversation')} went quiet."

    def run(self, run_id: int) -> Iterator[Progress]:
        """Reads the conversations that are in the project, fits a probe to past ones, then watches.

        Raises:
            UsageError: There are too few conversations for a probe.
            Cancelled: `interrupt` was called.
        """
        yield from self._run_part(self._reading, run_id)
        self._reading.growing = True
        with self._project.reading() as conn, snapshot(conn):
            reported = watched.reported_boundaries(conn)
            counts = hidden_states.boundary_counts(conn, self._reading.config_hash)
            running = watched.running_ids(conn)
            is_first_watch = not reported  # for which all conversations are past
            was_ended = reported.keys() - running
            ended = [
                key
                for key, count in counts.items()
                if count and (is_first_watch or key in was_ended)
            ]
            sample = probe.sample_conversations(ended)
            past = list(
                hidden_states.entries_of_conversations(conn, self._reading.config_hash, sample)
            )
        yield Progress(0, None, "fitting a probe to past conversations")
        fitted = self._fit(past)
        if is_first_watch:
            # all present boundaries are stored as reported, so that only later ones are reported
            rows = [WatchedEntry(key, count, None) for key, count in counts.items()]
            began = self._utc(0)
            self._project.write(lambda conn: watched.put(conn, rows, began, ended=True))
            reported = counts
        unreported = [key for key, count in counts.items() if reported.get(key, -1) < count]
        past.clear()  # hidden states take much memory, and the watch may run for days
        yield from self._watch(run_id, unreported, reported, fitted)

    def _watch(
        self,
        run_id: int,
        unreported: Sequence[int],
        reported: dict[int, int],
        fitted: probe.Probe,
    ) -> Iterator[Progress]:
        """Reports new turns and ends, imports new lines, and waits, in a loop.

        Args:
            unreported: Ids of the conversations with boundaries that were not reported before the watch.
            reported: Number of reported boundaries by conversation, which this method updates.
            fitted: The probe.

        Raises:
            Cancelled: `interrupt` was called.
        """
        while True:
            if unreported:
                yield from self._assign_goals(run_id)
                self._report_new(unreported, reported, fitted)
            self._report_ended()
            self._project.write(lambda conn: runs.count(conn, run_id, self.reported, None))
            yield Progress(self.reported, None, "watching")
            stage = self._watched_files.next_import(self._project)
            if stage is not None:
                unreported = yield from self._import(stage, run_id)
            elif self._once:
                return
            elif self._interrupted.wait(self._every):
                raise Cancelled("The watch was ended.")
            else:
                unreported = []

    def _import(self, stage: Stage, run_id: int) -> Generator[Progress, None, list[int]]:
        """Runs an import and reads the new conversations; emits an event for a file that cannot be read.

        Returns:
            The ids of the conversations that are new or have grown, ascending.
        """
        try:
            yield from self._run_part(stage, run_id)
        except FormatError as error:
            self._emit(
                {
                    "event": None,
                    "at": self._now(),
                    "error": error.message,
                    "hint": error.hint,
                    "code": error.code,
                }
            )
            return []
        with self._project.reading() as conn:
            waiting = self._reading.waiting(conn)  # after they are read, none waits
        yield from self._run_part(self._reading, run_id)
        return sorted(waiting)

    def _run_part(self, stage: Stage, run_id: int) -> Iterator[Progress]:
        """Runs another stage as a part of this run.

        Raises:
            Cancelled: `interrupt` was called.
        """
        if self._interrupted.is_set():
            raise Cancelled("The watch was ended.")
        self._running_part = stage
        try:
            for progress in stage.run(run_id):
                yield Progress(self.reported, None, progress.note or stage.title)
        finally:
            self._running_part = None

    def _fit(self, past: Sequence[StateEntry]) -> probe.Probe:
        """Returns a probe that is fitted to past conversations.

        Raises:
            NotYet: The conversations are too few, or too much alike.
            Cancelled: `interrupt` was called.
        """
        if len(past) < MIN_CONVERSATIONS_FOR_PROBE:
            raise NotYet(
                f"A watch needs {MIN_CONVERSATIONS_FOR_PROBE} past conversations in the project;"
                f" there are {len(past):,}.",
                "Import some first: `workbench import PROJECT FILE`.",
            )
        shingles: list[shingle_overlap.Shingles] = []
        ids = [entry.conversation_id for entry in past]
        for first in range(0, len(ids), LOGS_PER_READ):
            if self._interrupted.is_set():
                raise Cancelled("The watch was ended.")
            logs = logs_of(self._project, ids[first : first + LOGS_PER_READ])
            shingles.extend(shingle_overlap.log_shingles(log.pieces) for log in logs)
        counts = [len(entry.places) for entry in past]
        group_of_boundary = np.repeat(shingle_overlap.groups(shingles), counts)
        states = np.concatenate([states_of(entry) for entry in past])
        is_end = np.concatenate([np.arange(count) == count - 1 for count in counts])
        try:
            return probe.fit(states, is_end, group_of_boundary)
        except ValueError as error:
            raise NotYet(
                f"No probe can be fitted to the past conversations: {error}.",
                "Import more, and different ones: `workbench import PROJECT FILE`.",
            ) from error

    def _assign_goals(self, run_id: int) -> Iterator[Progress]:
        """Assigns new conversations to the goals that are shown, if there are any."""
        for stage in self._assigning_stages():
            yield from self._run_part(stage, run_id)

    def _assigning_stages(self) -> list[Stage]:
        """Returns the stages that assign goals; none where nothing was clustered."""
        try:
            return self._make_assigning_stages()
        except UsageError:
            return []

    def _report_new(
        self, ids: Sequence[int], reported: dict[int, int], fitted: probe.Probe
    ) -> None:
        """Emits events for the new turns of conversations, and stores how far each conversation was reported.

        Args:
            ids: Ids of the conversations.
            reported: Number of reported boundaries by conversation, which this method updates.
            fitted: The probe.
        """
        for first in range(0, len(ids), LOGS_PER_READ):
            batch = ids[first : first + LOGS_PER_READ]
            with self._project.reading() as conn:
                entries = list(
                    hidden_states.entries_of_conversations(conn, self._reading.config_hash, batch)
                )
                rule = score_sets.rule(conn)
                values_by_id = _values_by_id(conn, batch)
            for entry in entries:
                key = entry.conversation_id
                curve = fitted.p(states_of(entry)).tolist() if entry.places else []
                timestamp = self._now()
                for event in _events(
                    entry, curve, reported=reported.get(key, 0), rule=rule, timestamp=timestamp
                ):
                    self._emit({**event, **values_by_id[key]})
                    self.reported += 1
                reported[key] = len(curve)
                row = WatchedEntry(key, len(curve), curve[-1] if curve else None)
                self._project.write(
                    partial(watched.put, entries=[row], now=self._utc(0), ended=False)
                )

    def _report_ended(self) -> None:
        """Emits an event for the end of each conversation that has not grown for `idle` seconds."""
        since = self._utc(self._idle)
        with self._project.reading() as conn:
            quiet_entries = watched.quiet_entries(conn, since)
            rule = score_sets.rule(conn)
            ids = [entry.conversation_id for entry in quiet_entries]
            values_by_id = _values_by_id(conn, ids)
            states = hidden_states.entries_of_conversations(conn, self._reading.config_hash, ids)
            turns = {row.conversation_id: row.places[-1].turn for row in states if row.places}
        for entry in quiet_entries:
            key = entry.conversation_id
            self._emit(
                {
                    "event": f"{key}:{entry.boundaries}:end",
                    "at": self._now(),
                    "ended": True,
                    "turn": turns.get(key),
                    "p": None if entry.p is None else round(entry.p, PROBABILITY_DIGITS),
                    "state": str(rule.state(entry.p)),
                    **values_by_id[key],
                }
            )
        if quiet_entries:
            self._project.write(lambda conn: watched.mark_ended(conn, ids))
            self.ended += len(quiet_entries)

    def _utc(self, ago: float) -> str:
        """Returns the time `ago` seconds before now, in the form of `utc_now`."""
        moment = datetime.datetime.fromtimestamp(time.time() - ago, datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"

    def _now(self) -> str:
        """Returns the present time in the form that events have, without fractions of seconds."""
        seconds, _ = self._utc(0).split(".")
        return f"{seconds}Z"


def _values_by_id(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Event]:
    """Returns what every event on these conversations has: id, source, goal, and whether it is like none."""
    clustered = clusterings.goals_clustering_id(conn) is not None
    goals = goal_groups.goals_of(conn, ids)
    return {
        row.conversation_id: {
            "conversation": row.external_id,
            "source": row.source,
            "goal": goals.get(row.conversation_id),
            "novel": row.conversation_id not in goals if clustered else None,
        }
        for row in imported(conn, ids)
    }


def _events(
    entry: StateEntry,
    curve: list[float],
    *,
    reported: int,
    rule: DecisionRule,
    timestamp: str,
) -> Iterator[Event]:
    """Yields an event for each boundary that was not reported; for a conversation without boundaries one with a reason.

    Args:
        curve: Probability of an end at each boundary.
        reported: Number of boundaries that were reported.
        rule: The decision rule, which turns a probability into a state.
        timestamp: The time of the events, in the form that events have.
    """
    if not curve:
        yield {
            "event": f"{entry.conversation_id}:0",
            "at": timestamp,
            "ended": False,
            "p": None,
            "state": "unscored",
            "reason": entry.reason,
        }
    for number in range(min(reported, len(curve)), len(curve)):
        place, p = entry.places[number], curve[number]
        yield {
            "event": f"{entry.conversation_id}:{number + 1}",
            "at": timestamp,
            "ended": False,
            "turn": place.turn,
            "step": place.step,
            "p": round(p, PROBABILITY_DIGITS),
            "change": round(p - curve[number - 1], PROBABILITY_DIGITS) if number else None,
            "state": str(rule.state(p)),
        }


def states_of(entry: StateEntry) -> States:
    """Returns the hidden states of a conversation, shape (boundaries, dimensions)."""
    raw = np.frombuffer(entry.states, dtype="<f2").reshape(len(entry.places), -1)
    return raw.astype(np.float32)
