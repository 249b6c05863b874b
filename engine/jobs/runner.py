"""Runs stages: starts them, reports their progress as events, cancels them and records how they end.

A *job* is a chain of stages. A stage is a generator: it commits each bounded batch together with the counter of its run
in one transaction and yields its progress. So a process that dies loses at most one batch, and a run is resumed by
running the stage again. A *lane* is a queue of jobs with one thread; see `engine.jobs.contract.Lane`.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.base import events
from engine.base.conversation import without_surrogates
from engine.base.errors import Cancelled, ProgramFault, ProjectError, WorkbenchError
from engine.jobs.contract import Lane, Progress, Stage
from engine.jobs.progress import Clock, RateMeter
from engine.project import runs
from engine.project.project import Project
from engine.project.records import RunRow, RunState

_log = logging.getLogger(__name__)
"""Faults of stages and of listeners are logged here."""

PROGRESS_SECONDS = 0.1
"""Least time between two progress events of one job."""

PARTS_OF_SHARE = 1_000_000
"""Number of parts in which a share of work is counted, so that its rate can be measured."""

SHARE_SECONDS = 300.0
"""Length of the window over which the rate of a share is measured. A batch of long logs takes longer than the window of
a count. Inside a batch the share is a guess, which the end of the batch corrects; over several batches this evens
out."""

CHANGED_SECONDS = 1.0
"""Least time between two `DataChanged` events of one job, because open screens read the project again after each."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How the run of one stage ended; what it committed stays.

    Attributes:
        state: Whether it ran to its end, was cancelled or failed.
        message: A sentence on its result, or on what went wrong.
        error: The error that it raised; None unless it failed.
    """

    state: events.Outcome
    message: str
    error: WorkbenchError | None = None


class _RunningStage:
    """One stage of a job with its run record.

    Attributes:
        rate_meter: Measures the rate of the stage, in its unit.
        last: The last progress that the stage reported.
    """

    def __init__(self, stage: Stage, run_id: int, clock: Clock) -> None:
        """Begins without progress; `run_id` is the id of the run record."""
        self.stage = stage
        self.run_id = run_id
        self.rate_meter = RateMeter(clock)
        self._share_meter = RateMeter(clock, SHARE_SECONDS)
        self.last = Progress(0, None, "waiting")

    def mark(self, progress: Progress) -> None:
        """Records the progress after a batch."""
        self.last = progress
        self.rate_meter.mark(progress.done)
        if progress.share is not None:
            self._share_meter.mark(round(progress.share * PARTS_OF_SHARE))

    def progress_event(self) -> events.JobProgress:
        """Returns the event that reports the last progress."""
        share = self.last.share
        if share is None:
            seconds_left = self.rate_meter.eta(self.last.done, self.last.total)
        else:
            seconds_left = self._share_meter.eta(round(share * PARTS_OF_SHARE), PARTS_OF_SHARE)
        return events.JobProgress(
            job_id=self.run_id,
            stage=self.stage.name,
            title=self.stage.title,
            done=self.last.done,
            total=self.last.total,
            unit=self.stage.unit,
            rate=self.rate_meter.rate(),
            eta_seconds=seconds_left,
            note=self.last.note,
            share=share,
            result=self.last.result,
        )


class _LaneWorker(NamedTuple):
    """The jobs that wait in a lane, and the thread that runs them; None among the jobs ends the thread."""

    waiting: queue.SimpleQueue[_Job | None]
    thread: threading.Thread


class _Job:
    """A chain of stages. The first stage gets its run record when the job is queued, each other one when it starts.

    Attributes:
        stages: The stages, in order.
        current: The stage that runs, or the first one while the job waits.
        run_ids: Ids of the runs of the stages that have a run record.
        cancelled: Set once the job was cancelled.
        stopped_by_close: Whether the job was cancelled only because the project is closed, so that it can be
            resumed.
    """

    def __init__(self, stages: Sequence[Stage], first: _RunningStage) -> None:
        self.stages = stages
        self.current = first
        self.run_ids = {first.run_id}
        self.cancelled = threading.Event()
        self.stopped_by_close = False

    def cancel(self) -> None:
        """Cancels the current stage and all later ones; a second call ends what the current stage still does."""
        self.cancelled.set()
        self.current.stage.interrupt()


class JobRunner:
    """Runs stages in the background or while the caller waits, and emits events on them.

    Args:
        project: Project in which the runs are recorded.
        emit: Called with every event, from any thread.
        tables_by_stage: Names of the tables that a stage changes, by its name; `conversation` for other stages.
        clock: Monotonic clock, in seconds.
        check: Called before stages are queued; raises WorkbenchError if they may not run.
    """

    def __init__(
        self,
        project: Project,
        emit: events.Listener,
        *,
        tables_by_stage: Mapping[str, frozenset[str]] | None = None,
        clock: Clock = time.monotonic,
        check: Callable[[Sequence[Stage]], None] = lambda stages: None,
    ) -> None:
        self._project = project
        self._emit_to = emit
        self._tables = tables_by_stage or {}
        self._clock = clock
        self._check = check
        self._guard = threading.Lock()
        self._jobs: list[_Job] = []
        self._lanes: dict[Lane, _LaneWorker] = {}
        self._closed = False

    def start(self, stages: Sequence[Stage]) -> int:
        """Queues stages to run one after another in the background; returns the job id, that of the first run.

        A stage that fails or is cancelled ends its chain. A chain with a stage of the lane `model` runs in that lane.

        Raises:
            ProjectError: `stop` was called.
            ProjectReadOnly: The project is open read-only.
            WorkbenchError: `check` refuses the stages.
        """
        if self._closed:
            raise ProjectError("The project is being closed.")
        self._check(stages)
        first, *_ = stages
        job = _Job(stages, self._begin(first))
        lane: Lane = "model" if any(stage.lane == "model" for stage in stages) else "cpu"
        with self._guard:
            self._jobs.append(job)
            if lane not in self._lanes:
                waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._run_jobs, args=(waiting,), name=f"jobs-{lane}", daemon=True
                )
                self._lanes[lane] = _LaneWorker(waiting, thread)
                thread.start()
            self._lanes[lane].waiting.put(job)
        return job.current.run_id

    def run(self, stage: Stage) -> RunOutcome:
        """Runs one stage while the caller waits; KeyboardInterrupt cancels it.

        Raises:
            ProjectReadOnly: The project is open read-only.
        """
        job = _Job([stage], self._begin(stage))
        with self._guard:
            self._jobs.append(job)
        try:
            return self._execute(job)
        finally:
            self._remove(job)

    def cancel(self, job_id: int) -> None:
        """Cancels the waiting or running job that the run `job_id` belongs to; ignores unknown ids.

        A stage may still make use of the results that it has; a second call ends that too.
        """
        with self._guard:
            jobs = [job for job in self._jobs if job_id in job.run_ids]
        for job in jobs:
            job.cancel()

    def active(self) -> list[events.JobProgress]:
        """Returns the progress of the jobs that run or wait, oldest first."""
        with self._guard:
            return [job.current.progress_event() for job in self._jobs]

    def interrupted(self) -> list[RunRow]:
        """Returns the runs that an earlier process left unfinished and that were not resumed since, newest first."""
        return self._project.read(runs.interrupted)

    def stop(self) -> None:
        """Starts no more jobs, and asks those that run to end, without waiting for them.

        Their runs are recorded as interrupted, so that they can be resumed.
        """
        with self._guard:
            if self._closed:
                return
            self._closed = True
            jobs = list(self._jobs)
        for job in jobs:
            job.stopped_by_close = not job.cancelled.is_set()
            job.cancel()
            job.cancel()  # there is no time to make use of what a stage has

    def close(self, timeout: float = 2.0) -> bool:
        """Stops all jobs and waits up to `timeout` seconds; returns whether all background jobs ended.

        A job that did not end is marked as interrupted when the project is opened next.
        """
        self.stop()
        with self._guard:
            lanes = list(self._lanes.values())
        deadline = time.monotonic() + timeout
        for waiting, _ in lanes:
            waiting.put(None)
        for _, thread in lanes:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for _, thread in lanes)

    def _run_jobs(self, waiting: queue.SimpleQueue[_Job | None]) -> None:
        """Runs the jobs of one lane as they come, until None comes; runs on a thread of its own."""
        while (job := waiting.get()) is not None:
            try:
                self._run_chain(job)
            except Exception:  # noqa: BLE001 - the lane must outlive the job
                _log.exception("a job could not be recorded")
            finally:
                self._remove(job)

    def _run_chain(self, job: _Job) -> None:
        """Runs the stages of a job one after another, until one does not run to its end."""
        _, *later_stages = job.stages
        outcome = self._execute(job)
        for stage in later_stages:
            if outcome.state != "done":
                return
            job.current = self._begin(stage)
            job.run_ids.add(job.current.run_id)
            outcome = self._execute(job)

    def _begin(self, stage: Stage) -> _RunningStage:
        """Makes the run record of a stage, and returns the stage with it."""
        config_hash = stage.config_hash  # computed before the transaction
        run_id = self._project.write(
            lambda conn: runs.create(
                conn,
                stage=stage.name,
                config_hash=config_hash,
                params=stage.params,
                fingerprints=stage.fingerprints,
            )
        )
        return _RunningStage(stage, run_id, self._clock)

    def _execute(self, job: _Job) -> RunOutcome:
        """Runs the current stage of a job, records how it ended, emits the events and returns the outcome."""
        running = job.current
        stage = running.stage
        self._emit(events.JobStarted(running.run_id, stage.name, stage.title))
        outcome = self._outcome_of(job, running)
        state: RunState = outcome.state
        if job.stopped_by_close and state != "done":
            state = "interrupted"
        try:
            self._project.write(
                lambda conn: runs.finish(conn, running.run_id, state, outcome.message)
            )
        except WorkbenchError as error:
            _log.warning("the end of run %d is not recorded: %s", running.run_id, error)
            if outcome.state == "done":
                outcome = RunOutcome("failed", error.message, error)
        self._emit(running.progress_event())
        self._emit(events.DataChanged(self._tables_of(stage) | {"run"}))
        self._emit(
            events.JobEnded(
                job_id=running.run_id,
                stage=stage.name,
                title=stage.title,
                outcome=outcome.state,
                message=outcome.message,
                hint=outcome.error.hint if outcome.error else "",
                code=outcome.error.code if outcome.error else "",
            )
        )
        return outcome

    def _outcome_of(self, job: _Job, running: _RunningStage) -> RunOutcome:
        """Runs a stage and returns how it ended; an error that the stage raises is its outcome."""
        run_id = running.run_id
        try:
            if self._run_batches(job, running):
                return RunOutcome("done", running.stage.summary())
        except (Cancelled, KeyboardInterrupt):
            pass
        except WorkbenchError as error:
            _log.warning("run %d failed: %s", run_id, without_surrogates(str(error)))
            return RunOutcome("failed", error.message, error)
        except Exception as error:  # noqa: BLE001 - whatever it was, the run ends and says so
            _log.exception("run %d failed", run_id)
            text = f"{type(error).__name__}: {error}"
            fault = ProgramFault(text, "This is a fault; the log has details.")
            return RunOutcome("failed", fault.message, fault)
        return RunOutcome("cancelled", f"Cancelled. {running.stage.summary()}".rstrip())

    def _run_batches(self, job: _Job, running: _RunningStage) -> bool:
        """Runs the batches of a stage, and emits events on them at most every `PROGRESS_SECONDS` and `CHANGED_SECONDS`.

        Returns:
            False if the job was cancelled before the first batch, else True.

        Raises:
            Cancelled: The job was cancelled later. The stage gets the exception once, at its last `yield`, so that it
                can make use of the results that it has; it may then end without raising it.
        """
        if job.cancelled.is_set():
            return False
        last_progress_event = last_change_event = self._clock()  # when each was emitted last
        batches = running.stage.run(running.run_id)
        assert isinstance(batches, Generator)
        is_stage_cancelled = False  # whether the stage got the exception
        try:
            progress = next(batches, None)
            while progress is not None:
                running.mark(progress)
                now = self._clock()
                if now - last_progress_event >= PROGRESS_SECONDS or progress.result:
                    last_progress_event = now
                    self._emit(running.progress_event())
                    running.last = replace(progress, result="")  # a result is reported once
                if now - last_change_event >= CHANGED_SECONDS or progress.result:
                    last_change_event = now
                    self._emit(events.DataChanged(self._tables_of(running.stage)))
                if job.cancelled.is_set() and not is_stage_cancelled:
                    is_stage_cancelled = True
                    progress = batches.throw(Cancelled("The work was cancelled."))
                else:
                    progress = next(batches, None)
        finally:
            batches.close()
        return True

    def _tables_of(self, stage: Stage) -> frozenset[str]:
        """Returns the names of the tables that a stage changes."""
        return self._tables.get(stage.name, frozenset({"conversation"}))

    def _remove(self, job: _Job) -> None:
        """Removes a job that has ended from the list of active ones."""
        with self._guard:
            if job in self._jobs:
                self._jobs.remove(job)

    def _emit(self, event: events.Event) -> None:
        """Passes an event to the listener; a fault of the listener is logged."""
        try:
            self._emit_to(event)
        except Exception:  # noqa: BLE001 - a listener's fault must not end the work
            _log.exception("a listener failed on %s", type(event).__name__)
