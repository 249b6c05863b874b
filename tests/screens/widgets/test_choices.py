"""A list of lines to choose from: its keys come at any time."""

from __future__ import annotations

from textual.app import App, ComposeResult

from screens.widgets.controls import Choices


class OneList(App[None]):
    """An app of one list, in which a key comes before the first layout."""

    def compose(self) -> ComposeResult:
        """The list."""
        yield Choices("a", "b", "c")

    async def on_mount(self) -> None:
        """The key."""
        await self.run_action("page_down", self.query_one(Choices))


async def test_page_down_before_the_list_is_laid_out() -> None:
    """It does nothing then; later it goes to the last line."""
    app = OneList()
    async with app.run_test() as pilot:
        await pilot.press("pagedown")
        assert app.query_one(Choices).highlighted == 2
