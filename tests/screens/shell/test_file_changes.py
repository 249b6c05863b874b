"""What the screens do when another program writes, moves or replaces the project file."""

from __future__ import annotations

from pathlib import Path

from engine.base.conversation import Verdict
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from screens.shell.dialogs import ChoiceDialog
from tests.screens.driving import lines, press, settle, text, until
from tests.screens.real_store import fill
from workbench.app import WorkbenchApp


def judge(project: Project, *ids: int) -> None:
    """Gives a verdict on conversations."""
    for number in ids:
        TriageService(project).give(number, Verdict.YES)


async def test_a_file_that_is_moved_is_no_longer_written(tmp_path: Path) -> None:
    """The first verdict after a rename makes the screens read-only, with the reason, and they offer the new file."""
    path, moved = tmp_path / "real.wb", tmp_path / "moved.wb"
    fill(path, 20).close()
    with OpenProject(path) as workspace:
        app = WorkbenchApp(workspace, workspace.subscribe)
        async with app.run_test(size=(140, 36)) as pilot:
            await settle(pilot)
            await press(pilot, "3", "c")
            path.rename(moved)
            await press(pilot, "c")
            await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
            await until(pilot, lambda: "Save all that is stored" in text(pilot))
            assert "read-only: real.wb was moved to moved.wb while it was open" in lines(pilot)[0]
            depth = len(app.screen_stack)
            workspace.file.look()
            await settle(pilot)
            assert len(app.screen_stack) == depth  # it is said once
            await press(pilot, "enter")
            await until(pilot, lambda: app.next_project is not None)
        assert app.next_project == str(moved)
        assert workspace.project.read_only == "real.wb was moved to moved.wb while it was open"
    with Project.open(moved, read_only=True) as again:
        assert TriageService(again).tally()[Verdict.YES] == 1


async def test_all_that_is_open_can_be_saved(tmp_path: Path) -> None:
    """When the file is deleted, the screens say so by themselves, and save all that is stored as a new file; who
    turns that down is asked again before the program ends.
    """
    path, saved = tmp_path / "real.wb", tmp_path / "saved.wb"
    fill(path, 20).close()
    with OpenProject(path) as workspace:
        app = WorkbenchApp(workspace, workspace.subscribe)
        async with app.run_test(size=(140, 36)) as pilot:
            await settle(pilot)
            await press(pilot, "3", "c")
            path.unlink()
            workspace.file.look()
            await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
            await press(pilot, "enter", "escape")
            await until(pilot, lambda: "Stay here" in text(pilot))
            await press(pilot, "escape", "q")
            await until(pilot, lambda: "Quit. What was stored" in text(pilot))
            await press(pilot, "enter", *str(saved), "enter")
            await until(pilot, lambda: app.next_project is not None)
        assert app.next_project == str(saved)
    with Project.open(saved) as again:
        assert TriageService(again).tally()[Verdict.YES] == 1


async def test_a_second_screen_shows_what_the_first_writes_and_takes_over(tmp_path: Path) -> None:
    """Read-only screens follow what another program writes, and offer to write when that one has quit."""
    path = tmp_path / "real.wb"
    first = fill(path, 20)
    with OpenProject(path) as workspace:
        assert workspace.project.waits_for_writer
        app = WorkbenchApp(workspace, workspace.subscribe)
        async with app.run_test(size=(140, 36)) as pilot:
            await settle(pilot)
            await press(pilot, "3")
            workspace.file.look()
            judge(first, 1, 2, 3)
            workspace.file.look()
            await until(pilot, lambda: "● 3" in lines(pilot)[0])
            assert not isinstance(app.screen, ChoiceDialog)
            first.close()
            workspace.file.look()
            await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
            await press(pilot, "enter")
            await until(pilot, lambda: app.next_project is not None)
        assert app.next_project == str(path)
    with OpenProject(path) as workspace:
        assert workspace.project.read_only is None
