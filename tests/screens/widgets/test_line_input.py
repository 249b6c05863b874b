"""The line that a person types: it takes so many characters, and says when it takes no more."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.events import Paste

from screens.widgets.controls import MAX_TYPED_CHARACTERS, LineInput
from tests.screens.driving import wait_for_idle


class OneLine(App[None]):
    """An app of one line that begins with so many letters."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters = letters

    def compose(self) -> ComposeResult:
        """The line."""
        yield LineInput("x" * self.letters, select_on_focus=False)


async def test_more_than_it_takes_is_not_taken() -> None:
    """What fits is typed; a paste that does not fit changes nothing, and a notice says so."""
    app = OneLine(MAX_TYPED_CHARACTERS - 2)
    async with app.run_test() as pilot:
        line = app.query_one(LineInput)
        await pilot.press("end", "a")
        assert len(line.value) == MAX_TYPED_CHARACTERS - 1
        app.post_message(Paste("bcd"))
        await wait_for_idle(0)
        await pilot.pause()
        assert line.value.endswith("xa")
        assert [one.message for one in app._notifications] == [
            "A line takes at most 2,000 characters; this was not added."
        ]
        app.post_message(Paste("b"))
        await pilot.pause()
        assert line.value.endswith("xab")
