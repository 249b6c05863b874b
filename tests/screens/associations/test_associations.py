"""The screen of what goes with a side, on a project file: the sides of where it is opened, the conversations behind."""

from __future__ import annotations

from engine.base.conversation import Message
from screens.associations import AssociationScreen
from screens.reader import ReaderScreen
from tests.screens.driving import opened, press, text
from tests.screens.project import project_of
from tests.screens.samples import Sample


def desk() -> list[Sample]:
    """Forty conversations; of every other one, which broke off, the user asks for a refund and is refused."""
    return [
        Sample(
            f"c{number}",
            [
                Message(
                    "user", f"I want a refund {number}" if number % 2 else f"Opening hours {number}"
                ),
                Message("assistant", "I am unable to do that" if number % 2 else "At nine"),
            ],
            [(1, 0.1 if number % 2 else 0.9)],
        )
        for number in range(1, 41)
    ]


async def test_of_the_overview_it_shows_the_best_known_outcome() -> None:
    """`!` says what goes with breaking off, after verdicts and `r` with failure; enter reads the conversations of that
    side with the words marked."""
    support = project_of(desk())
    async with opened(support, mode="1") as pilot:
        await press(pilot, "exclamation_mark")
        seen = text(pilot)
        assert "A  20 conversations that broke off (state:broken-off)" in seen
        assert "user: “want a refund”" in seen
        assert "assistant: “am unable to”" in seen
        assert "Not compared within goals" in seen
        await press(pilot, "enter")
        front = pilot.app.screen
        assert isinstance(front, ReaderScreen)
        assert "1 of 20" in text(pilot)
        assert "refund" in text(pilot)
        await press(pilot, "escape", "escape")
        for number in range(1, 21):
            support.triage.give(number, "no" if number % 2 else "yes")
        await press(pilot, "r")
        assert "A  10 conversations that failed (succeeded:no)" in text(pilot)
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, AssociationScreen | ReaderScreen)


async def test_of_a_list_it_shows_what_is_listed_and_the_others() -> None:
    """Under a filter the sides are its conversations and all others; `f` names others."""
    async with opened(project_of(desk()), mode="2") as pilot:
        await press(pilot, "slash")
        await pilot.press(*"hours")
        await press(pilot, "enter", "exclamation_mark")
        assert "A  hours: 20 conversations" in text(pilot)
        assert "B  all the others: 20 conversations" in text(pilot)
        await press(pilot, "f")
        await pilot.press(*"draw<.5")
        await press(pilot, "enter", "enter")
        assert "A  draw<.5:" in text(pilot)
        assert "Nothing goes with A or B" in text(pilot)


async def test_a_figure_of_the_overview_is_a_side() -> None:
    """In the list of figures behind a card `!` takes the one under the cursor as a side."""
    async with opened(project_of(desk()), mode="1") as pilot:
        pilot.app.screen.query_one("#rate").focus()
        await press(pilot, "enter")
        await press(pilot, "exclamation_mark")
        assert isinstance(pilot.app.screen, AssociationScreen)
        assert "A  state:" in text(pilot)
