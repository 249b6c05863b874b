"""A picture of a tree of the toy model; look at the report before accepting a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine.base.errors import UsageError
from engine.completeness.records import Mode
from engine.trees.records import item_id
from screens.widgets.row_table import ItemTable
from tests.screens.driving import press, settle
from tests.screens.real_store import services
from tests.screens.stand_ins import RecordedJobs
from tests.screens.trees.tree_project import with_trees
from workbench.app import WorkbenchApp


class NoScoring(RecordedJobs):
    """Jobs of a project whose model cannot score; the overview says why in the place of a cost."""

    def scoring_mode(self) -> Mode:
        raise UsageError("This model cannot score.")


def test_picture(tmp_path: Path, snap_compare: Any) -> None:
    """One tree."""
    with with_trees(tmp_path / "p.wb") as project:

        async def drive(pilot: Pilot[None]) -> None:
            await settle(pilot)
            await press(pilot, "4")
            pilot.app.screen.query_one("#trees", ItemTable).move_to_key(item_id(12, 2))
            await press(pilot, "enter")

        made = services(project)
        made.jobs = NoScoring(project)
        app = WorkbenchApp(made, lambda listener: lambda: None)
        assert snap_compare(app, terminal_size=(120, 34), run_before=drive)
