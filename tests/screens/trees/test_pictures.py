"""Pictures of the tree screens on trees of the toy model; look at the report before accepting a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.trees.records import item_id
from screens.widgets.row_table import RowTable
from tests.screens.driving import press, settle
from tests.screens.exploring import LAST
from tests.screens.trees.test_comparison import beside
from tests.screens.trees.tree_growth import GrowableProject
from tests.screens.trees.tree_project import with_turns
from workbench.app import WorkbenchApp

PICTURES: dict[str, tuple[tuple[int, int], bool, list[str]]] = {
    "two_trees_dark": ((120, 34), False, ["enter", "c", "enter"]),
    "two_trees_narrow_light": ((80, 24), True, ["enter", "c", "enter", "tab"]),
    "worst_turns_wide_light": ((200, 60), True, []),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str, tmp_path: Path, snap_compare: Any) -> None:
    """Side by side, one at a time, along the turns, and the list of the least sure ones."""
    size, light, keys = PICTURES[name]
    project = with_turns(tmp_path / "p.wb") if "turns" in name else beside(tmp_path / "p.wb")
    with project:
        growing = GrowableProject(project)

        async def drive(pilot: Pilot[None]) -> None:
            await settle(pilot)
            await press(pilot, *(["T"] if light else []), "4")
            pilot.app.screen.query_one("#trees", RowTable).move_to_id(item_id(LAST, 2))
            await press(pilot, *keys)

        app = WorkbenchApp(growing.services(), growing.subscribe)
        assert snap_compare(app, terminal_size=size, run_before=drive)
        growing.runner.close()
