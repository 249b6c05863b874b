"""What tests of the list have in common: its parts, and filters that are written at once."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.pilot import Pilot

from engine.opener.conversations import ConversationRow
from screens.conversations.screen import ConversationsScreen
from screens.widgets.row_table import RowTable
from tests.screens.driving import press, settle, strips_of


def screen(pilot: Pilot[None]) -> ConversationsScreen:
    """The list in front."""
    front = pilot.app.screen
    assert isinstance(front, ConversationsScreen)
    return front


async def filtered(pilot: Pilot[None], wanted: str) -> None:
    """Goes into the filter line, pastes a filter and goes back to the list. Typing would be listed in between on a slow
    machine."""
    await press(pilot, "f")
    focused = pilot.app.focused
    assert focused is not None
    focused.post_message(events.Paste(wanted))
    await settle(pilot)
    await press(pilot, "enter")


def strip(pilot: Pilot[None], line: int) -> list[Segment]:
    """A line of the screen as it is drawn, with its styles."""
    return list(strips_of(pilot)[line])


def table(pilot: Pilot[None]) -> RowTable[ConversationRow]:
    """The table of the list."""
    return screen(pilot).query_one("#list", RowTable)
