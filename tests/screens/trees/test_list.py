"""The trees of the data set: table, orders, filter, the run dialog; on a project file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.trees import tables as stored
from engine.trees.measures import MIN_TREES_FOR_DECILES, Deciles, unusual, unusual_lines
from engine.trees.records import TreeItem, TreeRequest, TreeRow
from engine.trees.tables import TreeEntry
from screens.reader import ReaderScreen
from screens.trees.list_screen import TreeSetScreen
from screens.trees.screen import TreeScreen
from screens.triage.screen import TriageScreen
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.project import project as sample_project
from tests.screens.real_store import services
from tests.screens.trees.tree_project import CONFIG, run_of, store, with_trees
from workbench.app import WorkbenchApp


@asynccontextmanager
async def listed(
    project: Project, size: tuple[int, int] = (160, 40), given: OpenProject | None = None
) -> AsyncIterator[Pilot[None]]:
    app = WorkbenchApp(given or services(project), lambda listener: lambda: None)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, "4")
        yield pilot


def names(pilot: Pilot[None]) -> list[str]:
    """The conversations of the lines of the table, from the top."""
    found = [line.split()[0] for line in lines(pilot) if line.startswith(" warranty/")]
    assert found
    return found


def measured(project: Project) -> list[TreeRow]:
    return project.read(stored.rows)


class TestTable:
    async def test_most_leaves_first(self, tmp_path: Path) -> None:
        """Trees stand by falling leaves, with their figures; the summary counts them. u leaves the trees that stand out
        by both figures, and brings the others back."""
        stands_out = "UPDATE tree SET leaves = 999, max_log_prob = -99 WHERE conversation_id = 5"
        with with_trees(tmp_path / "t.wb", 12) as project:
            project.write(lambda conn: conn.execute(stands_out))
            rows = sorted(measured(project), key=lambda row: -row.leaves)
            async with listed(project, (80, 24)) as pilot:
                assert "12 trees · half have " in lines(pilot)[1]
                assert names(pilot) == [f"warranty/{row.conversation_id:03d}" for row in rows]
                assert f"▲ {rows[0].leaves}" in lines(pilot)[3]

                screen = pilot.app.screen
                assert isinstance(screen, TreeSetScreen)
                await press(pilot, "u")
                await until(pilot, lambda: len(screen.table.ids) < 12)
                assert names(pilot)[0].endswith("5")
                await press(pilot, "u")
                await until(pilot, lambda: len(screen.table.ids) == 12)

    async def test_opening(self, tmp_path: Path) -> None:
        """Enter opens the tree under the cursor; where there is none, it says why."""
        with with_trees(tmp_path / "t.wb", 3) as project:
            run_id = run_of(project, CONFIG)
            none = TreeRow(3, 2, "cafe", run_id, "longer than the context")
            store(project, [TreeEntry(none, None)])
            async with listed(project) as pilot:
                assert "2 trees" in lines(pilot)[1]
                assert "1 without" in lines(pilot)[1]
                await press(pilot, "end", "enter")
                assert not isinstance(pilot.app.screen, TreeScreen)
                assert "longer than the context" in text(pilot)
                await press(pilot, "home", "enter")
                assert isinstance(pilot.app.screen, TreeScreen)

    async def test_the_conversations_behind_the_trees(self, tmp_path: Path) -> None:
        """o reads the conversation of the tree under the cursor, J judges just those listed, and escape leads back."""
        with with_trees(tmp_path / "t.wb", 3) as project:
            async with listed(project) as pilot:
                trees = pilot.app.screen
                assert isinstance(trees, TreeSetScreen)
                await press(pilot, "down")
                at = trees.table.cursor_id
                await press(pilot, "o")
                reader = pilot.app.screen
                assert isinstance(reader, ReaderScreen)
                await press(pilot, "escape", "J")
                triage = pilot.app.screen
                assert isinstance(triage, TriageScreen)
                assert triage.only is not None
                assert sorted(triage.only.ids) == [1, 2, 3]
                await press(pilot, "escape")
                await until(pilot, lambda: pilot.app.screen is trees)
                assert trees.table.cursor_id == at


class TestRun:
    async def test_empty_and_the_dialog(self) -> None:
        """Without trees it says what to do; r asks for alpha and the place, tells the cost, starts what was asked."""
        made = sample_project()
        async with opened(made, mode="4") as pilot:
            assert "No response trees yet" in text(pilot)
            await press(pilot, "r")
            assert "36 conversations" in text(pilot)
            assert "smollm2-135m" in text(pilot)
            await press(pilot, *".005", "down")
            await press(pilot, "right", "enter")
            await until(pilot, lambda: len(made.trees.started) > 0)
            (request,) = made.trees.started
            assert request == TreeRequest(replace(TreeRequest().tree, alpha=0.005), "end")


class TestWhatStandsOut:
    def items(self, count: int) -> list[TreeItem]:
        base = TreeRow(1, 1, "", 0, None)
        return [
            TreeItem(replace(base, conversation_id=n, leaves=n, max_log_prob=-float(n)), f"c{n}")
            for n in range(1, count + 1)
        ]

    def test_a_tenth(self) -> None:
        """Of 100 trees the ten with the most leaves, and the ten least sure of their best answer."""
        items = self.items(100)
        deciles = Deciles.from_items(items)
        assert sum(deciles.has_many_leaves(item.row) for item in items) == 10
        assert sum(deciles.is_unsure(item.row) for item in items) == 10

    def test_the_table_of_the_paper(self) -> None:
        """Of trees that stand out by both figures: branches, log-probability, state and goal, most branches first."""
        items = [replace(item, goal="a trip") for item in self.items(40)]
        items[39] = replace(items[39], row=replace(items[39].row, max_log_prob=-0.1))
        found = unusual(items)
        assert [(one.name, one.row.leaves, one.row.max_log_prob) for one in found] == [
            ("c39", 39, -39.0), ("c38", 38, -38.0), ("c37", 37, -37.0),
        ]  # fmt: skip
        assert unusual_lines(found)[0] == {
            "id": "c39", "step": 1, "branches": 39, "max_logprob": -39.0, "completed": "unscored", "goal": "a trip",
        }  # fmt: skip
        assert unusual(self.items(MIN_TREES_FOR_DECILES - 1)) == []
