"""The stage that plays: it simulates conversations in parallel and stores every reply of a model by a hash of the call.

A run that is resumed after a crash repeats the plays with the stored replies, without a model, and then sends the other
calls in the same batches as an uninterrupted run. So its results are the same bit for bit.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from engine.base.conversation import without_surrogates
from engine.base.errors import RequestRefused
from engine.base.number_format import counted
from engine.conversations.tables import imports, sources
from engine.formats.records import Rejected
from engine.formats.registry import parse_own_record
from engine.jobs.contract import Lane, OnProgress, Progress, Stage
from engine.model import tables as reply_tables
from engine.model.catalog import LoadableModel
from engine.model.chat import Call, Completion, Role, Scenario
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Chat
from engine.model.stages import ModelWork
from engine.project import runs
from engine.project.project import Project
from engine.simulate import tables as play_tables
from engine.simulate.play import EndedPlay, FailedCall, ParallelPlays, StoredPlay

CALLS_PER_REQUEST = 64
"""Calls in one request; their replies are committed together."""


class RoleModels:
    """The models that play the roles of a simulation, with a cache of their replies in the project.

    Attributes:
        written: Number of replies that models wrote.
        reused: Number of replies that were stored already or were to a repeated call.
    """

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        models: Mapping[Role, LoadableModel],
    ) -> None:
        """Loads nothing yet."""
        self._project = project
        self._work_by_role = {role: ModelWork(process, model) for role, model in models.items()}
        # Works of endpoints that were loaded here, by identity: loading one again would begin a new account.
        self._loaded: set[int] = set()
        self.written = 0
        self.reused = 0

    @cached_property
    def _shared_work(self) -> dict[Role, ModelWork]:
        """The `ModelWork` of each role; roles with the same model share one. It is computed at its first use, because
        tuning may change a model before."""
        works: dict[Role, ModelWork] = {}
        for role, work in self._work_by_role.items():
            same = (other for other in works.values() if _identity(other) == _identity(work))
            works[role] = next(same, work)
        return works

    @property
    def labels(self) -> dict[Role, str]:
        """Name of the model of each role."""
        return {role: work.model.label for role, work in self._work_by_role.items()}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """Everything about the models that determines their replies, by role."""
        return {role: _identity(work) for role, work in self._work_by_role.items()}

    def model_of(self, role: Role) -> int:
        """Returns a number, equal for roles with the same model; 0 for a role that no model plays."""
        return id(self._shared_work[role]) if role in self._shared_work else 0

    def answer(
        self,
        calls: Sequence[Call],
        take: Callable[[Sequence[Completion | FailedCall]], None],
    ) -> Iterator[int]:
        """Answers calls, all to one model; only calls without a stored reply are sent, and equal ones once. It is a
        generator, so that the stage can report progress; the replies come by `take`.

        Args:
            take: Called with the replies, in the order of the calls, before the iterator ends.

        Yields:
            Number of replies written so far in the current request.
        """
        work = self._shared_work[calls[0].role]
        identity = _identity(work)
        keys = [call.key(identity) for call in calls]
        stored = self._project.read(reply_tables.replies, list(dict.fromkeys(keys)))
        known: dict[str, Completion | FailedCall] = {
            key: Completion(text, stopped, note)  # type: ignore[arg-type]  # the table checks it
            for key, (text, stopped, note) in stored.items()
        }
        unknown = {key: call for key, call in zip(keys, calls, strict=True) if key not in known}
        self.reused += len(calls) - len(unknown)
        missing = list(unknown)
        for start in range(0, len(missing), CALLS_PER_REQUEST):
            block = missing[start : start + CALLS_PER_REQUEST]
            replies: list[Completion | FailedCall] = []
            yield from self._send(work, [unknown[key] for key in block], replies.extend)
            new = dict(zip(block, replies, strict=True))
            self._commit(new)
            known |= new
            yield 0  # the replies are counted in `written` now
        take([known[key] for key in keys])

    def _commit(self, replies: Mapping[str, Completion | FailedCall]) -> None:
        """Stores the replies of a request, but for failed calls."""
        written = [
            (key, (reply.text, reply.stopped, reply.note))
            for key, reply in replies.items()
            if isinstance(reply, Completion)
        ]
        self.written += len(written)
        self._project.write(lambda conn: reply_tables.add_replies(conn, written))

    def _send(
        self,
        work: ModelWork,
        calls: Sequence[Call],
        take: Callable[[Sequence[Completion | FailedCall]], None],
    ) -> Iterator[int]:
        """Sends calls to a model, loaded first if needed; a call that fails has a `FailedCall` in its place."""
        work.check()
        if not work.model.endpoint or id(work) not in self._loaded:
            work.load()
            self._loaded.add(id(work))

        def ask(report: OnProgress) -> list[Completion | FailedCall]:
            """Returns the replies to the calls."""
            try:
                return work.each(
                    calls,
                    lambda batch: [
                        _storable(reply) for reply in work.process.ask(Chat(batch), report)
                    ],
                    FailedCall,
                )
            except RequestRefused as error:
                # The refusal concerns single calls: the run goes on without their plays.
                return [FailedCall(error.message) for _ in calls]

        for count, _ in work.live(ask, take):  # the notes of a model are not shown
            yield count

    def interrupt(self) -> None:
        """Makes the request in flight and every later one raise Cancelled."""
        for work in self._work_by_role.values():
            work.interrupt()

    def spent(self) -> str:
        """Returns the cost of the answers, as sentences for the end of a summary."""
        works = {id(work): work for work in self._shared_work.values()}
        return "".join(work.spent() for work in works.values())


def _identity(work: ModelWork) -> dict[str, Any]:
    """Returns what determines the replies of a model: its fingerprints and the length of its context."""
    return {**work.model.fingerprints, "context": work.model.options.context}


def _storable(reply: Completion) -> Completion:
    """Returns the reply without lone surrogates, which endpoints send when they cut inside of a character."""
    return replace(reply, text=without_surrogates(reply.text))


class PlayStage(Stage):
    """Plays the scenarios of one setting that have not ended yet.

    Attributes:
        played, broken: Number of plays that ended, and that broke off.
    """

    name = "simulate"
    unit = "plays"
    lane: Lane = "model"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        kind: str,
        make_scenarios: Callable[[Mapping[Role, str]], Sequence[Scenario]],
        params: Mapping[str, Any],
        texts: Mapping[str, str],
        models: Mapping[Role, LoadableModel],
        parallel: int,
    ) -> None:
        """Prepares a run.

        Args:
            kind: Name of the simulation, e.g. `sharded`.
            make_scenarios: Returns the scenarios, each with a key of its own; called when the stage starts, with the
                name of the model of each role.
            params: Everything but prompts and models that determines how the play of a key goes, as JSON values; the
                number of plays is no part of it, so that more can be played later.
            texts: The prompts, by name.
            models: The model of each role.
            parallel: Number of plays at a time.
        """
        self._project = project
        self._kind = kind
        self._make_scenarios = make_scenarios
        self._params = params
        self._texts = texts
        self._parallel = parallel
        self._models = RoleModels(project, process, models)
        self.played = 0
        self.broken = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        labels = dict.fromkeys(self._models.labels.values())
        return f"Simulating {self._kind} with {', '.join(labels)}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the setting, without the number of plays."""
        digests = {
            name: hashlib.sha256(text.encode()).hexdigest()[:16]
            for name, text in self._texts.items()
        }
        return {"kind": self._kind, **self._params, "prompts": digests}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the models, by role."""
        return self._models.fingerprints

    @property
    def source(self) -> str:
        """The name of the source that the conversations are stored with."""
        return f"{self._kind}-{self.config_hash[:6]}"

    @cached_property
    def scenarios(self) -> Sequence[Scenario]:
        """The scenarios to play."""
        return self._make_scenarios(self._models.labels)

    def run(self, run_id: int) -> Iterator[Progress]:
        """Plays the missing scenarios; commits the replies of each request, and each finished play with the run's
        counter.

        Raises:
            ModelError: A model cannot be loaded or cannot answer.
            UsageError: An endpoint does not support the kind of replies asked for.
            Cancelled: `interrupt` was called.
        """
        stored = self._project.read(play_tables.plays, self.config_hash)
        ended = {key for key, play in stored.items() if play.reason is None}
        missing = {scenario.key for scenario in self.scenarios} - ended
        if not missing:
            return
        yield Progress(0, None, "loading the model")
        self._project.write(
            lambda conn: play_tables.register(
                conn, self.config_hash, self._kind, self._models.labels
            )
        )
        playing = ParallelPlays(
            self.scenarios, parallel=self._parallel, model_of=self._models.model_of
        )
        while True:
            for ended_play in playing.take_ended():
                # The others ended in an earlier run, and were played again from stored replies.
                if ended_play.key in missing:
                    self._store_play(run_id, ended_play, len(missing))
                    yield self._progress(len(missing), 0)
            calls = playing.next_calls()
            if not calls:
                return
            replies: list[Completion | FailedCall] = []
            for count in self._models.answer(calls, replies.extend):
                yield self._progress(len(missing), count)
            playing.answer(replies)

    def _progress(self, total: int, writing: int) -> Progress:
        """Returns how many of `total` plays have ended; `writing` is the replies of the request in flight."""
        note = counted(self._models.written + writing, "reply", "replies")
        return Progress(self.played + self.broken, total, note)

    def interrupt(self) -> None:
        """Ends the request in flight; replies that are not committed are dropped."""
        self._models.interrupt()

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        replies = counted(self._models.written, "reply", "replies")
        text = f"Played {counted(self.played, 'play')} of {self._kind} in {replies}"
        if self._models.reused:
            text += f", {self._models.reused:,} more were known"
        if self.broken:
            text += f"; {self.broken:,} broke off"
        return f"{text}.{self._models.spent()}"

    def _store_play(self, run_id: int, ended_play: EndedPlay, total: int) -> None:
        """Commits a finished play with its conversation and the run's counter."""

        def write(conn: sqlite3.Connection) -> None:
            """Stores conversation, play and counter in one transaction."""
            conversation_id, reason = self._store_conversation(conn, ended_play)
            play = StoredPlay(ended_play.key, conversation_id, reason, ended_play.ending.result)
            play_tables.add(conn, self.config_hash, run_id, play)
            runs.count(conn, run_id, self.played + self.broken + 1, total)

        self._project.write(write)
        if ended_play.reason is None:
            self.played += 1
        else:
            self.broken += 1

    def _store_conversation(
        self, conn: sqlite3.Connection, ended_play: EndedPlay
    ) -> tuple[int | None, str | None]:
        """Stores the conversation of a play, if it made one; returns its id, and why the play broke off."""
        record, format = ended_play.ending.record, ended_play.ending.format
        if record is None:
            return None, ended_play.reason
        source_id = sources.put_source(
            conn,
            f"simulated:{self._kind}:{format}:{self.config_hash}",
            self.source,
            format,
            "it was simulated",
        )
        parsed = parse_own_record(record, format, ended_play.key)
        if isinstance(parsed, Rejected):
            sources.put_rejected(conn, source_id, [parsed])
            return None, f"its record is no conversation: {parsed.reason}"
        imports.add_records(conn, source_id, [parsed])
        # equal plays are one conversation, so that it may have been stored with another play
        conversation_id = imports.find_by_messages(conn, parsed.conversation.messages)
        return conversation_id, ended_play.reason
