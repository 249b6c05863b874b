"""Dialogs are answered once."""

from __future__ import annotations

from textual.widgets import Input

from screens.reader import ReaderScreen
from screens.shell.dialogs import TextDialog
from tests.screens.driving import opened, press, settle
from tests.screens.project import project


async def test_two_quick_enters_are_one_answer() -> None:
    """A second enter, typed before the dialog is gone, does not take the screen below away."""
    answers: list[str | None] = []
    async with opened(project()) as pilot:
        await press(pilot, "enter")
        await pilot.app.push_screen(TextDialog("Turn", value="2"), answers.append)
        line = pilot.app.screen.query_one(Input)
        await line.action_submit()
        await line.action_submit()
        await settle(pilot)
        assert answers == ["2"]
        assert isinstance(pilot.app.screen, ReaderScreen)
