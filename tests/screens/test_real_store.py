"""The screens on a real project file: what is shown is what is stored, and verdicts end up in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message, Verdict
from engine.conversations.tables import imports
from engine.formats.records import Parsed
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from screens.widgets.row_table import RowTable
from tests.screens.driving import lines, press, settle, text
from tests.screens.project import ScreenProject
from workbench.app import WorkbenchApp


def fill(path: Path, count: int = 500) -> Project:
    """A project file with conversations that differ in words and length."""
    project = Project.open(path, create=True)
    records = [
        Parsed(
            line=number,
            raw=f'{{"id": "c{number}"}}'.encode(),
            conversation=Conversation(
                f"c{number}",
                (
                    Message("user", f"Please find order {number}" + " lamp" * (number % 5 == 0)),
                    Message("assistant", "Which name is it under?"),
                    Message("user", "Miller."),
                    Message("assistant", "Found it; it leaves tomorrow."),
                ),
            ),
        )
        for number in range(1, count + 1)
    ]
    source = project.write(
        lambda conn: imports.put_source(conn, "a.jsonl", "a.jsonl", "uniform", "test")
    )
    project.write(lambda conn: imports.add_records(conn, source, records))
    return project


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the project file is."""
    return tmp_path / "real.wb"


def services(project: Project) -> OpenProject:
    """What the screens of an open project file are handed, where no model is."""
    return ScreenProject(project, "real.wb").services()


async def test_session_on_a_project_file(path: Path) -> None:
    """Search, open, read on, look at the original, judge, undo, judge: all on the real file."""
    with fill(path) as project:
        app = WorkbenchApp(services(project), lambda listener: lambda: None)
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot)
            await press(pilot, "2")
            assert "500 of 500" in lines(pilot)[1]
            assert "Please find order 1" in text(pilot)

            await press(pilot, "slash", *"lamp", "enter")
            assert "100 of 500" in lines(pilot)[1]

            await press(pilot, "s", "down", "enter", "home", "enter", "right")
            assert "2 of 100" in lines(pilot)[0]
            await press(pilot, "o")
            assert '{"id": "c' in text(pilot)
            await press(pilot, "escape", "q", "3")
            assert "1 of 500" in lines(pilot)[0]

            await press(pilot, "i", "c", "u", "m")
            assert "○ 1  ◐ 1" in lines(pilot)[0]

    with Project.open(path, read_only=True) as again:
        assert TriageService(again).tally()[Verdict.NO] == 1
        assert TriageService(again).tally()[Verdict.UNSURE] == 1


async def test_end_of_the_list(path: Path) -> None:
    """The last row of the order is read by key and shown."""
    with fill(path) as project:
        app = WorkbenchApp(services(project), lambda listener: lambda: None)
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot)
            await press(pilot, "2", "end")

            assert pilot.app.screen.query_one("#list", RowTable).cursor_index == 499
            assert "Please find order 500" in text(pilot)
