"""Two trees side by side: chosen among those that are there, or grown for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import number_format
from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.options import Transform, TreeOptions
from screens.trees.growing import ComparisonDialog
from tests.screens.driving import lines, press, settle, text, until
from tests.screens.exploring import LAST, explored, panes, view
from tests.screens.trees.tree_growth import GrowableProject
from tests.screens.trees.tree_project import CONFIG, entry, grown, run_of, store, with_trees

OTHER = replace(CONFIG, config_hash="beef", model="toy-two", alpha=0.1)


def beside(path: Path) -> Project:
    """A project in which the last conversation has trees of two configurations, which begin alike."""
    project = with_trees(path, LAST)
    warmer = TreeOptions(0.01, max_tokens=6, transform=Transform(temperature=1.3))
    tree = grown(b"Order 12?", warmer)
    store(project, [entry(LAST, tree, run_of(project, OTHER), OTHER)], OTHER)
    project.write(lambda conn: trees.choose(conn, CONFIG.config_hash))
    return project


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[GrowableProject]:
    with beside(tmp_path / "trees.wb") as project:
        made = GrowableProject(project)
        yield made
        made.runner.close()


class TestBeside:
    async def test_chosen_and_taken_away(self, growing: GrowableProject) -> None:
        """c asks beside which tree; two trees stand with their accounts and what lies between them; escape takes the
        second away."""
        async with explored(growing, (140, 36)) as pilot:
            await press(pilot, "c")
            assert "toy-two" in text(pilot)
            assert "grow another" in text(pilot)
            await press(pilot, "enter")
            assert len(panes(pilot)) == 2
            found = growing.trees.compare(LAST, 2, CONFIG.config_hash, OTHER.config_hash)
            shown = text(pilot)
            assert f"{found.answers} answers in both" in shown
            assert "total variation in [" in shown
            assert sum(line.count("covered .") for line in lines(pilot)) == 2
            assert "≡" in shown
            await press(pilot, "escape")
            assert len(panes(pilot)) == 1
            assert "total variation" not in text(pilot)

    async def test_differences(self, growing: GrowableProject) -> None:
        """A line says how much more probable its way is here than in the other tree; `only` where that has none."""
        async with explored(growing, (160, 40)) as pilot:
            await press(pilot, "c", "enter")
            first, second = (pane.view for pane in panes(pilot))
            folding, other = first.folding, second.layout_shown
            assert folding is not None
            assert other is not None
            twins = growing.trees.compare(
                LAST, 2, CONFIG.config_hash, OTHER.config_hash
            ).first.twins
            shown = [strip.text.split()[-1] for strip in map(first.render_line, range(20))]
            seen = set()
            for number, last in zip(folding.lines, shown, strict=False):
                segment = folding.layout.segments[number]
                twin = twins[segment.nodes[0]]
                if twin < 0:
                    assert last == "only"
                else:
                    there = math.exp(other.columns.path[twin])
                    assert last == number_format.difference(segment.probability - there)
                seen.add(last)
            assert "only" in seen
            assert len(seen) > 2

    async def test_to_the_same_text(self, growing: GrowableProject) -> None:
        """tab goes to the same text in the other tree, and back."""
        async with explored(growing, (140, 36)) as pilot:
            await press(pilot, "c", "enter", "b")
            shared = next(iter(view(pilot)._matches.shared))  # type: ignore[union-attr]
            view(pilot).go_to_node(shared)
            first, second = panes(pilot)
            here = first.view.cursor
            assert here is not None
            assert first.view.layout_shown is not None
            words = first.view.layout_shown.path_text(here)
            await press(pilot, "tab")
            assert second.view.has_focus
            there = second.view.cursor
            assert there is not None
            assert second.view.layout_shown is not None
            assert second.view.layout_shown.path_text(there) == words
            await press(pilot, "tab")
            assert first.view.has_focus
            assert first.view.cursor == here

    async def test_answers_of_both(self, growing: GrowableProject) -> None:
        """The list of answers says how probable each is in the other tree, and by how much that differs."""
        async with explored(growing, (140, 36)) as pilot:
            await press(pilot, "c", "enter", "l")
            assert "in the other" in text(pilot)
            found = growing.trees.compare(LAST, 2, CONFIG.config_hash, OTHER.config_hash)
            assert f"{found.answers} of them in the other tree too" in text(pilot)


class TestGrown:
    async def test_with_another_model(self, growing: GrowableProject) -> None:
        """c, grow another: model and alpha are asked, the cost is said, and what has grown stands beside this tree;
        the set that is shown stays."""
        async with explored(growing, (140, 40)) as pilot:
            await press(pilot, "c", "down", "enter")
            assert isinstance(pilot.app.screen, ComparisonDialog)
            assert "1 conversation" in text(pilot)
            await press(pilot, "down")
            assert "with toy-two" in " ".join(text(pilot).split())
            await press(pilot, "enter")
            await until(pilot, lambda: not growing.runner.active())
            await settle(pilot)
            assert len(panes(pilot)) == 2
            opened = panes(pilot)[1].opened
            assert opened is not None
            assert (opened.item.row.model, opened.item.row.step) == ("toy-two", 2)
            assert opened.item.row.alpha == CONFIG.alpha
            assert growing.trees.shown() == CONFIG.config_hash
            assert "total variation" in text(pilot)
