"""Choosing what to begin with where no project was named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Input

from screens.shell.app_interface import RecentProject, Shell
from screens.shell.dialogs import ErrorDialog
from screens.shell.picker import Beginning, PickerApp
from tests.screens.driving import press, settle, text

DAY = "2026-10-01T10:00:00+00:00"
HOSTILE = "/tmp/[/b][@click=app.bell]\x1b[2J.wb"
RECENT = [
    RecentProject("/data/october.wb", DAY, 5_300_000),
    RecentProject("/gone/september.wb", DAY, None),
    RecentProject(HOSTILE, DAY, 10),
]


@asynccontextmanager
async def picking(recent: list[RecentProject]) -> AsyncIterator[Pilot[Beginning | None]]:
    """The picker over these projects."""

    def forget(path: str) -> None:
        recent[:] = [project for project in recent if project.path != path]

    app = PickerApp(Shell(recent=lambda: list(recent), forget_project=forget))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)  # type: ignore[arg-type]
        yield pilot


def shown(pilot: Pilot[Beginning | None]) -> str:
    """The screen in front as text."""
    return text(pilot)  # type: ignore[arg-type]


async def keys(pilot: Pilot[Beginning | None], *names: str) -> None:
    """Presses keys."""
    await press(pilot, *names)  # type: ignore[arg-type]


async def test_recent_projects() -> None:
    """The projects are listed as given, with size and folder. One whose file is gone says so, and can be taken off the
    list; the first is opened by enter."""
    async with picking(list(RECENT)) as pilot:
        assert "october.wb" in shown(pilot)
        assert "5.3MB" in shown(pilot)
        assert "/data" in shown(pilot)
        assert "\x1b" not in shown(pilot)
        await keys(pilot, "j", "enter")
        assert isinstance(pilot.app.screen, ErrorDialog)
        await keys(pilot, "escape", "d")
        assert "september" not in shown(pilot)
        assert "october" in shown(pilot)
        await keys(pilot, "k", "enter")
    assert pilot.app.return_value == Beginning("project", "/data/october.wb")


async def test_other_path(tmp_path: Path) -> None:
    """`o` opens a project by its path; a wrong one is refused and asked again."""
    path = tmp_path / "x.wb"
    path.touch()
    async with picking([]) as pilot:
        assert "Projects that were open before" not in shown(pilot)
        await keys(pilot, "o", *"nowhere", "enter")
        assert "There is no file nowhere" in shown(pilot)
        await keys(pilot, "escape", "o")
        focused = pilot.app.focused
        assert focused is not None
        focused.value = str(path)  # type: ignore[attr-defined]
        await keys(pilot, "enter")
    assert pilot.app.return_value == Beginning("project", str(path))


async def test_names_that_no_file_can_have() -> None:
    """A name that no file can have is refused, where a project is opened and where one is made."""
    async with picking([]) as pilot:
        for name, asked in (
            ("~nobody-of-this-name/x", "on"),
            ("/", "on"),
            ("a" * 6_000, "o"),
            ("a\x00b", "o"),
        ):
            for key in asked:
                await keys(pilot, key)
                pilot.app.screen.query_one(Input).value = name
                await keys(pilot, "enter")
                assert isinstance(pilot.app.screen, ErrorDialog), (name[:30], key)
                await keys(pilot, "escape")
        await keys(pilot, "q")
    assert pilot.app.return_value is None


async def test_new_project(tmp_path: Path) -> None:
    """`n` names a new project, with the ending that projects have; one that is there is not overwritten."""
    (tmp_path / "old.wb").touch()
    async with picking([]) as pilot:
        await keys(pilot, "n")
        pilot.app.screen.query_one(Input).value = str(tmp_path / "old")
        await keys(pilot, "enter")
        assert "already" in shown(pilot)
        await keys(pilot, "escape", "n")
        pilot.app.screen.query_one(Input).value = str(tmp_path / "new")
        await keys(pilot, "enter")
    assert pilot.app.return_value == Beginning("project", str(tmp_path / "new.wb"))


async def test_the_first_start_begins_with_enter(tmp_path: Path) -> None:
    """Without projects the cursor is on the demo; the other line is logs."""
    for pressed, wanted in (
        (("enter",), Beginning("demo")),
        (("e",), Beginning("demo")),
    ):
        async with picking([]) as pilot:
            await keys(pilot, *pressed)
        assert pilot.app.return_value == wanted
    logs = tmp_path / "logs.jsonl"
    logs.write_text('{"id": "a", "messages": [{"role": "user", "content": "Hello"}]}\n')
    async with picking([]) as pilot:
        await keys(pilot, "j", "enter")
        field = pilot.app.screen.query_one(Input)
        field.value = str(logs)
        await keys(pilot, "enter")
    assert pilot.app.return_value == Beginning("logs", str(logs))
