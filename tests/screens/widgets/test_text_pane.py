"""A long text on the screen: no character of it is hidden."""

from __future__ import annotations

import re

import pytest
from textual.app import App, ComposeResult

from screens.widgets.text_pane import TextPane
from tests.screens.driving import settle, text

WORDS = " ".join(f"w{n}{'x' * (n % 7)}" for n in range(60))


class OnlyText(App[None]):
    """A pane alone on the screen."""

    def compose(self) -> ComposeResult:
        """The pane."""
        yield TextPane()


@pytest.mark.parametrize("width", [20, 33, 34, 35, 36, 37])
async def test_every_word_is_whole(width: int) -> None:
    """Whatever the width, every word stands there with its last letter: the bar beside the text covers none."""
    app = OnlyText()
    async with app.run_test(size=(width, 40)) as pilot:
        app.query_one(TextPane).show(WORDS)
        await settle(pilot)
        assert re.findall(r"w\d+x*", text(pilot)) == WORDS.split()
