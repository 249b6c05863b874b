"""The list on a real project file: what is marked, tagged, exported and remembered is in the file."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.opener.open_project import OpenProject
from tests.screens.conversations.listing import filtered, screen, table
from tests.screens.driving import lines, press, settle, text, until
from tests.screens.real_store import fill
from workbench.app import WorkbenchApp


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Pilot[None]]:
    """The list of a project file, put together as the program puts it together."""
    with OpenProject(path) as workspace:
        app = WorkbenchApp(workspace, workspace.subscribe)
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            await settle(pilot)
            await press(pilot, "2")
            yield pilot


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of 500 conversations, in the folder that the program runs in."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "real.wb").close()
    return tmp_path / "real.wb"


async def test_session(path: Path) -> None:
    """Filter, mark, tag, filter by the tag, export, save the filter; opened again, the list is as it was."""
    async with opened(path) as pilot:
        await filtered(pilot, "lamp -name:c5")
        assert "96 of 500" in lines(pilot)[1]
        assert (
            lines(pilot)[4].split("Please")[0].split()[-1] == "1"
        )  # one message of it has the word

        await press(pilot, "space", "space", "v", "t", *"urgent", "enter")
        await until(pilot, lambda: "urgent" in lines(pilot)[4])
        assert "3 marked" in lines(pilot)[1]

        await press(pilot, "A")
        await press(pilot, "escape")
        await filtered(pilot, "tag:urgent")
        assert "3 of 500" in lines(pilot)[1]

        await press(pilot, "X", "enter", "enter")
        await until(pilot, lambda: "Wrote 3 lines" in text(pilot))
        await press(pilot, "w", *"hot", "enter", "down")
        was = table(pilot).cursor_id
        await until(pilot, lambda: screen(pilot).services.saved.view()[1] == was)

    names = [json.loads(line)["id"] for line in path.with_name("conversations.jsonl").open()]
    assert names == ["c10", "c15", "c20"]

    async with opened(path) as pilot:
        assert "3 of 500" in lines(pilot)[1]
        assert table(pilot).cursor_id == was

        await press(pilot, "escape", "W", "enter")
        assert "3 of 500" in lines(pilot)[1]
