"""The merge desk and the goals on a project file: what keys decide is stored, and is there when it is opened again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from engine.store.project import Project
from screens.merge_review.screen import MergeDeskScreen
from tests.engine.services.goals.goal_project import cluster, fill_topics, stored_goals
from tests.screens.driving import lines, press, settle, text
from tests.screens.test_real_store import services
from workbench.app import WorkbenchApp


@asynccontextmanager
async def on_file(project: Project, mode: str) -> AsyncIterator[Pilot[None]]:
    app = WorkbenchApp(services(project), lambda listener: lambda: None)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, mode)
        yield pilot


def pair(pilot: Pilot[None]) -> tuple[str, str] | None:
    """Ids of what is in front."""
    screen = pilot.app.screen
    assert isinstance(screen, MergeDeskScreen)
    return screen.cursor.pair


def stored_groups(path: Path) -> dict[str, tuple[str, int]]:
    """Label and size of every group, as the file has them when it is opened next."""
    with Project.open(path) as project:
        return {group.id: (group.label, group.size) for group in stored_goals(project).groups()}


async def test_a_session(tmp_path: Path) -> None:
    """Merges under a written label, a refusal, a never, a pin, undo and redo; then a second look at the same file."""
    path = tmp_path / "goals.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project)
        async with on_file(project, "6") as pilot:
            first = pair(pilot)
            assert first is not None
            await press(pilot, "e", "ctrl+u", *"What they asked", "enter", "y")
            assert "1 decided (1 merged, 0 refused)" in text(pilot)
            await press(pilot, "n", "N", "u", "u")
            assert "1 decided (1 merged, 0 refused)" in text(pilot)
            await press(pilot, "U")
            assert "2 decided (1 merged, 1 refused)" in text(pilot)
            refused = stored_goals(project).history()
            assert [given.kind for given in refused if given.active] == ["apart", "merge"]
            await press(pilot, "p", "a", "H")
            assert "What they asked" in text(pilot)
            await press(pilot, "escape", "5")
            assert "What they asked" in text(pilot)
    before = stored_groups(path)
    assert "What they asked" in {label for label, _ in before.values()}
    with Project.open(path) as project:
        async with on_file(project, "6") as pilot:
            assert "2 decided (1 merged, 1 refused)" in text(pilot)
            await press(pilot, "u", "u", "u")
            assert "0 decided" in text(pilot)
            assert pair(pilot) == first
            await press(pilot, "U", "U", "U")
    assert stored_groups(path) == before


async def test_working_to_the_end(tmp_path: Path) -> None:
    """Refusing every proposal comes to an end, which the desk says; every view of the goals opens afterwards."""
    path = tmp_path / "goals.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project, k=4)
        async with on_file(project, "6") as pilot:
            for _ in range(stored_goals(project).progress().left):
                await press(pilot, "n")
            assert "every current pair was refused" in text(pilot)
            await press(pilot, "5", "M")
            assert any(0x2800 < ord(sign) < 0x2900 for line in lines(pilot) for sign in line)
            await press(pilot, "escape", "t", "escape", "d", "escape", "enter", "equals_sign")
            assert "More like" in text(pilot)
