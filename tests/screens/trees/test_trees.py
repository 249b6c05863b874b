"""The tree explorer on a real project file: walking, listing, proving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.project.project import Project
from engine.trees.records import item_id
from screens.trees.screen import TreeScreen
from screens.trees.tree_view import TreeLayout, TreeView
from screens.widgets.row_table import ItemTable
from tests.screens.driving import lines, press, settle, text
from tests.screens.real_store import services
from tests.screens.trees.test_list import listed
from tests.screens.trees.tree_project import CONFIG, with_trees, with_turns
from workbench.app import WorkbenchApp

LAST = 12
"""The conversation whose tree is largest, and so the first in the list."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with with_trees(tmp_path / "trees.wb", LAST) as made:
        yield made


@asynccontextmanager
async def explored(
    project: Project, size: tuple[int, int] = (120, 36), place: tuple[int, int] = (LAST, 2)
) -> AsyncIterator[Pilot[None]]:
    """The app with the tree at a step of a conversation open."""
    async with listed(project, size) as pilot:
        table = pilot.app.screen.query_one("#trees", ItemTable)
        table.move_to_key(item_id(*place))
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, TreeScreen)
        yield pilot


def view(pilot: Pilot[None]) -> TreeView:
    """The lines of the tree."""
    screen = next(s for s in pilot.app.screen_stack if isinstance(s, TreeScreen))
    return screen.pane.view


def layout(pilot: Pilot[None]) -> TreeLayout:
    """Its segments."""
    shown = view(pilot).layout_shown
    assert shown is not None
    return shown


class TestWalking:
    async def test_what_is_shown_at_first(self, project: Project) -> None:
        """Name, account, measures, the best branch first and what was said, on a small terminal."""
        async with explored(project, (80, 24)) as pilot:
            shown = lines(pilot)
            assert "step 2 of warranty" in shown[0]
            assert "covered ." in shown[1]
            assert "unexpanded .00" in shown[1]
            assert "leaves, no whole answer · " in shown[2]
            assert "entropy" in shown[2]
            first = layout(pilot).segments[0]
            assert f" {first.probability:.2f}"[2:] in shown[3]

    async def test_folding_and_going(self, project: Project) -> None:
        """Arrows fold, n goes from fork to fork, b to the best answer, left to where it goes on from. Control sequences
        and line turners of tokens are drawn as signs, in the tree and the list."""
        async with explored(project) as pilot:
            tree = layout(pilot)
            forks = [at for at, segment in enumerate(tree.segments) if segment.forks]
            folded = next(at for at in forks if tree.segments[at].parent < 0)
            view(pilot).go_to(folded)
            await press(pilot, "left")
            line = 3 + tree.branches(-1).index(folded)
            assert f"({tree.segments[folded].leaves})" in lines(pilot)[line]

            await press(pilot, "home", *["n"] * 2)
            assert view(pilot).cursor == forks[1 if forks[0] else 2]
            await press(pilot, "b")
            assert view(pilot).cursor == tree.best_leaf()

            leaves = [at for at, segment in enumerate(tree.segments) if not segment.forks]
            inside = next(at for at in leaves if tree.segments[at].parent >= 0)
            view(pilot).go_to(inside)
            await press(pilot, "left")
            assert view(pilot).cursor == tree.segments[inside].parent

            hostile = next(at for at, one in enumerate(tree.segments) if "AAAA" in one.text)
            view(pilot).go_to(hostile)
            for keys in ((), ("l",)):
                await press(pilot, *keys)
                assert "\x1b" not in text(pilot)
                assert "\u202e" not in text(pilot)
                assert "AAAA" in text(pilot)


class TestLists:
    async def test_answers_and_bounds(self, project: Project) -> None:
        """y copies the text of the path. Complete answers stand by falling probability; enter goes to the leaf of one.
        p takes a property and shows the interval that the tree proves; nonsense is refused with what would do."""
        async with explored(project) as pilot:
            await press(pilot, "b", "y")
            assert pilot.app.clipboard == layout(pilot).path_text(view(pilot).cursor or 0)

            answers = services(project).trees.answers(LAST, 2, CONFIG.config_hash)
            await press(pilot, "l")
            assert f".{round(answers[0].probability * 1000):03d}" in text(pilot)
            await press(pilot, "down", "enter")
            segment = view(pilot).segment
            assert segment is not None
            assert answers[1].leaves[0] in segment.nodes

            await press(pilot, "p", *"contains", "space", *"years", "enter")
            bounds = services(project).trees.bounds(LAST, 2, CONFIG.config_hash, "contains years")
            assert 0 < bounds.low < bounds.high <= 1
            assert f"P(contains years) in [.{round(bounds.low * 100):02d}, " in lines(pilot)[2]
            await press(pilot, "p", *["backspace"] * 14, *"hm", "enter")
            assert "is no property of a response" in text(pilot)


class TestAlong:
    async def test_step_by_step(self, tmp_path: Path) -> None:
        """[ and ] go to the trees of the steps before and after."""
        with with_turns(tmp_path / "turns.wb") as project:
            async with explored(project, (80, 24), (2, 4)) as pilot:
                assert "step 4 of warranty" in lines(pilot)[0]
                await press(pilot, "right_square_bracket")
                assert "step 6 of warranty" in lines(pilot)[0]
                await press(pilot, "right_square_bracket")
                assert "no tree further" in text(pilot)
                await press(pilot, "left_square_bracket", "left_square_bracket")
                assert "step 2 of warranty" in lines(pilot)[0]


class TestFromTheReader:
    async def test_the_tree_of_a_turn(self, project: Project) -> None:
        """t opens the tree of the conversation that is read; escape goes back to it."""
        app = WorkbenchApp(services(project), lambda listener: lambda: None)
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            await settle(pilot)
            await press(pilot, "2", "down", "enter", "t")
            assert isinstance(app.screen, TreeScreen)
            assert "step 2 of warranty/002" in lines(pilot)[0]
            await press(pilot, "escape")
            assert "2 of 12" in lines(pilot)[0]
