"""The process of a training run: on its own, found again, stopped by and by, and why it ended."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.run_directory.events import RunDirectory, locked, read_events
from engine.services.training import process
from engine.services.training.history import RunHistory
from engine.services.training.process import has_process, pid_of
from tests.engine.services.training import fake_trainer
from tests.engine.services.training.training_project import (
    bare_run,
    fake_trainers,
    wait_for,
    wait_for_end,
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    """A run; whatever works on it is gone afterwards."""
    repository = Path(__file__).resolve().parents[4]
    monkeypatch.setenv("PYTHONPATH", str(repository))
    found = bare_run(tmp_path / "p.wb")
    yield found
    fake_trainers().kill(found)
    wait_for_end(found)


def steps(run: RunDirectory) -> int:
    """How many steps the run told of."""
    return sum(event["event"] == "step" for event in read_events(run.events)[0])


class TestStarting:
    def test_a_run_needs_nobody(self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """The process leads a session of its own, and another program finds it by the run's files."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        pid = fake_trainers().start(run)
        wait_for(lambda: steps(run) > 1)

        assert os.getsid(pid) == pid != os.getsid(0)
        assert (has_process(run), pid_of(run)) == (True, pid)
        row = RunHistory(run).row()
        assert (row.state, row.pid, row.steps) == ("running", pid, 400)

    def test_one_process_a_run(self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """A second start is refused at once, before the first process has taken the lock too."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        trainers = fake_trainers()
        trainers.start(run)

        for other in (trainers, fake_trainers()):
            with pytest.raises(UsageError, match="is running"):
                other.start(run)

    def test_a_run_that_was_stopped_can_start_again(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The wish to stop is for one process: the next one is not stopped by it."""
        monkeypatch.setenv("FAKE_TRAINER", "finishes")
        run.stop.touch()
        fake_trainers().start(run)
        wait_for_end(run)

        assert RunHistory(run).row().state == "finished"

    def test_missing_libraries_are_named(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the extra nothing starts, and the error says what to install."""
        monkeypatch.setattr(process, "NEEDED", ("json", "no_such_library"))

        with pytest.raises(UsageError) as caught:
            fake_trainers().start(run)
        assert "no_such_library" in caught.value.message
        assert "pip install 'conversation-workbench[train]'" in caught.value.hint
        assert not run.log.exists()

    def test_the_id_of_another_process_is_not_taken_for_a_run(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run whose process is gone does not work because the system gave its id to somebody else, be it the trainer
        of another run; nobody is killed for it."""
        other = bare_run(run.path.parent.parent / "p.wb", "other")
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        pid = fake_trainers().start(other)
        wait_for(lambda: steps(other) > 1)
        (run.path / "process.json").write_text(json.dumps({"pid": pid}))

        assert not has_process(run)
        assert pid_of(run) is None
        fake_trainers().kill(run)
        seen = steps(other)
        wait_for(lambda: steps(other) > seen)
        fake_trainers().kill(other)
        wait_for_end(other)

    def test_a_run_that_was_started_by_hand(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that somebody started on the folder by a relative path is found by its own words."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        child = subprocess.Popen(
            [sys.executable, fake_trainer.__file__, run.path.name], cwd=run.path.parent
        )
        wait_for(lambda: steps(run) > 1)

        assert pid_of(run) == child.pid
        fake_trainers().kill(run)
        assert child.wait() == -signal.SIGKILL

    def test_those_who_ask_are_no_process(self, run: RunDirectory) -> None:
        """Two who look at the same moment do not take each other for a process that works."""
        run.lock.touch()
        with run.lock.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_SH)
            assert not has_process(run)
        with locked(run) as had:
            assert had
            assert has_process(run)


class TestStopping:
    def test_the_wish_is_enough(self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run ends after its step, keeps its adapter, and says that it was stopped."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        trainers = fake_trainers()
        trainers.start(run)
        wait_for(lambda: steps(run) > 2)
        trainers.stop(run)
        wait_for_end(run)

        row = RunHistory(run).row()
        assert (row.state, row.adapter, row.auroc, row.best_step) == ("stopped", True, 0.75, 2)

    @pytest.mark.parametrize(("kind", "state"), [("late", "stopped"), ("deaf", "interrupted")])
    def test_whoever_does_not_listen_is_pressed(
        self, kind: str, state: str, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run that ignores the wish gets SIGTERM, one that ignores that too is killed; steps meanwhile count as
        listening, so the wish waits for silence."""
        monkeypatch.setenv("FAKE_TRAINER", kind)
        trainers = fake_trainers()
        trainers.start(run)
        wait_for(lambda: steps(run) > 2)
        monkeypatch.setattr(process, "_last_event", lambda run: 0.0)
        trainers.stop(run)
        wait_for_end(run)

        assert RunHistory(run).row().state == state


class TestEndings:
    def ended(self, run: RunDirectory, kind: str, monkeypatch: pytest.MonkeyPatch) -> RunHistory:
        """A run that ended so."""
        monkeypatch.setenv("FAKE_TRAINER", kind)
        fake_trainers().start(run)
        wait_for_end(run)
        wait_for((run.path / "exit.json").exists)
        return RunHistory(run)

    def test_an_error_has_its_cause_and_fix(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failed run shows the words of its error event."""
        row = self.ended(run, "fails", monkeypatch).row()

        assert (row.state, row.problem) == ("failed", "The base is broken.")
        assert row.hint == "Get it again."

    def test_want_of_memory_names_what_to_lower(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that died for want of memory, which its log tells, says which settings take less."""
        row = self.ended(run, "no-memory", monkeypatch).row()

        assert (row.state, row.problem) == ("interrupted", "Out of memory.")
        for setting in ("rows", "max_tokens", "recompute"):
            assert setting in row.hint

    def test_a_process_that_never_began_failed(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that fell over before its first event is failed, with the last words of its log."""
        row = self.ended(run, "never", monkeypatch).row()

        assert row.state == "failed"
        assert "libsomething.so" in row.problem

    def test_a_killed_process_says_so(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that was killed without a word is interrupted, and the words say by whom that may have been."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        pid = fake_trainers().start(run)
        wait_for(lambda: steps(run) > 2)
        os.kill(pid, signal.SIGKILL)
        wait_for_end(run)
        wait_for((run.path / "exit.json").exists)
        row = RunHistory(run).row()

        assert row.state == "interrupted"
        assert "killed" in row.problem
        assert "memory ran out" in row.problem
        assert "Resume" in row.hint

    def test_nobody_saw_the_end(self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the end was not seen the run is interrupted all the same and can go on."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        pid = fake_trainers().start(run)
        wait_for(lambda: steps(run) > 1)
        os.kill(pid, signal.SIGKILL)
        wait_for_end(run)
        wait_for((run.path / "exit.json").exists)
        (run.path / "exit.json").unlink()
        row = RunHistory(run).row()

        assert row.state == "interrupted"
        assert "without an error" in row.problem


def test_the_process_runs_this_python() -> None:
    """What is started is the trainer of this installation."""
    assert process.Trainers()._command == (sys.executable, "-m", "training")
