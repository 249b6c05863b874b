"""Calls answered by the models of their roles, or by stored replies to the same calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from engine.conversation import without_surrogates
from engine.errors import RequestRefused
from engine.model.catalog import RunnableModel
from engine.model.chat import Call, Completion, Role
from engine.simulate.play import FailedCall
from engine.stages.model_work import ModelWork
from engine.store import plays, runs
from engine.store.project import Project
from engine.worker.client import ModelProcess, OnProgress

AT_ONCE = 64
"""Calls of one request; their replies are committed together."""


class Answering:
    """The models of a simulation, and all their stored replies in this project.

    Attributes:
        asked: Replies that were written.
        known: Replies that were there already, or are the same as another one.
    """

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        choose: Mapping[Role, Callable[[], RunnableModel]],
    ) -> None:
        """Prepares; `choose` names the model of each role when the stage's turn has come."""
        self._project = project
        self._roles = {role: ModelWork(process, chosen) for role, chosen in choose.items()}
        self._loaded: set[int] = set()
        self.asked = self.known = 0

    @cached_property
    def _works(self) -> dict[Role, ModelWork]:
        """The model of each role, the same one for roles of the same model."""
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
        """What the model of each role is called."""
        return {role: work.model.label for role, work in self._roles.items()}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """Everything of the models that determines what they say, by role."""
        return {role: _identity(work) for role, work in self._roles.items()}

    def model_of(self, role: Role) -> int:
        """Equal for roles that the same model plays.

        Raises:
            KeyError: Nobody plays this role.
        """
        return id(self._works[role])

    def answers(
        self,
        run_id: int,
        calls: Sequence[Call],
        take: Callable[[Sequence[Completion | FailedCall]], None],
        total: int | None,
    ) -> Iterator[int]:
        """Answers calls of one model. Equal calls are asked once, and none that was asked before.

        Args:
            run_id: Its counter goes with what is committed.
            take: Gets the replies, in order, before the iterator ends.
            total: Replies of the whole run, as far as that is known.

        Yields:
            Replies of the request under way that are written.
        """
        work = self._works[calls[0].role]
        identity = _identity(work)
        keys = [call.key(identity) for call in calls]
        with self._project.reading() as conn:
            found = plays.replies(conn, list(dict.fromkeys(keys)))
        said: dict[str, Completion | FailedCall] = {
            key: Completion(text, stopped, note)  # type: ignore[arg-type]  # the table checks it
            for key, (text, stopped, note) in found.items()
        }
        unknown = {key: call for key, call in zip(keys, calls, strict=True) if key not in said}
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
                partial(_commit, run_id=run_id, said=kept, done=self.asked, total=total)
            )
            said |= new
            yield 0
        take([said[key] for key in keys])

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
                    lambda some: [_storable(one) for one in work.process.chat(some, report)],
                    FailedCall,
                )
            except RequestRefused as error:
                # Each of them alone: a run goes on without plays that say what an endpoint does not take.
                return [FailedCall(error.message) for _ in calls]

        yield from (count for count, _ in work.live(answer, take))

    def interrupt(self) -> None:
        """Makes the request in flight and every later one raise Cancelled."""
        for work in self._roles.values():
            work.interrupt()

    def spent(self) -> str:
        """What the answers have cost, as sentences after a summary."""
        works = {id(work): work for work in self._works.values()}
        return "".join(work.spent() for work in works.values())


def _identity(work: ModelWork) -> dict[str, Any]:
    return {**work.model.fingerprints, "context": work.model.options.context}


def _storable(said: Completion) -> Completion:
    """A reply that was cut off inside of a sign, as endpoints send it, made text."""
    return replace(said, text=without_surrogates(said.text))


def _commit(
    conn: sqlite3.Connection,
    *,
    run_id: int,
    said: Mapping[str, Completion],
    done: int,
    total: int | None,
) -> None:
    plays.add_replies(conn, ((key, (one.text, one.stopped, one.note)) for key, one in said.items()))
    runs.count(conn, run_id, done, total)
