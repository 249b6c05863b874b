"""The merge desk on a project that is clustered without labels: splits of the pair in front, and the room of cards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from engine.project.project import Project
from screens.merge_review.screen import MergeDeskScreen
from tests.engine.goals import paper_project
from tests.engine.goals.service.goal_project import cluster, fill_topics, stored_review
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


async def test_a_split_keeps_the_pair(tmp_path: Path) -> None:
    """S shows how k-means would split a group into as many parts as one likes. After it the largest part stands
    beside the other group, and the desk names both sides as they stand now, so that a key for A is not meant for the
    former A."""
    path = tmp_path / "goals.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project, k=4)
        async with on_file(project, "6") as pilot:
            before = pair(pilot)
            assert before is not None
            await press(pilot, "S", "a")
            assert "into 2: " in text(pilot)
            await press(pilot, "right")
            assert "into 3: " in text(pilot)
            await press(pilot, "left", "enter")
            review = stored_review(project)
            goals = review.goals
            after = pair(pilot)
            assert after is not None
            assert before[1] in after
            assert before[0] not in after
            given = review.history()[0]
            part = next(key for key in after if key != before[1])
            assert part in given.made
            sizes = {group.id: group.size for group in goals.groups()}
            assert sizes[part] == max(sizes[key] for key in given.made)
            labels = {group.id: group.label for group in goals.groups()}
            a, b = (labels[key] for key in after)
            await until(pilot, lambda: "The groups changed. In front now" in text(pilot))
            shown = " ".join(text(pilot).split())
            assert a[:12] in shown
            assert b[:12] in shown
            await press(pilot, "r")
            assert f"A      {sizes[after[0]]}  {a[:10]}" in text(pilot)


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
            assert {taxis.made[0]} < {group.id for group in stored_review(project).goals.groups()}
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
