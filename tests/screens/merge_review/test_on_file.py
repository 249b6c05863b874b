"""The merge desk and the goals on a project file: what keys decide is stored, and is there when it is opened again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.containers import VerticalScroll
from textual.pilot import Pilot

from engine.project.project import Project
from screens.merge_review.panes import SidePane
from screens.merge_review.screen import MergeDeskScreen
from tests.engine.goals.service.goal_project import cluster, fill_topics, stored_review
from tests.screens.driving import lines, press, settle, text, until
from tests.screens.test_real_store import services
from workbench.app import WorkbenchApp


@asynccontextmanager
async def on_file(
    project: Project, mode: str, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[Pilot[None]]:
    app = WorkbenchApp(services(project), lambda listener: lambda: None)
    async with app.run_test(size=size, notifications=True) as pilot:
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
        return {
            group.id: (group.label, group.size) for group in stored_review(project).goals.groups()
        }


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
            assert "1 merged, 0 refused" in text(pilot)
            await press(pilot, "n", "N", "u", "u")
            assert "1 merged, 0 refused" in text(pilot)
            await press(pilot, "U")
            assert "1 merged, 1 refused" in text(pilot)
            refused = stored_review(project).history()
            assert [given.kind for given in refused if given.active] == ["apart", "merge"]
            await press(pilot, "p", "a", "H")
            assert "What they asked" in text(pilot)
            await press(pilot, "escape", "5")
            assert "What they asked" in text(pilot)
    before = stored_groups(path)
    assert "What they asked" in {label for label, _ in before.values()}
    with Project.open(path) as project:
        async with on_file(project, "6") as pilot:
            assert "1 merged, 1 refused" in text(pilot)
            await press(pilot, "u", "u", "u")
            assert "0 merged, 0 refused" in text(pilot)
            assert pair(pilot) == first
            await press(pilot, "U", "U", "U")
    assert stored_groups(path) == before


async def test_a_split_keeps_the_pair(tmp_path: Path) -> None:
    """After a split the largest part stands beside the other group, and the desk names both sides as they stand now, so
    that a key for A is not meant for the former A."""
    path = tmp_path / "goals.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project, k=4)
        async with on_file(project, "6") as pilot:
            before = pair(pilot)
            assert before is not None
            await press(pilot, "S", "a", "enter")
            review = stored_review(project)
            goals = review.goals
            after = pair(pilot)
            assert after is not None
            assert before[1] in after
            assert before[0] not in after
            given = review.history()[0]
            part = next(key for key in after if key != before[1])
            assert part in given.made
            sizes = {group.id: group.size for group in goals.groups()}
            assert sizes[part] == max(sizes[key] for key in given.made)
            labels = {group.id: group.label for group in goals.groups()}
            a, b = (labels[key] for key in after)
            await until(pilot, lambda: "The groups changed. In front now" in text(pilot))
            shown = " ".join(text(pilot).split())
            assert a[:12] in shown
            assert b[:12] in shown
            await press(pilot, "r")
            assert f"A      {sizes[after[0]]}  {a[:10]}" in text(pilot)


async def test_cards_use_the_room(tmp_path: Path) -> None:
    """On a large terminal a card shows all members that fit, on a small one four of a kind."""
    path = tmp_path / "goals.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project, k=2)
        counts = {}
        for size in ((80, 24), (200, 60)):
            async with on_file(project, "6", size) as pilot:
                pane = pilot.app.screen.query_one("#side-a", SidePane)
                counts[size] = len(pane.shown)
                room = pane.query_one(VerticalScroll)
                if size == (200, 60):
                    assert room.max_scroll_y == 0
        group = stored_review(project).goals.groups()[0]
        assert counts[80, 24] <= 8 < counts[200, 60]
        assert counts[200, 60] == min(group.size, 24)


async def test_working_to_the_end(tmp_path: Path) -> None:
    """Refusing every proposal comes to an end, which the desk says; every view of the goals opens afterwards."""
    path = tmp_path / "goals.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project, k=4)
        async with on_file(project, "6") as pilot:
            for _ in range(stored_review(project).progress().left):
                await press(pilot, "n")
            assert "every current pair was refused" in text(pilot)
            await press(pilot, "5", "M")
            assert any(0x2800 < ord(sign) < 0x2900 for line in lines(pilot) for sign in line)
            await press(pilot, "escape", "t", "escape", "d", "escape", "enter", "equals_sign")
            assert "More like" in text(pilot)
