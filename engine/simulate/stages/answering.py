"""Answers the calls of plays: by the model of each call's role, or by the stored reply to an equal call."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from engine.base.conversation import without_surrogates
from engine.base.errors import RequestRefused
from engine.jobs.threaded_work import OnProgress
from engine.model.chat import Call, Completion, Role
from engine.model.model_work import ModelWork, RunModel
from engine.model.process.process import (
    ModelProcess,
)
from engine.model.process.requests import Chat
from engine.project import runs
from engine.project.project import Project
from engine.simulate import tables as plays
from engine.simulate.play import FailedCall

AT_ONCE = 64
"""Calls in one request; their replies are committed together."""


class Answering:
    """The models of a simulation, with a cache of their replies in the project.

    Attributes:
        asked: Number of replies that models wrote.
        known: Number of replies that were stored already or were to a repeated call.
    """

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        models: Mapping[Role, RunModel],
    ) -> None:
        """Loads nothing yet."""
        self._project = project
        self._roles = {role: ModelWork(process, model) for role, model in models.items()}
        self._loaded: set[int] = set()
        self.asked = self.known = 0

    @cached_property
    def _works(self) -> dict[Role, ModelWork]:
        """The `ModelWork` of each role; roles with the same model share one."""
        found: list[ModelWork] = []
        works: dict[Role, ModelWork] = {}
        for role, work in self._roles.items():
            twin = next((one for one in found if _identity(one) == _identity(work)), None)
            works[role] = twin or work
            if twin is None:
                found.append(work)
        return works

    @property
    def labels(self) -> dict[Role, str]:
        """Name of the model of each role."""
        return {role: work.model.label for role, work in self._roles.items()}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """Everything about the models that determines their replies, by role."""
        return {role: _identity(work) for role, work in self._roles.items()}

    def model_of(self, role: Role) -> int:
        """A number that identifies the model of a role; equal for roles with the same model.

        Raises:
            KeyError: There is no model for this role.
        """
        return id(self._works[role])

    def answers(
        self,
        run_id: int,
        calls: Sequence[Call],
        take: Callable[[Sequence[Completion | FailedCall]], None],
        total: int | None,
    ) -> Iterator[int]:
        """Answers calls to one model; only calls without a stored reply are sent, and equal ones once.

        Args:
            run_id: The run whose counter is updated with each commit.
            take: Called with the replies, in the order of the calls, before the iterator ends.
            total: Number of replies of the whole run; None while unknown.

        Yields:
            Number of replies written so far in the current request.
        """
        work = self._works[calls[0].role]
        identity = _identity(work)
        keys = [call.key(identity) for call in calls]
        with self._project.reading() as conn:
            found = plays.replies(conn, list(dict.fromkeys(keys)))
        known_replies: dict[str, Completion | FailedCall] = {
            key: Completion(text, stopped, note)  # type: ignore[arg-type]  # the table checks it
            for key, (text, stopped, note) in found.items()
        }
        unknown = {
            key: call for key, call in zip(keys, calls, strict=True) if key not in known_replies
        }
        self.known += len(calls) - len(unknown)
        wanted = list(unknown)
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            replies: list[Completion | FailedCall] = []
            yield from self._ask(work, [unknown[key] for key in some], replies.extend)
            new = dict(zip(some, replies, strict=True))
            kept = {key: one for key, one in new.items() if isinstance(one, Completion)}
            self.asked += len(kept)
            self._project.write(
                partial(_commit, run_id=run_id, replies=kept, done=self.asked, total=total)
            )
            known_replies |= new
            yield 0
        take([known_replies[key] for key in keys])

    def _ask(
        self,
        work: ModelWork,
        calls: Sequence[Call],
        take: Callable[[Sequence[Completion | FailedCall]], None],
    ) -> Iterator[int]:
        work.check()
        # Endpoints begin a new account when they are loaded; the process knows what it has loaded.
        if not work.model.endpoints or id(work) not in self._loaded:
            work.load()
            self._loaded.add(id(work))

        def answer(report: OnProgress) -> list[Completion | FailedCall]:
            try:
                return work.each(
                    calls,
                    lambda some: [_storable(one) for one in work.process.ask(Chat(some), report)],
                    FailedCall,
                )
            except RequestRefused as error:
                # The refusal concerns single calls: the run goes on without their plays.
                return [FailedCall(error.message) for _ in calls]

        yield from (count for count, _ in work.live(answer, take))

    def interrupt(self) -> None:
        """Makes the request in flight and every later one raise Cancelled."""
        for work in self._roles.values():
            work.interrupt()

    def spent(self) -> str:
        """The cost of the answers, as sentences for the end of a summary."""
        works = {id(work): work for work in self._works.values()}
        return "".join(work.spent() for work in works.values())


def _identity(work: ModelWork) -> dict[str, Any]:
    return {**work.model.fingerprints, "context": work.model.options.context}


def _storable(reply: Completion) -> Completion:
    """The reply without lone surrogates, which endpoints send when they cut inside of a character."""
    return replace(reply, text=without_surrogates(reply.text))


def _commit(
    conn: sqlite3.Connection,
    *,
    run_id: int,
    replies: Mapping[str, Completion],
    done: int,
    total: int | None,
) -> None:
    plays.add_replies(
        conn, ((key, (one.text, one.stopped, one.note)) for key, one in replies.items())
    )
    runs.count(conn, run_id, done, total)
