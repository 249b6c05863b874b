"""The merge desk on what the paper's run decided."""

from __future__ import annotations

from pathlib import Path

from engine.project.project import Project
from tests.engine.goals import paper_project
from tests.screens.driving import press, settle, text, until
from tests.screens.real_store import services
from workbench.app import WorkbenchApp


async def test_the_papers_run_is_reviewed_by_keys(tmp_path: Path) -> None:
    """What the model merged in the paper's run comes up one by one with its reply: y agrees, n takes a merge apart, u
    undoes nothing of the model; the counts say who decided."""
    path = tmp_path / "paper.wb"
    paper_project.make(path)
    with paper_project.scripted_model():
        paper_project.run(path)
    with Project.open(path) as project:
        app = WorkbenchApp(services(project), lambda listener: lambda: None)
        async with app.run_test(size=(160, 48), notifications=True) as pilot:
            await settle(pilot)
            await press(pilot, "6")
            shown = " ".join(text(pilot).split())
            assert "2 merged by the model, 0 by you" in shown
            assert "said yes" in shown
            assert "the model merged these; n takes them apart" in shown
            await press(pilot, "u")
            assert "nothing of yours to undo" in " ".join(text(pilot).split())
            await press(pilot, "y")
            assert "1 merged by the model, 1 by you" in " ".join(text(pilot).split())
            await press(pilot, "n")
            assert "0 merged by the model, 1 by you" in " ".join(text(pilot).split())
            await until(pilot, lambda: "the model kept these apart" in text(pilot))
            await press(pilot, "n")
            await press(pilot, "H")
            assert "agreed to keep apart" in text(pilot)
