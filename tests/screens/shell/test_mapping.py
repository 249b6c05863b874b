"""Saying where the messages are: after an import that read a file badly, and in a dialog that fits a small terminal."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from textual.widgets import Input, TextArea

from engine.formats.mappings.mapping import load_mapping
from engine.opener.open_project import OpenProject
from screens.shell.dialogs import ErrorDialog
from screens.shell.importing import ImportDialog
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.project import project_of
from workbench.app import WorkbenchApp
from workbench.cli import main


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of its own."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config" / "formats"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A table with a row for each message, under names that no format knows."""
    path = tmp_path / "desk.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("call_ref", "spoken", "party", "heard"))
        for call in range(4):
            for minute, party, heard in (
                (0, "driver", "Where is the next garage, please?"),
                (1, "dispatcher", "On Ross Road, two miles away."),
                (2, "logbook", "garage announced to the driver"),
            ):
                writer.writerow((f"call-{call}", f"2026-03-0{call + 1} 10:0{minute}", party, heard))
    return path


async def test_after_an_import_that_lost_text(tmp_path: Path, config: Path) -> None:
    """The overview counts a source that was badly read, `A` says what asks where its messages are, and it is imported
    so; other files of its format are read as before."""
    said = [{"role": "user", "content": "And mine?"}]
    choices = [
        {"message": {"role": "assistant", "content": each}}
        for each in ("On its way.", "It is lost at sea.")
    ]
    log = tmp_path / "gap.jsonl"
    log.write_text(json.dumps({"id": "b", "messages": said, "choices": choices}) + "\n")
    main(["import", str(tmp_path / "p.wb"), str(log)])
    with OpenProject(tmp_path / "p.wb") as workspace:
        app = WorkbenchApp(workspace, workspace.subscribe)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            assert "1 source not well read" in text(pilot)
            await press(pilot, "A")
            await until(pilot, lambda: "say where its messages are" in text(pilot))
            await press(pilot, "escape", "i")
            pilot.app.screen.query_one(Input).value = str(log)
            await press(pilot, "ctrl+t")
            await until(pilot, lambda: "Read so: 1 conversation" in text(pilot))
            assert "Files like this are read as openai already." in text(pilot)
            await press(pilot, "ctrl+s")
            read = workspace.conversations.reports
            await until(pilot, lambda: '"gap"' in read()[0])
            await settle(pilot)
            await until(pilot, lambda: "not well read" not in text(pilot))
    assert load_mapping(config / "gap.toml").by_name


async def test_the_mapping_is_edited(rows: Path, config: Path) -> None:
    """In 80 columns: the guess as a mapping file, and below it what is read so, anew while one types; a mistake is
    shown, and leaving asks what becomes of the changes."""
    support = project_of([])
    async with opened(support, size=(80, 24)) as pilot:
        await press(pilot, "i")
        pilot.app.screen.query_one(Input).value = str(rows)
        await press(pilot, "ctrl+t")
        await until(pilot, lambda: "Read so: 4 conversations, 12 messages" in text(pilot))
        assert "ctrl+s saves   esc leaves" in lines(pilot)[-2]
        area = pilot.app.screen.query_one(TextArea)
        guess = area.text
        area.text = guess.replace('logbook = "assistant"', 'logbook = "left out"')
        await until(pilot, lambda: "8 messages (4 user, 4 assistant)" in text(pilot))
        await press(pilot, "tab", "end")
        await until(pilot, lambda: "call-1" in text(pilot))
        await press(pilot, "shift+tab", "ctrl+home", "x")
        await until(pilot, lambda: "12 not read" in text(pilot))
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, ErrorDialog))
        await press(pilot, "enter", "ctrl+n")
        await until(pilot, lambda: "12 not read" not in text(pilot))
        area.text = guess.replace('logbook = "assistant"', 'logbook = "left out"')
        await press(pilot, "escape")
        assert "The mapping was changed" in text(pilot)
        await press(pilot, "down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ImportDialog))
    assert load_mapping(config / "desk.toml").roles["logbook"] == "left out"
    assert support.jobs.started == []
