"""`workbench train` with a trainer that only writes events."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.model.service.run_setup import use_adapter
from engine.project.project import Project
from engine.training import service as runs
from engine.training.run_directory import RunDirectory, is_running, lock_run
from engine.training.run_files import all_runs
from tests.command_line import result
from tests.engine.training.training_project import bare_run, fake_trainers, steps, talks, wait_for
from workbench.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of forty conversations and trainers that only write events."""
    monkeypatch.setattr(runs, "Trainers", fake_trainers)
    with talks(tmp_path / "p.wb", monkeypatch) as path:
        yield path


def only_run(project: Path) -> RunDirectory:
    """The one run of the project."""
    (run,) = all_runs(project)
    return run


def press_when(project: Path, *after: int) -> None:
    """Presses Ctrl-C after each of these numbers of steps."""

    def press() -> None:
        for count in after:
            wait_for(lambda: all_runs(project) and steps(only_run(project)) >= count)  # noqa: B023
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


class TestRuns:
    def test_to_the_end(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The command prints the estimate, then the state of the run, and at the end how to use the adapter."""
        monkeypatch.setenv("FAKE_TRAINER", "finishes")
        code = main(
            ["train", str(project), "--name", "mine", "--set", "epochs=2", "--set", "rank=4"]
        )
        out, err = capsys.readouterr()

        assert code == 0
        assert "to train on" in err
        assert "step " in err
        assert "AUROC 0.750" in out
        assert "--mode tuned --adapter mine" in out
        told = json.loads(only_run(project).config.read_text())
        assert (told["rank"], told["epochs"], told["base_name"]) == (4, 2.0, "smollm2-135m")

    def test_detached(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A detached run continues after the command ends; `status` and `stop` find it."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        assert main(["train", str(project), "--name", "mine", "--detach"]) == 0
        run = only_run(project)
        wait_for(lambda: steps(run) > 1)
        assert is_running(run)

        (row,) = result("train", "status", str(project))["runs"]
        assert (row["name"], row["state"], row["steps"]) == ("mine", "running", 400)
        assert main(["train", "status", str(project)]) == 0
        assert "1 s left" in capsys.readouterr().out

        assert main(["train", "stop", str(project), "mine"]) == 0
        assert not is_running(run)
        assert run.adapter_gguf.exists()
        assert "ends after its step" in capsys.readouterr().err

    def test_ctrl_c_keeps_the_best(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The first Ctrl-C ends the run after its step; the adapter is kept, and the command says how to resume."""
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        press_when(project, 3)
        code = main(["train", str(project), "--name", "mine"])
        err = capsys.readouterr().err

        assert code == 130
        assert "keeping the best checkpoint" in err
        assert "--resume mine" in err
        assert only_run(project).adapter_gguf.exists()

    def test_ctrl_c_twice_kills(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The second Ctrl-C kills a run that ignores the first; it can be resumed later."""
        monkeypatch.setenv("FAKE_TRAINER", "deaf")
        press_when(project, 3, 12)
        code = main(["train", str(project), "--name", "mine"])

        assert code == 130
        assert "was killed" in capsys.readouterr().err
        assert not is_running(only_run(project))

    def test_going_on(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A stopped run is resumed, with other settings where they do not change what is learned; other options and a
        finished run are refused.
        """
        monkeypatch.setenv("FAKE_TRAINER", "obeys")
        press_when(project, 2)
        main(["train", str(project), "--name", "mine"])
        before = only_run(project).train.read_bytes()
        monkeypatch.setenv("FAKE_TRAINER", "finishes")

        assert main(["train", str(project), "--resume", "mine", "--held-out", ".2"]) == 2
        assert "Leave out --held-out." in capsys.readouterr().err
        assert main(["train", str(project), "--resume", "mine", "--set", "rank=2"]) == 2
        assert "rank cannot change" in capsys.readouterr().err
        assert main(["train", str(project), "--resume", "mine", "--set", "recompute=true"]) == 0
        assert json.loads(only_run(project).config.read_text())["recompute"] is True
        assert only_run(project).train.read_bytes() == before
        assert main(["train", str(project), "--resume", "mine"]) == 2
        assert "mine is finished" in capsys.readouterr().err

    def test_refused_resume_changes_nothing(self, project: Path) -> None:
        """While another run of the project is running, a resume is refused, and the settings stay as they were."""
        run, other = bare_run(project, "mine"), bare_run(project, "other")
        before = run.config.read_text()
        with lock_run(other):
            assert main(["train", str(project), "--resume", "mine", "--set", "recompute=true"]) == 2
        assert run.config.read_text() == before


class TestWords:
    def test_the_estimate_begins_nothing(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """--estimate prints the cost of a run as text or JSON, and writes nothing."""
        assert main(["train", str(project), "--estimate"]) == 0
        assert "steps" in capsys.readouterr().out
        found = result("train", str(project), "--estimate")

        assert found["train"] + found["held_out"] == found["matched"] == 40
        assert found["memory"] > 700 << 20
        assert all_runs(project) == []

    @pytest.mark.parametrize(
        "words",
        [
            ("--set", "rank"), ("--base", "gpt"), ("--name", "../x"), ("--resume", "none"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_is_usage(self, words: tuple[str, ...], project: Path) -> None:
        """Invalid arguments give exit code 2 and start nothing."""
        assert main(["train", str(project), *words]) == 2
        assert all_runs(project) == []

    def test_use_and_delete(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A run without an adapter is not used, one in use is not deleted, and none is deleted without --yes."""
        for name in ("one", "two"):
            bare_run(project, name)
        with Project.open(project) as opened:
            use_adapter(opened, "two")
        assert main(["train", "use", str(project), "one"]) == 2
        assert main(["train", "delete", str(project), "two", "--yes"]) == 2
        assert result("train", "use", str(project), "--none") == {"adapter": None}
        assert main(["train", "delete", str(project), "two"]) == 2
        assert "--yes" in capsys.readouterr().err
        assert main(["train", "delete", str(project), "two", "--yes"]) == 0
        assert [run.path.name for run in all_runs(project)] == ["one"]
        assert main(["train", "delete", str(project), "nobody", "--yes"]) == 2
