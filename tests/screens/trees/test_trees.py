"""The tree explorer on a real project file: walking, listing, proving, growing on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.trees import tables as stored
from engine.trees.growth import Budget
from engine.trees.options import TreeOptions
from engine.trees.records import TreeRow
from screens.trees.screen import TreeScreen
from screens.widgets.row_table import ItemTable
from tests.screens.driving import lines, press, settle, text, until
from tests.screens.exploring import LAST, explored, layout, view
from tests.screens.trees.tree_growth import GrowableProject
from tests.screens.trees.tree_project import CONFIG, entry, grown, run_of, store, with_trees
from workbench.app import WorkbenchApp


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[GrowableProject]:
    with with_trees(tmp_path / "trees.wb", LAST) as project:
        made = GrowableProject(project)
        yield made
        made.runner.close()


def row_of(project: Project, conversation_id: int) -> TreeRow:
    """The stored measures of a conversation's tree."""
    with project.reading() as conn:
        (row,) = stored.trees(conn, conversation_id)
    return row


class TestWalking:
    async def test_what_is_shown_at_first(self, growing: GrowableProject) -> None:
        """Name, account, measures, the best branch first and what was said, on a small terminal."""
        async with explored(growing, (80, 24)) as pilot:
            shown = lines(pilot)
            assert "step 2 of warranty" in shown[0]
            assert "covered ." in shown[1]
            assert "unexpanded .00" in shown[1]
            assert "leaves, no whole answer · " in shown[2]
            assert "entropy" in shown[2]
            assert "◀ said so far" in text(pilot)
            first = layout(pilot).segments[0]
            assert f" {first.probability:.2f}"[2:] in shown[3]

    async def test_folding_and_going(self, growing: GrowableProject) -> None:
        """Arrows fold, n goes from fork to fork, s to the sibling, b to the best answer, a to what was said."""
        async with explored(growing) as pilot:
            tree = layout(pilot)
            forks = [at for at, segment in enumerate(tree.segments) if segment.forks]
            await press(pilot, "C", "home")
            folded = next(at for at in forks if tree.segments[at].parent < 0)
            line = 3 + tree.branches(-1).index(folded)
            assert f"({tree.segments[folded].leaves})" in lines(pilot)[line]

            await press(pilot, *["n"] * 2)
            assert view(pilot).cursor == forks[1 if forks[0] else 2]
            at = view(pilot).cursor
            assert at is not None
            await press(pilot, "s")
            assert view(pilot).cursor == tree.sibling(at)
            await press(pilot, "b")
            assert view(pilot).cursor == tree.best_leaf()
            await press(pilot, "a")
            assert view(pilot).cursor == tree.recorded_end()
            await press(pilot, "left")
            assert view(pilot).cursor == tree.segments[tree.recorded_end() or 0].parent

    async def test_hostile_tokens(self, growing: GrowableProject) -> None:
        """Control sequences and line turners of tokens are drawn as signs, in the tree, the lists and the tokens."""
        async with explored(growing) as pilot:
            await press(pilot, "E")
            folding = view(pilot).folding
            assert folding is not None
            folding.unfold_all(-1)
            hostile = layout(pilot).leaves_with("AAAA")
            view(pilot).go_to(hostile[0])
            for keys in ((), ("t",), ("escape", "l")):
                await press(pilot, *keys)
                assert "\x1b" not in text(pilot)
                assert "\u202e" not in text(pilot)
                assert "AAAA" in text(pilot)

    async def test_find_in_the_answers(self, growing: GrowableProject) -> None:
        """The find line goes through the leaves that hold a text, and says how many."""
        async with explored(growing) as pilot:
            hits = layout(pilot).leaves_with("years")
            await press(pilot, "slash", *"years", "enter")
            assert f"1 of {len(hits)}" in text(pilot)
            assert view(pilot).cursor == hits[0]
            await press(pilot, "N")
            assert view(pilot).cursor == hits[1]
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, TreeScreen)
            await press(pilot, "escape")
            assert not isinstance(pilot.app.screen, TreeScreen)


class TestLists:
    async def test_answers(self, growing: GrowableProject) -> None:
        """Complete answers stand by falling probability; enter goes to the leaf of one."""
        async with explored(growing) as pilot:
            answers = growing.trees.answers(LAST, 2, CONFIG.config_hash)
            await press(pilot, "l")
            assert f".{round(answers[0].probability * 1000):03d}" in text(pilot)
            await press(pilot, "down", "enter")
            segment = view(pilot).segment
            assert segment is not None
            assert answers[1].leaves[0] in segment.nodes

    async def test_tokens(self, growing: GrowableProject) -> None:
        """The token view has a line for each token of the path, with its id and bytes."""
        async with explored(growing) as pilot:
            await press(pilot, "b", "t")
            at = view(pilot).cursor
            assert at is not None
            columns = layout(pilot).columns
            for node in layout(pilot).path_nodes(at):
                shown = [line for line in lines(pilot) if f" {columns.token[node]} " in line]
                assert any(columns.spelling[node][:6].hex(" ") in line for line in shown)

    async def test_export_and_copy(self, growing: GrowableProject, tmp_path: Path) -> None:
        """X writes the tree as one JSON line that `export trees` would write, y copies the text of the path."""
        target = tmp_path / "one.jsonl"
        async with explored(growing) as pilot:
            await press(pilot, "b", "y")
            assert pilot.app.clipboard == layout(pilot).path_text(view(pilot).cursor or 0)
            await press(pilot, "X")
            pilot.app.screen.query_one("Input").value = str(target)  # type: ignore[attr-defined]
            await press(pilot, "enter")
        line = json.loads(target.read_text("utf-8"))
        assert line["id"] == "warranty/012"
        assert line["answers"]
        assert line["covered"] + line["pruned"] + line["unexpanded"] == pytest.approx(1, abs=1e-4)


class TestProving:
    async def test_bounds(self, growing: GrowableProject) -> None:
        """p takes a property and shows the interval that the tree proves; nonsense is refused with what would do."""
        async with explored(growing) as pilot:
            await press(pilot, "p", *"contains", "space", *"years", "enter")
            bounds = growing.trees.bounds(LAST, 2, CONFIG.config_hash, "contains years")
            assert 0 < bounds.low < bounds.high <= 1
            assert f"P(contains years) in [.{round(bounds.low * 100):02d}, " in lines(pilot)[2]

            await press(pilot, "p", *["backspace"] * 14, *"hm", "enter")
            assert "is no property of a response" in text(pilot)


class TestGrowing:
    async def test_grow_here(self, growing: GrowableProject) -> None:
        """g lowers alpha below the segment under the cursor only; the cursor stays, the rest is as it was."""
        async with explored(growing) as pilot:
            before = layout(pilot)
            view(pilot).go_to(before.leaves_with("")[0])
            segment = view(pilot).segment
            assert segment is not None
            await press(pilot, "g")
            assert "to alpha" in text(pilot)
            await press(pilot, *"0.0002", "enter")
            await until(pilot, lambda: not growing.runner.active())
            await settle(pilot)
            after = layout(pilot)
            assert view(pilot).segment is not None
            now = view(pilot).segment
            assert now is not None
            assert now.nodes[0] == segment.nodes[0]
            assert now.leaves > segment.leaves
            cursor, folding = view(pilot).cursor, view(pilot).folding
            assert cursor is not None
            assert folding is not None
            assert folding.is_open(cursor)
            added = range(len(before.columns.parent), len(after.columns.parent))
            assert added
            for node in added:
                while node >= len(before.columns.parent):
                    node = after.columns.parent[node]
                at = before.of_node(node)
                assert at is not None
                assert segment.nodes[0] in before.path_nodes(at)
        assert row_of(growing.project, LAST).nodes == len(after.columns.parent)

    async def test_stopped_growth_is_kept(self, tmp_path: Path) -> None:
        """Escape stops growth; what has grown until then is stored, the account sums to one, and G goes on from it."""
        with with_trees(tmp_path / "cut.wb", 2) as project:
            run_id = run_of(project, CONFIG)
            options = TreeOptions(0.004, max_tokens=6)
            begun = grown(b"Order 2?", options, Budget(nodes=4))
            store(project, [entry(2, begun, run_id)])
            growing = GrowableProject(project)
            growing.process.hold.clear()
            app = WorkbenchApp(growing.services(), growing.subscribe)
            async with app.run_test(size=(120, 36), notifications=True) as pilot:
                await settle(pilot)
                await press(pilot, "4")
                app.screen.query_one("#trees", ItemTable).move_to_key(2 << 20 | 2)
                await press(pilot, "enter", "G")
                await until(pilot, growing.process.reading.is_set)
                assert "esc stops it" in text(pilot)
                await press(pilot, "escape")
                await until(pilot, lambda: not growing.runner.active())
                await settle(pilot)
                assert isinstance(app.screen, TreeScreen)
                assert "esc stops it" not in text(pilot)
                stopped = row_of(project, 2)
                assert 0 < stopped.unexpanded < begun.tree.account().unexpanded
                assert stopped.covered + stopped.pruned + stopped.unexpanded == pytest.approx(1)

                growing.process.cancelled.clear()
                growing.process.hold.set()
                await press(pilot, "G")
                await until(pilot, lambda: not growing.runner.active())
                await settle(pilot)
            growing.runner.close()
            whole = row_of(project, 2)
            assert whole.leaves > stopped.leaves
            assert whole.unexpanded == 0
            assert whole.covered + whole.pruned == pytest.approx(1, abs=1e-4)


class TestFromTheReader:
    async def test_the_tree_of_a_turn(self, growing: GrowableProject) -> None:
        """t opens the tree of the conversation that is read; escape goes back to it."""
        app = WorkbenchApp(growing.services(), growing.subscribe)
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            await settle(pilot)
            await press(pilot, "2", "down", "enter", "t")
            assert isinstance(app.screen, TreeScreen)
            assert "step 2 of warranty/002" in lines(pilot)[0]
            await press(pilot, "escape")
            assert "2 of 12" in lines(pilot)[0]
