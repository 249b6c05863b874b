"""The comparison screen on a project file: two filters, a field, and the conversations behind a line."""

from __future__ import annotations

from engine.questions.question import YES
from engine.questions.records import NewAnswer
from screens.conversations.screen import ConversationsBehindScreen
from tests.screens.driving import opened, press, text
from tests.screens.project import project


async def test_two_filters() -> None:
    """Two filters are asked for; each difference has both values; enter lists the conversations of the side to read."""
    async with opened(project(), mode="1") as pilot:
        await press(pilot, "C", "enter")
        await pilot.press(*"draw<.5")
        await press(pilot, "enter", "enter")
        seen = text(pilot)
        assert "A  draw<.5:" in seen
        assert "B  the others:" in seen
        assert " ended " in seen
        assert "corrected for the many" in seen
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ConversationsBehindScreen)
        assert "draw<.5" in text(pilot)
        await press(pilot, "escape")
        assert "corrected for the many" in text(pilot)


async def test_a_field() -> None:
    """The fields of the project are listed; each value stands with its rate, and enter lists its conversations."""
    found = project()
    found.triage.answer([NewAnswer(key, "slow", YES) for key in (1, 2)])
    found.triage.answer([NewAnswer(3, "rude", YES)])
    async with opened(found, mode="1") as pilot:
        await press(pilot, "C")
        assert "by tag" in text(pilot)
        await press(pilot, "down", "enter")
        seen = text(pilot)
        assert seen.index("slow") < seen.index("rude")
        assert "33 conversations without a tag" in seen
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ConversationsBehindScreen)
        assert "tag:slow" in text(pilot)
