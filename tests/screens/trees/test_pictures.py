"""Pictures of the tree screens on trees of the toy model; look at the report before accepting a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.trees.records import item_id
from screens.widgets.row_table import ItemTable
from tests.screens.driving import press, settle
from tests.screens.exploring import LAST
from tests.screens.trees.tree_growth import GrowableProject
from tests.screens.trees.tree_project import with_trees, with_turns
from workbench.app import WorkbenchApp

PICTURES: dict[str, tuple[tuple[int, int], bool, list[str]]] = {
    "tree_dark": ((120, 34), False, ["enter"]),
    "worst_turns_wide_light": ((200, 60), True, []),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str, tmp_path: Path, snap_compare: Any) -> None:
    """One tree, and the list of the least sure turns."""
    size, light, keys = PICTURES[name]
    project = (with_turns if "turns" in name else with_trees)(tmp_path / "p.wb")
    with project:
        growing = GrowableProject(project)

        async def drive(pilot: Pilot[None]) -> None:
            await settle(pilot)
            await press(pilot, *(["T"] if light else []), "4")
            pilot.app.screen.query_one("#trees", ItemTable).move_to_key(item_id(LAST, 2))
            await press(pilot, *keys)

        app = WorkbenchApp(growing.services(), growing.subscribe)
        assert snap_compare(app, terminal_size=size, run_before=drive)
        growing.runner.close()
