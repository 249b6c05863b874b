"""The process of a training run: detached, found again, stopped in stages, and the reason of its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.model.memory_plan import count_gpus
from engine.training import process
from engine.training.config import TrainConfig
from engine.training.history import RunHistory
from engine.training.process import Trainers, pid_of
from engine.training.run_directory import RunDirectory, is_running
from tests.engine.training import fake_trainer
from tests.engine.training.training_project import (
    bare_run,
    fake_trainers,
    steps,
    wait_for,
    wait_for_end,
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    """A run; a process that works on it is killed after the test."""
    repository = Path(__file__).resolve().parents[3]
    monkeypatch.setenv("PYTHONPATH", str(repository))
    found = bare_run(tmp_path / "p.wb")
    yield found
    fake_trainers().kill(found)
    wait_for_end(found)


class TestStarting:
    def test_a_run_needs_nobody(self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """The process has a session of its own, and another program finds it by the run's files."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        pid = fake_trainers().start(run)
        wait_for(lambda: steps(run) > 1)

        assert os.getsid(pid) == pid != os.getsid(0)
        assert (is_running(run), pid_of(run)) == (True, pid)
        row = RunHistory(run).row()
        assert (row.state, row.pid, row.steps) == ("running", pid, 400)

    def test_one_process_a_run(self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """A second start is refused at once, also before the first process has taken the lock."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        trainers = fake_trainers()
        trainers.start(run)

        for other in (trainers, fake_trainers()):
            with pytest.raises(UsageError, match="is running"):
                other.start(run)

    def test_missing_libraries_are_named(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the extra nothing is started, and the error says what to install."""
        monkeypatch.setattr(process, "NEEDED", ("json", "no_such_library"))

        with pytest.raises(UsageError) as caught:
            fake_trainers().start(run)
        assert "no_such_library" in caught.value.message
        assert "pip install 'conversation-workbench[train]'" in caught.value.hint
        assert not run.log.exists()

    def test_the_id_of_another_process_is_not_taken_for_a_run(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The id of a process that does not hold the run's lock does not count, even if it is the trainer of another
        run; that process is not killed.
        """
        other = bare_run(run.path.parent.parent / "p.wb", "other")
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        pid = fake_trainers().start(other)
        wait_for(lambda: steps(other) > 1)
        run.lock_file.write_text(str(pid))

        assert not is_running(run)
        assert pid_of(run) is None
        fake_trainers().kill(run)
        seen = steps(other)
        wait_for(lambda: steps(other) > seen)
        fake_trainers().kill(other)
        wait_for_end(other)

    def test_a_run_that_was_started_by_hand(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that was started by hand is found by the lock that it holds."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        child = subprocess.Popen(
            [sys.executable, fake_trainer.__file__, run.path.name], cwd=run.path.parent
        )
        wait_for(lambda: steps(run) > 1)

        assert pid_of(run) == child.pid
        fake_trainers().kill(run)
        assert child.wait() == -signal.SIGKILL


class TestStopping:
    def test_the_wish_is_enough(self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a stop request the run ends after its step, keeps its adapter, and reports that it was stopped."""
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
        """A run that ignores the stop request gets SIGTERM, then SIGKILL; the waits begin when it is silent, because
        steps show that it works.
        """
        monkeypatch.setenv("FAKE_TRAINER", kind)
        trainers = fake_trainers()
        trainers.start(run)
        wait_for(lambda: steps(run) > 2)
        monkeypatch.setattr(process, "_last_event_time", lambda run: 0.0)
        trainers.stop(run)
        wait_for_end(run)

        assert RunHistory(run).row().state == state


class TestEndings:
    def ended(self, run: RunDirectory, kind: str, monkeypatch: pytest.MonkeyPatch) -> RunHistory:
        """The state of a run after such an end."""
        monkeypatch.setenv("FAKE_TRAINER", kind)
        fake_trainers().start(run)
        wait_for_end(run)
        wait_for((run.path / "exit.json").exists)
        return RunHistory(run)

    def test_a_process_that_never_began_failed(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that crashed before its first event is failed, with the last words of its log."""
        row = self.ended(run, "never", monkeypatch).row()

        assert row.state == "failed"
        assert "libsomething.so" in row.problem

    def test_a_killed_process_says_so(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A killed process is interrupted, and the message names possible causes."""
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


class TestSeveralGpus:
    def test_gpus_are_counted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those that the driver lists and CUDA_VISIBLE_DEVICES does not hide count."""
        tool = tmp_path / "nvidia-smi"
        tool.write_text("#!/bin/sh\n" + "echo 'Some GPU'\n" * 2)
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        assert count_gpus(5.0) == 2
        for visible, left in (("1", 1), ("0,1,2", 2), ("7", 0), ("", 0), ("-1", 0)):
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
            assert count_gpus(5.0) == left

    def test_a_missing_package_is_asked_for(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a GPU 8-bit AdamW is not silently replaced: nothing starts, and the error says what to install or set."""
        monkeypatch.setattr(process, "EIGHT_BIT", "no_such_library")
        TrainConfig(base="b").save(run.config)
        trainers = Trainers((sys.executable, fake_trainer.__file__), gpus=lambda: 1)
        with pytest.raises(UsageError, match="eight_bit needs no_such_library") as caught:
            trainers.start(run)
        assert "conversation-workbench[gpu]" in caught.value.hint
        assert "--set eight_bit=false" in caught.value.hint
        trainers.check_libraries(TrainConfig(base="b", eight_bit=False))
        Trainers(gpus=lambda: 0).check_libraries(TrainConfig(base="b"))
