"""The merge desk on what the paper's run decided."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from engine.project.project import Project
from screens.merge_review.screen import MergeDeskScreen
from tests.engine.goals import paper_project
from tests.engine.goals.service.goal_project import stored_review
from tests.screens.driving import press, settle, text, until
from tests.screens.real_store import services
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


async def test_the_papers_run_is_reviewed_by_keys(tmp_path: Path) -> None:
    """What the model merged in the paper's run comes up one by one with its reply: n takes a merge apart, u brings it
    back but undoes nothing of the model, y agrees; the counts say who decided."""
    path = tmp_path / "paper.wb"
    paper_project.make(path)
    with paper_project.scripted_model():
        paper_project.run(path)
    with Project.open(path) as project:
        review = stored_review(project)
        taxis, wrong = [decision for decision in review.to_review() if decision.kind == "merge"]
        async with on_file(project, "6", (160, 48)) as pilot:
            shown = " ".join(text(pilot).split())
            assert "2 merged by the model, 0 by you" in shown
            assert "said yes" in shown
            assert "the model merged these; n takes them apart" in shown
            assert set(pair(pilot) or ()) == set(taxis.sides)
            await press(pilot, "u")
            assert "nothing of yours to undo" in " ".join(text(pilot).split())
            await press(pilot, "y")
            assert "1 merged by the model, 1 by you" in " ".join(text(pilot).split())
            assert set(pair(pilot) or ()) == set(wrong.sides)
            await press(pilot, "n")
            assert "0 merged by the model, 1 by you" in " ".join(text(pilot).split())
            assert {taxis.made_groups[0]} < {
                group.id for group in stored_review(project).goals.groups()
            }
            await press(pilot, "u")
            assert "1 merged by the model, 1 by you" in " ".join(text(pilot).split())
            assert set(pair(pilot) or ()) == set(wrong.sides)
            await press(pilot, "y")
            await until(pilot, lambda: "the model kept these apart" in text(pilot))
            await press(pilot, "n")
            await press(pilot, "H")
            assert "agreed to keep apart" in text(pilot)
            left = len(stored_review(project).to_review())
            assert f"{left} of a model to review" in text(pilot)
