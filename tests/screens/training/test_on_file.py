"""Training from the screen on a real project file, its data and its processes; the trainer only writes events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.base import folders
from engine.model.catalog import Catalog
from engine.project.project import Project
from engine.training.run_directory import is_running
from engine.training.run_files import all_runs
from engine.training.service import TrainingService
from screens.training import screen
from tests.engine.training.training_project import fake_trainers, talks
from tests.screens.driving import lines, press, settle, text, until
from tests.screens.real_store import services
from workbench.app import WorkbenchApp


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of forty conversations; no process is left behind."""
    monkeypatch.setattr(screen, "POLL_SECONDS", 0.2)
    with talks(tmp_path / "talks.wb", monkeypatch) as found:
        yield found


def app_on(project: Project) -> WorkbenchApp:
    """The app on the project's own runs, seen as another session sees them."""
    catalog = Catalog(folders.data_dir(), folders.cache_dir())
    training = TrainingService(project, catalog, fake_trainers())
    found = services(project)
    found.training = training
    return WorkbenchApp(found, lambda _: lambda: None)


async def begin(pilot: Pilot[None], name: str) -> None:
    """Starts a run of this name. While it works nothing settles, because it is read again and again."""
    await settle(pilot)
    await press(pilot, "7", "n", "up", *name)
    await until(pilot, lambda: "40 conversations" in text(pilot))
    await pilot.press("enter")


async def test_start_leave_come_back_stop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is started from an estimate and followed; quitting changes nothing in it; the next session has its
    curves and stops it, and then its adapter can be used."""
    monkeypatch.setenv("FAKE_TRAINER", "obeys")
    monkeypatch.setenv("FAKE_STEPS", "9999")
    with Project.open(path) as project:
        async with app_on(project).run_test(size=(120, 36), notifications=True) as pilot:
            await begin(pilot, "mine")
            await until(pilot, lambda: "best at 2" in text(pilot))
            assert "/9,999" in text(pilot)
    (run,) = all_runs(path)
    assert is_running(run)
    with Project.open(path) as project:
        async with app_on(project).run_test(size=(120, 36), notifications=True) as pilot:
            await pilot.press("7")
            await until(pilot, lambda: "best at 2" in text(pilot))
            assert "mine is running" in lines(pilot)[1]
            await pilot.press("s")
            await until(pilot, lambda: "Stop mine?" in text(pilot))
            await pilot.press("down", "enter")
            await until(pilot, lambda: "– stopped" in text(pilot))
            assert not is_running(run)
            await press(pilot, "A", "escape")
            await until(pilot, lambda: "◉ mine is used for scoring" in lines(pilot)[1])
