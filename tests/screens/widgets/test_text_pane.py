"""A long text on the screen: no character of it is hidden."""

from __future__ import annotations

import re

from textual.app import ComposeResult
from textual.screen import Screen

from screens.widgets.finding import TextPane
from tests.screens.driving import opened, settle, text
from tests.screens.project import project

WORDS = " ".join(f"w{n}{'x' * (n % 7)}" for n in range(60))


class OnlyText(Screen[None]):
    """A pane alone."""

    def compose(self) -> ComposeResult:
        """The pane."""
        yield TextPane()


async def test_every_word_is_whole() -> None:
    """Whatever the width, every word stands there with its last letter: the bar beside the text covers none."""
    async with opened(project(3)) as pilot:
        screen = OnlyText()
        await pilot.app.push_screen(screen)
        screen.query_one(TextPane).show(WORDS)
        for width in (20, 33, 34, 35, 36, 37):
            await pilot.resize_terminal(width, 40)
            await settle(pilot)
            assert re.findall(r"w\d+x*", text(pilot)) == WORDS.split()
