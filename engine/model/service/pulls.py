"""Runs pulls (downloads of models from the hub) in the background, each on its own thread, with rate, pause and
result."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.base.errors import NotFound, Paused, UsageError, WorkbenchError
from engine.model.hub.access import Hub
from engine.model.hub.pulls import PullPlan, carry_out, forget, unfinished
from engine.model.records import PullRow, PullState

CLOSE_SECONDS = 2.0
"""Longest wait for pulls to stop when the program ends. Partial files are kept in any case."""


class _Pull:
    """One pull of this process, from its start to its result."""

    def __init__(self, hub: Hub, plan: PullPlan, ended: Callable[[], None]) -> None:
        self.plan = plan
        self.stop = threading.Event()
        self._hub, self._ended = hub, ended
        self.row = plan.row("waiting")
        self.thread = threading.Thread(target=self._run, daemon=True, name="workbench-pull")

    @property
    def is_active(self) -> bool:
        """Whether the pull has not ended."""
        return self.row.state in ("waiting", "pulling", "checking")

    def _show(self, row: PullRow) -> None:
        """Takes over the state of the download."""
        self.row = row

    def _end(self, state: PullState, problem: str = "", hint: str = "") -> None:
        """Stores how the download ended."""
        self.row = replace(
            self.row, state=state, rate=None, seconds_left=None, problem=problem, hint=hint
        )

    def _run(self) -> None:
        """Downloads the files and stores how that ended."""
        try:
            carry_out(self._hub, self.plan, self.stop, self._show)
            self._end("done")
        except Paused:
            self._end("paused")
        except WorkbenchError as error:
            self._end("failed", error.message, error.hint)
        except Exception as error:
            logging.getLogger(__name__).exception("a pull failed")
            self._end(
                "failed", f"Something went wrong that was not foreseen: {type(error).__name__}"
            )
        self._ended()


class Pulls:
    """The pulls of a data folder: those of this process, and paused ones on disk.

    Args:
        ended: Called from a thread when a pull ends, whatever the result.
    """

    def __init__(self, data: Path, ended: Callable[[], None] = lambda: None) -> None:
        self._data, self._ended = data, ended
        self._lock = threading.Lock()
        self._pulls: dict[str, _Pull] = {}

    def begin(self, hub: Hub, plan: PullPlan) -> None:
        """Starts or resumes a pull.

        Raises:
            UsageError: It is active already.
        """
        with self._lock:
            current = self._pulls.get(plan.name)
            if current is not None and current.is_active:
                raise UsageError(f"{plan.name} is being pulled already.")
            pull = self._pulls[plan.name] = _Pull(hub, plan, self._ended)
        pull.thread.start()

    def rows(self) -> list[PullRow]:
        """Returns all pulls, by name."""
        with self._lock:
            pulls = dict(self._pulls)
        rows = {name: pull.row for name, pull in pulls.items()}
        for plan in unfinished(self._data):
            if plan.name not in rows:
                rows[plan.name] = plan.row("paused")
        return [rows[name] for name in sorted(rows)]

    def plan(self, name: str) -> PullPlan:
        """Returns the plan of an unfinished pull.

        Raises:
            UsageError: There is none.
        """
        with self._lock:
            pull = self._pulls.get(name)
        for plan in unfinished(self._data):
            if plan.name == name:
                return plan
        if pull is None or pull.row.state == "done":
            raise NotFound(f"There is no unfinished pull {name!r}.")
        return pull.plan

    def pause(self, name: str) -> None:
        """Stops a pull of this process after its current piece.

        Raises:
            UsageError: It is not active in this process.
        """
        with self._lock:
            pull = self._pulls.get(name)
        if pull is None or not pull.is_active:
            raise UsageError(f"{name} is not being pulled here.")
        pull.stop.set()

    def give_up(self, name: str) -> None:
        """Deletes the partial files of a pull.

        Raises:
            UsageError: There is no such pull, or it is active.
        """
        plan = self.plan(name)
        forget(plan)
        with self._lock:
            self._pulls.pop(name, None)

    def close(self) -> None:
        """Pauses the active pulls."""
        with self._lock:
            pulls = [pull for pull in self._pulls.values() if pull.is_active]
        for pull in pulls:
            pull.stop.set()
        deadline = time.monotonic() + CLOSE_SECONDS
        for pull in pulls:
            pull.thread.join(max(0.0, deadline - time.monotonic()))
