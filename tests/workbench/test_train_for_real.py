"""A training run from a project to scores with its adapter, by the commands a person types, on a tiny base."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.project.project import Project
from engine.training.events import RunDirectory, read_events
from engine.training.process import Trainers, pid_of
from engine.training.run_files import runs_folder
from tests.command_line import data, process
from tests.engine.training.training_project import fill_with_talks, wait_for, wait_for_end
from workbench.command_result import EXIT_INCOMPLETE

if importlib.util.find_spec("peft") is None:
    pytest.skip("training is not installed", allow_module_level=True)

MINUTES = 600
"""Seconds that a step of the run may take on a machine that does other things too."""

SETTINGS = (
    "batch=4", "valid_every=2", "precision=f32", "max_tokens=400", "rank=4", "alpha=8", "threads=1",
)  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project of twenty-four conversations of three turns; processes that train on it are killed after the test."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as opened:
        fill_with_talks(opened, 24)
    yield path
    for folder in runs_folder(path).iterdir():
        Trainers().kill(RunDirectory(folder))


def events_of(run: RunDirectory, kind: str) -> list[dict[str, Any]]:
    """The events of one kind so far."""
    return [event for event in read_events(run.events)[0] if event["event"] == kind]


def test_begun_killed_gone_on_and_used(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed resumes at its checkpoint and completes; its adapter scores by the run's name."""
    from tests.training.tiny_runs import tiny_base

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hub, base = tiny_base(tmp_path)
    asked = [word for setting in SETTINGS for word in ("--set", setting)]
    begun = process(
        "train", project, "--name", "mine", "--base", hub, "--set", f"base_gguf={base}",
        "--epochs", "2", "--detach", *asked,
    )  # fmt: skip
    assert begun.returncode == 0, begun.stderr.decode()
    run = RunDirectory(runs_folder(project) / "mine")

    wait_for(lambda: events_of(run, "checkpoint"), MINUTES)
    pid = pid_of(run)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for_end(run)
    status = data(process("train", "status", project, "--json"))["runs"][0]
    assert status["state"] == "interrupted"
    assert "killed" in status["problem"]

    resumed = process("train", project, "--resume", "mine", "--json")
    assert resumed.returncode == 0, resumed.stderr.decode()
    row = data(resumed)
    assert (row["state"], row["adapter"], row["step"]) == ("finished", True, row["steps"])
    assert events_of(run, "started")[1]["step"] == events_of(run, "checkpoint")[0]["step"]
    assert events_of(run, "parity")[0]["top1"] >= 0.99

    score = (
        "run", "complete", project, "--model", base, "--adapter", "mine", "--no-tune", "--no-remaining",
        "--json",
    )  # fmt: skip
    held_out = json.loads(run.manifest.read_text("utf-8"))["held_out"]
    some = process(*score, "--held-out-by", "mine")
    assert some.returncode == EXIT_INCOMPLETE, some.stderr.decode()
    assert data(some)["scored"] == len(held_out)
    assert 0 < len(held_out) < 24
