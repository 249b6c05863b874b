"""Whole runs of `python -m training` on a tiny base: what they leave, and that they can be interrupted anywhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest

from engine.project.project import Project
from engine.training.history import RunHistory
from engine.training.run_directory import RunDirectory
from tests.engine.training.training_project import fill_with_talks
from tests.training.tiny_runs import STEPS, events, finished, start, tiny_base, tiny_run
from tests.workbench.test_without_network import Watched

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """An uninterrupted run."""
    run = tiny_run(tmp_path_factory.mktemp("whole") / "run")
    assert finished(run) == 0, run.log.read_text()
    return run


def figures(run: RunDirectory, kind: str, *names: str) -> dict[int, list[Any]]:
    """The figures of one kind of event by step; for a repeated step those of the last."""
    return {one["step"]: [one[name] for name in names] for one in events(run, kind)}


def same_outcome(run: RunDirectory, whole: RunDirectory) -> None:
    """Asserts that the adapters are equal bit for bit, and every loss and validation."""
    assert (run.adapter / WEIGHTS).read_bytes() == (whole.adapter / WEIGHTS).read_bytes()
    for kind, names in (("step", ("loss", "learning_rate")), ("valid", ("loss", "auroc", "best"))):
        assert figures(run, kind, *names) == figures(whole, kind, *names)


class TestWhole:
    def test_every_step_validation_and_checkpoint_is_told(self, whole: RunDirectory) -> None:
        """There are events for each step in order, with a validation and a checkpoint after every second."""
        every_second = [2, 4, 6]

        assert [one["steps"] for one in events(whole, "started")] == [STEPS]
        assert [one["step"] for one in events(whole, "step")] == list(range(1, STEPS + 1))
        assert [one["step"] for one in events(whole, "valid")] == every_second
        assert [one["step"] for one in events(whole, "checkpoint")] == every_second
        assert RunHistory(whole).row().state == "finished"

    def test_it_learns(self, whole: RunDirectory) -> None:
        """The loss over the held-out logs falls."""
        losses = [one["loss"] for one in events(whole, "valid")]

        assert losses[-1] < losses[0]

    def test_the_card_has_the_figures_of_the_best(self, whole: RunDirectory) -> None:
        """The card has the figures of the validation whose weights the adapter has, and no path of this machine."""
        card = json.loads(whole.card.read_text())
        best = next(one for one in events(whole, "valid") if one["step"] == card["best_step"])

        assert (card["auroc"], card["f1"]) == (best["auroc"], best["f1"])
        assert card["conversations"] == len(whole.train.read_text().splitlines())
        assert card["recipe"] == "boundary"
        assert str(whole.path) not in whole.card.read_text()

    def test_the_best_and_the_last_two_are_kept(self, whole: RunDirectory) -> None:
        """At most three checkpoints stay, the best among them."""
        best = events(whole, "done")[0]["best_step"]
        kept = sorted(path.name for path in whole.checkpoints.iterdir())

        assert len(kept) <= 3
        assert f"checkpoint-{best}" in kept


class TestBrokenOff:
    def test_killed_after_a_checkpoint(self, whole: RunDirectory, tmp_path: Path) -> None:
        """A run that was killed and started again ends as an uninterrupted one."""
        run = tiny_run(tmp_path / "run")
        process = start(run)
        _wait_for(run, "step", 3)
        process.send_signal(SIGKILL)
        process.wait()
        assert RunHistory(run).row().state == "interrupted"

        assert finished(run) == 0, run.log.read_text()

        assert events(run, "started")[1]["step"] >= 2
        same_outcome(run, whole)

    def test_stopped_and_resumed(self, whole: RunDirectory, tmp_path: Path) -> None:
        """A STOP file ends a run after its step with an adapter; started again it completes."""
        run = tiny_run(tmp_path / "run")
        process = start(run)
        _wait_for(run, "step", 2)
        run.stop_file.touch()

        assert process.wait() == 0, run.log.read_text()
        stopped = events(run, "done")[0]
        assert stopped["reason"] == "stopped"
        assert stopped["step"] < STEPS
        assert run.adapter_gguf.exists()
        assert RunHistory(run).row().state == "stopped"

        assert finished(run) == 0, run.log.read_text()
        assert events(run, "done")[1]["step"] == STEPS
        steps = figures(run, "step", "loss")
        assert steps == figures(whole, "step", "loss")

    def test_terminated(self, tmp_path: Path) -> None:
        """SIGTERM ends a run soon, and the run can be resumed."""
        run = tiny_run(tmp_path / "run", epochs=50.0)
        process = start(run)
        _wait_for(run, "step", 2)
        process.send_signal(SIGTERM)

        assert process.wait() == 143
        assert RunHistory(run).row().state == "interrupted"


class TestAsInThePaper:
    def test_the_last_step_at_one_rate(self, tmp_path: Path) -> None:
        """The recipe `paper` trains at one learning rate, and its adapter has the weights of the last step."""
        run = tiny_run(tmp_path / "run", recipe="paper")

        assert finished(run) == 0, run.log.read_text()

        assert {one["learning_rate"] for one in events(run, "step")} == {5e-3}
        assert events(run, "done")[0]["best_step"] == STEPS
        last = run.checkpoints / f"checkpoint-{STEPS}" / WEIGHTS
        assert (run.adapter / WEIGHTS).read_bytes() == last.read_bytes()


class TestWithoutNetwork:
    def test_training(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An adapter is trained on a project and scores it, and no connection is tried."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        watched = Watched(tmp_path / "watch")
        hub, base = tiny_base(tmp_path)
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill_with_talks(project, 16)
        settings = (
            "batch=4", "valid_every=2", "precision=f32", "max_tokens=400", "rank=4", "threads=1", "epochs=1"
        )  # fmt: skip
        row = watched.workbench(
            "train", path, "--name", "mine", "--base", hub,
            *[word for one in settings for word in ("--set", one)],
        )  # fmt: skip
        assert (row["state"], row["adapter"]) == ("finished", True)
        scoring = ("--model", base, "--adapter", "mine", "--no-tune", "--no-remaining")
        done = watched.workbench("run", "complete", path, *scoring)
        assert done["scored"] == 16
        assert "-m training" in watched.began
        assert "-m engine.opener.model_process" in watched.began
        assert watched.reached == ""


class TestFullDisk:
    def test_it_is_named(self, tmp_path: Path) -> None:
        """A run that cannot write its checkpoint says that the disk is full, and leaves no half of one."""
        run = tiny_run(tmp_path / "run")
        weights = sum(p.stat().st_size for p in (run.path / "base").glob("*.safetensors"))

        assert start(run, largest_file=weights // 8).wait() == 1

        error = events(run, "error")[0]
        assert error["message"].startswith("The disk is full")
        assert "resume" in error["hint"]
        assert list(run.checkpoints.iterdir()) == []


def _wait_for(run: RunDirectory, kind: str, step: int) -> None:
    for _ in range(3000):
        if any(one["step"] >= step for one in events(run, kind)):
            return
        time.sleep(0.02)
    raise AssertionError(f"no {kind} {step}: {run.log.read_text()}")
