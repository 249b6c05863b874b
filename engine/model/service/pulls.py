"""Runs pulls (downloads of models from the hub) in the background, each on its own thread, with rate, pause and
result."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from engine.base.errors import NotFound, Paused, UsageError, WorkbenchError
from engine.model.hub.access import Hub
from engine.model.hub.pulls import PullPlan, PullProgress, carry_out, forget, unfinished
from engine.model.service.records import PullRow, PullState

RATE_SECONDS = 5.0
"""Length of the time window of a rate."""
CLOSE_SECONDS = 2.0
"""Longest wait for pulls to stop when the program ends. Partial files are kept in any case."""


class Rate:
    """Measures the bytes per second over the last `RATE_SECONDS`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, done: int) -> None:
        """Adds the number of bytes so far; if it is smaller than the last one, the measurement restarts."""
        time_now = self._clock()
        if self._samples and done < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((time_now, done))
        while len(self._samples) > 2 and time_now - self._samples[1][0] > RATE_SECONDS:
            self._samples.popleft()

    @property
    def value(self) -> float | None:
        """The bytes per second; None before two counts at different times."""
        if len(self._samples) < 2:
            return None
        (first_time, first), (time_now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (time_now - first_time) if time_now > first_time else None


class _Pull:
    """One pull of this process, from its start to its result."""

    def __init__(self, hub: Hub, plan: PullPlan, ended: Callable[[], None]) -> None:
        self.plan = plan
        self.stop = threading.Event()
        self._hub, self._ended = hub, ended
        self._rate = Rate()
        self._progress = PullProgress("waiting", plan.done, plan.wanted.size)
        self._state: PullState | None = None
        self._problem = self._hint = ""
        self.thread = threading.Thread(target=self._run, daemon=True, name="workbench-pull")

    @property
    def is_active(self) -> bool:
        """Whether the pull has not ended."""
        return self._state is None

    def row(self) -> PullRow:
        """Returns the current state of the pull."""
        progress, rate = self._progress, self._rate.value if self.is_active else None
        seconds_left = (progress.total - progress.done) / rate if rate else None
        return PullRow(
            self.plan.name,
            self.plan.wanted.repository,
            self.plan.wanted.files[0].name,
            self._state or progress.state,
            progress.done,
            progress.total,
            rate,
            seconds_left,
            progress.redirect,
            self._problem,
            self._hint,
        )

    def _record_progress(self, progress: PullProgress) -> None:
        """Takes over the progress of the download; a new state starts a new measurement of the rate."""
        if progress.state != self._progress.state:
            self._rate = Rate()
        self._rate.add(progress.done)
        self._progress = progress

    def _run(self) -> None:
        """Downloads the files and stores how that ended."""
        try:
            carry_out(self._hub, self.plan, self.stop, self._record_progress)
            self._state = "done"
        except Paused:
            self._state = "paused"
        except WorkbenchError as error:
            self._problem, self._hint = error.message, error.hint
            self._state = "failed"
        except Exception as error:
            logging.getLogger(__name__).exception("a pull failed")
            self._problem = f"Something went wrong that was not foreseen: {type(error).__name__}"
            self._state = "failed"
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
        rows = {name: pull.row() for name, pull in pulls.items()}
        for plan in unfinished(self._data):
            if plan.name not in rows:
                first = plan.wanted.files[0].name
                rows[plan.name] = PullRow(
                    plan.name, plan.wanted.repository, first, "paused", plan.done, plan.wanted.size
                )
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
        if pull is None or pull.row().state == "done":
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
