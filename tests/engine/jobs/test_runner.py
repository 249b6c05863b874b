"""Stages are run, watched, cancelled and recorded."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from engine.base.errors import Cancelled, ModelError, ProjectError
from engine.base.events import DataChanged, Event, JobEnded, JobProgress, JobStarted
from engine.jobs.contract import Lane, Progress, Stage, config_hash
from engine.jobs.runner import JobRunner, RunOutcome
from engine.project import runs, settings
from engine.project.project import Project
from tests.engine.jobs.test_progress import Clock


class CountingStage(Stage):
    """A stage that counts to `total` and commits each step with its run's counter; can wait, fail and be
    interrupted.
    """

    unit = "steps"
    fingerprints: ClassVar[Mapping[str, Any]] = {"weights": "sha"}

    def __init__(
        self,
        project: Project,
        total: int = 3,
        *,
        name: str = "count",
        lane: Lane = "cpu",
        wait_at: int | None = None,
        error: BaseException | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.lane = lane
        self.project = project
        self.total = total
        self.wait_at = wait_at
        self.error = error
        self.clock = clock
        self.waiting = threading.Event()
        self.interrupted = threading.Event()
        self.cleaned = False
        self.done = 0

    @property
    def title(self) -> str:
        return f"Counting to {self.total}"

    @property
    def params(self) -> Mapping[str, Any]:
        return {"total": self.total}

    def run(self, run_id: int) -> Iterator[Progress]:
        try:
            for number in range(1, self.total + 1):
                if number == self.wait_at:
                    self.waiting.set()
                    self.interrupted.wait()
                    raise Cancelled("interrupted")
                if self.error and number == self.total:
                    raise self.error

                def step(conn: Any, number: int = number) -> None:
                    settings.put(conn, self.name, number)
                    runs.count(conn, run_id, number, self.total)

                self.project.write(step)
                self.done = number
                if self.clock:
                    self.clock.now += 0.5
                yield Progress(number, self.total, f"at {number}")
        finally:
            self.cleaned = True

    def interrupt(self) -> None:
        self.interrupted.set()

    def summary(self) -> str:
        return f"Counted to {self.done}."


class Listener:
    """Records events and lets a test wait for the end of a job."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._ended = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._ended:
            self.events.append(event)
            self._ended.notify_all()

    def wait_for_ends(self, count: int) -> list[JobEnded]:
        """The ends of jobs, once there are `count`."""
        with self._ended:
            assert self._ended.wait_for(lambda: len(self.of(JobEnded)) >= count, timeout=30)
        return self.of(JobEnded)

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def _finished(project: Project) -> list[tuple[int, str, int, str | None]]:
    """(id, state, done, message) of every run in order."""
    rows = reversed(project.read(runs.all_runs))
    return [(run.id, run.state, run.done, run.message) for run in rows]


class TestOutcomes:
    def test_done(self, project: Project) -> None:
        """A completed stage is recorded as done; its run row has everything that determined it."""
        listener = Listener()
        stage = CountingStage(project)
        outcome = JobRunner(project, listener).run(stage)
        assert outcome == RunOutcome("done", "Counted to 3.")
        (run,) = project.read(runs.all_runs)
        assert (run.stage, run.state, run.done, run.total) == ("count", "done", 3, 3)
        assert (run.params, run.fingerprints) == ({"total": 3}, {"weights": "sha"})
        assert run.message == "Counted to 3."
        assert run.config_hash == config_hash("count", {"total": 3}, {"weights": "sha"})
        assert run.finished_at is not None
        assert run.finished_at >= run.started_at
        assert isinstance(listener.events[0], JobStarted)
        assert listener.of(JobEnded) == [
            JobEnded(1, "count", "Counting to 3", "done", "Counted to 3.")
        ]
        assert [(p.done, p.total, p.unit, p.note) for p in listener.of(JobProgress)][-1] == (
            3,
            3,
            "steps",
            "at 3",
        )

    def test_an_error_of_ours(self, project: Project) -> None:
        """A WorkbenchError fails the run with its message and hint; committed rows stay."""
        listener = Listener()
        error = ModelError("The model is ill.", "Give it tea.")
        outcome = JobRunner(project, listener).run(CountingStage(project, error=error))
        assert outcome == RunOutcome("failed", error.message, error)
        assert _finished(project) == [(1, "failed", 2, "The model is ill.")]
        assert listener.of(JobEnded)[0].hint == "Give it tea."
        assert project.read(settings.get, "count") == 2

    def test_interrupt_from_the_keyboard(self, project: Project) -> None:
        """Ctrl-C while a command waits for a job cancels the run."""
        stage = CountingStage(project, error=KeyboardInterrupt())
        outcome = JobRunner(project, Listener()).run(stage)
        assert outcome == RunOutcome("cancelled", "Cancelled. Counted to 2.")
        assert _finished(project) == [(1, "cancelled", 2, "Cancelled. Counted to 2.")]


class TestBackground:
    def test_a_chain_runs_in_order_each_with_its_run(self, project: Project) -> None:
        """Stages of a chain run one after another, each under its own id."""
        listener = Listener()
        runner = JobRunner(project, listener)
        job_id = runner.start(
            [CountingStage(project, 2, name="a"), CountingStage(project, 1, name="b")]
        )
        ends = listener.wait_for_ends(2)
        assert job_id == 1
        assert [(end.job_id, end.stage, end.outcome) for end in ends] == [
            (1, "a", "done"),
            (2, "b", "done"),
        ]
        assert runner.close()
        assert runner.active() == []

    def test_cancel_of_what_runs(self, project: Project) -> None:
        """A cancel interrupts a blocked stage, whose clean-up runs; committed rows stay."""
        listener = Listener()
        runner = JobRunner(project, listener)
        stage = CountingStage(project, 5, wait_at=4)
        job_id = runner.start([stage, CountingStage(project, name="never")])
        stage.waiting.wait()
        assert [(p.job_id, p.done, p.total) for p in runner.active()] == [(job_id, 3, 5)]
        runner.cancel(job_id)
        (end,) = listener.wait_for_ends(1)
        assert (end.outcome, end.message) == ("cancelled", "Cancelled. Counted to 3.")
        assert stage.cleaned
        assert runner.close()
        assert _finished(project) == [(1, "cancelled", 3, "Cancelled. Counted to 3.")]

    def test_cancel_of_what_waits(self, project: Project) -> None:
        """A job that waits in its lane can be cancelled before it begins, and does nothing."""
        listener = Listener()
        runner = JobRunner(project, listener)
        first = CountingStage(project, 2, wait_at=2)
        second = CountingStage(project, 2, name="second")
        first_id = runner.start([first])
        second_id = runner.start([second])
        first.waiting.wait()
        assert [p.note for p in runner.active()] == ["at 1", "waiting"]
        runner.cancel(second_id)
        runner.cancel(12345)
        runner.cancel(first_id)
        ends = listener.wait_for_ends(2)
        assert [(end.job_id, end.outcome) for end in ends] == [
            (first_id, "cancelled"),
            (second_id, "cancelled"),
        ]
        assert second.done == 0
        assert runner.close()

    def test_lanes_run_beside_each_other(self, project: Project) -> None:
        """A job in one lane does not wait for a job in another."""
        listener = Listener()
        runner = JobRunner(project, listener)
        blocked = CountingStage(project, 2, wait_at=2)
        blocked_id = runner.start([blocked])
        runner.start([CountingStage(project, 2, name="m", lane="model")])
        assert [end.stage for end in listener.wait_for_ends(1)] == ["m"]
        runner.cancel(blocked_id)
        listener.wait_for_ends(2)
        assert runner.close()

    def test_close_stops_everything(self, project: Project) -> None:
        """Closing stops running and waiting jobs, which can be resumed as after a crash; nothing can be started
        afterwards."""
        runner = JobRunner(project, Listener())
        stage = CountingStage(project, 2, wait_at=2)
        runner.start([stage])
        runner.start([CountingStage(project, name="waits")])
        stage.waiting.wait()
        assert runner.close(timeout=30)
        assert [state for _, state, _, _ in _finished(project)] == ["interrupted", "interrupted"]
        assert [run.stage for run in runner.interrupted()] == ["waits", "count"]
        with pytest.raises(ProjectError, match="being closed"):
            runner.start([CountingStage(project)])

    def test_close_does_not_wait_for_what_does_not_end(self, project: Project) -> None:
        """A stage that ignores its interrupt does not keep the program from quitting."""

        class StubbornStage(CountingStage):
            release = threading.Event()

            def interrupt(self) -> None:
                pass

            def run(self, run_id: int) -> Iterator[Progress]:
                self.waiting.set()
                self.release.wait()
                yield from ()

        stage = StubbornStage(project)
        runner = JobRunner(project, Listener())
        runner.start([stage])
        stage.waiting.wait()
        assert not runner.close(timeout=0.01)
        assert _finished(project)[0][1] == "running"
        stage.release.set()
        assert runner.close(timeout=30)


class TestEvents:
    def test_progress_is_throttled_and_the_last_one_told(self, project: Project) -> None:
        """Progress events come at most every 0.1 s, and the last figure always comes."""
        clock = Clock()
        listener = Listener()
        JobRunner(project, listener, clock=clock).run(CountingStage(project, 50))
        assert [p.done for p in listener.of(JobProgress)] == [50]
        listener = Listener()
        JobRunner(project, listener, clock=clock).run(CountingStage(project, 4, clock=clock))
        assert [p.done for p in listener.of(JobProgress)] == [1, 2, 3, 4, 4]

    def test_changes_are_told_now_and_then_and_at_the_end(self, project: Project) -> None:
        """DataChanged events come once a second and when the job ends."""
        clock = Clock()
        listener = Listener()
        runner = JobRunner(
            project, listener, clock=clock, tables_by_stage={"count": frozenset({"score"})}
        )
        runner.run(CountingStage(project, 5, clock=clock))
        assert [sorted(e.tables) for e in listener.of(DataChanged)] == [
            ["score"],
            ["score"],
            ["run", "score"],
        ]


class TestConfigHash:
    def test_everything_counts_and_order_does_not(self) -> None:
        """The config hash changes with the stage, a parameter or a fingerprint, not with the order of keys."""
        base = config_hash("s", {"a": 1, "b": 2}, {"m": "x"})
        assert base == config_hash("s", {"b": 2, "a": 1}, {"m": "x"})
        others = {
            config_hash("t", {"a": 1, "b": 2}, {"m": "x"}),
            config_hash("s", {"a": 1, "b": 3}, {"m": "x"}),
            config_hash("s", {"a": 1, "b": 2}, {"m": "y"}),
            config_hash("s", {"a": 1}, {"b": 2, "m": "x"}),
        }
        assert len(others | {base}) == 5
        assert len(base) == 16
        assert int(base, 16) >= 0
