"""Every screen that is empty says what fills it, and enter starts that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList, Static

import screens
from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from screens.shell.dialogs import ChoiceDialog, Dialog, TextDialog
from screens.shell.importing import ImportDialog
from screens.shell.keymap import key_table
from screens.shell.run_form import RunForm, ScoringForm
from screens.shell.workbench_screen import WorkbenchScreen
from screens.watch import WatchDialog
from tests.screens.driving import opened, press
from tests.screens.project import ScreenProject, open_copy
from workbench.app import WorkbenchApp

WAYS = {
    "list": ("2",),
    "triage": ("3",),
    "trees": ("4",),
    "goals": ("5",),
    "desk": ("6",),
    "training": ("7",),
    "watch": ("L",),
    "calibration": ("1", "K"),
    "comparison": ("1", "C", "escape"),
    "associations": ("1", "exclamation_mark", "escape"),
}
"""The keys that lead from the overview to each screen that can be empty."""
WITH: dict[str, tuple[str, type[Dialog[Any]]]] = {
    "trees": ("No response trees yet", RunForm),
    "goals": ("No goals yet", RunForm),
    "desk": ("not in groups yet", RunForm),
    "training": ("No training runs yet", RunForm),
    "watch": ("Nothing is watched", WatchDialog),
    "calibration": ("Nothing is scored yet", ScoringForm),
    "comparison": ("Nothing is compared yet", ChoiceDialog),
    "associations": ("No sides are compared yet", TextDialog),
}
"""What each that is empty says in a project of conversations only, and what enter opens there."""


def fresh(folder: Path, conversations: int) -> ScreenProject:
    """A project into which so many conversations were imported, and nothing else was done."""
    logs = folder / "logs.jsonl"
    said = [[{"role": "user", "content": f"Hello {at}"}] for at in range(conversations)]
    logs.write_text("\n".join(json.dumps({"messages": messages}) for messages in said))
    path = folder / "fresh.wb"
    with Project.open(path, create=True) as file:
        if conversations:
            JobRunner(file, lambda event: None).run(ImportStage(file, [str(logs)]))
    made = open_copy(path)
    made.jobs.scoring_mode = lambda: "base"  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize(
    ("conversations", "offered"),
    [
        (0, {"first: Import": ImportDialog}),
        (3, {"first: Score": ScoringForm, "first: Cluster": RunForm}),
    ],
)
async def test_enter_starts_what_fills_the_screen(
    tmp_path: Path, conversations: int, offered: dict[str, type[Dialog[Any]]]
) -> None:
    """Without conversations each screen offers an import; with conversations only, its own next step. `p` lists the
    steps without which a report would be empty, and enter starts the one that is chosen."""
    async with opened(fresh(tmp_path, conversations), mode="1") as pilot:
        app = pilot.app
        for name, keys in WAYS.items():
            if conversations and name not in WITH:
                continue
            await press(pilot, *keys)
            front = app.screen
            assert isinstance(front, WorkbenchScreen), name
            said = str(front.query_one(".empty", Static).render())
            opens: type[Dialog[Any]] = ImportDialog
            expected = "No conversations yet"
            if conversations:
                expected, opens = WITH[name]
            assert expected in said, name
            assert "\nenter " in said, name
            await press(pilot, "enter")
            assert isinstance(app.screen, opens), name
            while not isinstance(app.screen, WorkbenchScreen):
                await press(pilot, "escape")
            await press(pilot, "1", "1")
            assert app.current_mode == "overview"

        for said, opens in offered.items():
            await press(pilot, "1", "p")
            choices = app.screen.query_one(OptionList)
            lines = [str(option.prompt) for option in choices.options]
            assert ("with everything that was written" in lines) == bool(conversations)
            (at,) = (nth for nth, line in enumerate(lines) if line.startswith(said))
            choices.highlighted = at
            await press(pilot, "enter")
            assert isinstance(app.screen, opens), said
            await press(pilot, "escape")


def test_empty_screens_name_actions_of_the_key_map() -> None:
    """Every further action that an empty screen offers is one of the table of keys."""
    known = {action.id for place in key_table(WorkbenchApp) for action in place.actions}
    folder = Path(screens.__file__).parent
    sources = [path.read_text("utf-8") for path in folder.rglob("*.py")]
    named = {
        name
        for source in sources
        if "EmptyState(" in source
        for name in re.findall(r'\("([a-z]+\.[a-z-]+)", "[a-z]', source)
    }
    assert named
    assert named <= known
