"""Trees at several steps of a conversation: how sure the model was along it, step by step and in the list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screens.driving import lines, press, text
from tests.screens.exploring import explored
from tests.screens.trees.test_list import listed, measured, names
from tests.screens.trees.tree_growth import GrowableProject
from tests.screens.trees.tree_project import with_turns


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[GrowableProject]:
    with with_turns(tmp_path / "turns.wb") as project:
        made = GrowableProject(project)
        yield made
        made.runner.close()


class TestAlong:
    async def test_step_by_step(self, growing: GrowableProject) -> None:
        """[ and ] go to the trees of the steps before and after; the line of turns says where one is."""
        async with explored(growing, (80, 24), (2, 4)) as pilot:
            assert "step 4 of warranty" in lines(pilot)[0]
            assert "step 4 · 2 of 3" in lines(pilot)[1]
            await press(pilot, "right_square_bracket")
            assert "step 6 of warranty" in lines(pilot)[0]
            assert "step 6 · 3 of 3" in lines(pilot)[1]
            await press(pilot, "right_square_bracket")
            assert "no tree further" in text(pilot)
            await press(pilot, "left_square_bracket", "left_square_bracket")
            assert "step 2 · 1 of 3" in lines(pilot)[1]


class TestWorstTurn:
    async def test_one_line_a_conversation(self, growing: GrowableProject) -> None:
        """A conversation stands with its least sure turn; w lists every turn, and that turn again."""
        rows = measured(growing.project)
        worst = {
            key: min(
                (r for r in rows if r.conversation_id == key), key=lambda r: r.max_log_prob or 0
            )
            for key in {row.conversation_id for row in rows}
        }
        async with listed(growing.project, (160, 40)) as pilot:
            assert len(names(pilot)) == 3
            assert "the least sure turn of each" in lines(pilot)[1]
            for line in (line for line in lines(pilot) if line.startswith(" warranty/")):
                step = worst[int(line.split()[0].removeprefix("warranty/"))].step
                assert f" {step} " in line
            await press(pilot, "w")
            assert len(names(pilot)) == 9
            assert "every turn" in lines(pilot)[1]
            await press(pilot, "w")
            assert len(names(pilot)) == 3
