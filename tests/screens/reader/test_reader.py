"""The reader: turns, curve, provenance, going from one conversation to the next."""

from __future__ import annotations

from dataclasses import replace

from textual.pilot import Pilot

from screens.conversations.screen import ConversationsScreen
from screens.widgets.curve import Curve
from screens.widgets.row_table import RowTable
from screens.widgets.transcript import Transcript
from tests.screens.driving import lines, opened, press, text
from tests.screens.project import project, project_of
from tests.screens.samples import conversation


def transcript(pilot: Pilot[None]) -> Transcript:
    """The transcript of the screen in front."""
    return pilot.app.screen.query_one("#text", Transcript)


async def look_for(pilot: Pilot[None], words: str) -> None:
    """Types words into the line that `/` opens, and enter."""
    await press(pilot, "slash")
    await pilot.press(*words)
    await press(pilot, "enter")


class TestTurns:
    async def test_turn_keys_move_text_and_mark_together(self) -> None:
        """`]` goes to the next turn, and the mark on the curve and the list of boundaries follow."""
        async with opened(project()) as pilot:
            await press(pilot, "down", "enter", *["right_square_bracket"] * 3)
            curve = pilot.app.screen.query_one(Curve)
            boundaries = pilot.app.screen.query_one("#boundaries", RowTable)

            assert transcript(pilot).turn == 4
            assert curve.marked == 2
            assert boundaries.cursor_id == 2
            assert "turn 4 .00" in text(pilot)

            await press(pilot, "left_square_bracket")

            assert transcript(pilot).turn == 3

    async def test_boundary_leads_to_its_turn(self) -> None:
        """Moving in the list of boundaries brings the turn into sight."""
        async with opened(project()) as pilot:
            await press(pilot, "down", "enter", "tab", "end")

            assert transcript(pilot).turn == 6

    async def test_folds(self) -> None:
        """Long tool output is folded to its first lines and its length until enter unfolds it."""
        async with opened(project()) as pilot:
            await press(pilot, "enter", "right_square_bracket")

            assert "▸ 42 lines" in text(pilot)
            assert '"line": 5,' not in text(pilot)

            await press(pilot, "enter")

            assert '"line": 5,' in text(pilot)

            await press(pilot, "enter")

            assert '"line": 5,' not in text(pilot)


class TestOrder:
    async def test_next_and_previous_in_list_order(self) -> None:
        """`n` and `p` follow the order of the list, its filter included, and stop at its ends."""
        async with opened(project()) as pilot:
            await press(pilot, "F", "enter")
            assert "support/0001" in lines(pilot)[1]
            assert "1 of 12" in lines(pilot)[0]

            await press(pilot, "n")
            assert "support/0005" in lines(pilot)[1]

            await press(pilot, "p", "p")
            assert "support/0001" in lines(pilot)[1]
            assert "This is the first conversation of the list." in text(pilot)


class TestMoving:
    async def test_go_to_turn_by_number(self) -> None:
        """`g` and a number goes to that turn; a number that is none says what there is."""
        async with opened(project()) as pilot:
            await press(pilot, "down", "enter", "g", "5", "enter")
            assert transcript(pilot).turn == 5

            await press(pilot, "g", "9", "enter")
            assert transcript(pilot).turn == 5
            assert "Turns go from 1 to 6." in text(pilot)

    async def test_messages_one_by_one(self) -> None:
        """`{` and `}` go from message to message; enter unfolds the one that is reached, not its neighbors."""
        async with opened(project()) as pilot:
            await press(pilot, "enter", *["right_curly_bracket"] * 3)
            current = transcript(pilot).message
            assert current is not None
            assert (current.index, current.role) == (3, "tool")

            await press(pilot, "enter", "left_curly_bracket")
            assert '"line": 5,' in text(pilot)
            assert transcript(pilot).turn == 2


class TestFind:
    async def test_find_while_typing(self) -> None:
        """`/` counts and shows hits while one types, `n` and `N` walk through them, folded text unfolds."""
        async with opened(project()) as pilot:
            await press(pilot, "enter")
            assert '"line": 40,' not in text(pilot)

            await look_for(pilot, '"LINE": 40')
            assert "1 of 4" in text(pilot)
            assert '"line": 40,' in text(pilot)
            assert transcript(pilot).turn == 2

            await press(pilot, "n", "n")
            assert "3 of 4" in text(pilot)
            assert transcript(pilot).turn == 4

            await press(pilot, "N", "N", "N")
            assert "4 of 4" in text(pilot)
            assert transcript(pilot).turn == 5

            await press(pilot, "escape")
            assert "4 of 4" not in text(pilot)
            assert "▸ 42 lines" in text(pilot)

            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, ConversationsScreen)

    async def test_hits_are_marked(self) -> None:
        """Every hit in sight is underlined, the one where the cursor is is drawn in reverse."""
        async with opened(project()) as pilot:
            await press(pilot, "enter")
            await look_for(pilot, "flight")
            drawn = [
                segment.style
                for strip in pilot.app.screen._compositor.render_strips()
                for segment in strip
                if segment.text == "flight" and segment.style is not None
            ]

            assert sum(bool(style.reverse) for style in drawn) == 1
            assert sum(bool(style.underline) for style in drawn) >= 2

    async def test_words_that_led_here(self) -> None:
        """The words of the list's filter are highlighted from the start, and `n` goes to the first."""
        async with opened(project()) as pilot:
            await look_for(pilot, "thurs")
            await press(pilot, "enter")
            assert "support/0001" in lines(pilot)[1]
            assert "1 hit" in text(pilot)

            await press(pilot, "n")
            assert "1 of 1" in text(pilot)
            assert transcript(pilot).turn == 2


class TestTakingText:
    async def test_copy_a_message(self) -> None:
        """`y` copies the current message as imported, control characters too, and says how much it was."""
        sample = conversation(1, 0.07)
        sample.messages[1] = replace(sample.messages[1], content="a\x1b[2J [/b]")
        async with opened(project_of([sample])) as pilot:
            await press(pilot, "enter", "right_square_bracket", "y")

            assert pilot.app.clipboard == "a\x1b[2J [/b]"
            assert "Copied message 2, user: 10 characters." in text(pilot)

    async def test_copy_everything(self) -> None:
        """`Y` copies the conversation as a log."""
        async with opened(project()) as pilot:
            await press(pilot, "enter", "Y")

            assert pilot.app.clipboard.startswith(
                "TURN 1, STEP 1, system chat:\nRule 0: be helpful"
            )
            assert (
                'TOOL CALLS: [{"name": "get_details", "args": {"what": "flight", "case": 1}}]'
                in (pilot.app.clipboard)
            )
            assert "Copied the conversation, 17 messages:" in text(pilot)

    async def test_raw(self) -> None:
        """`m` shows JSON as imported, and laid out again."""
        sample = conversation(1, 0.07)
        content = (
            '{"order":{"id":"#W6390527","status":"delivered"},"paid":true,"note":"none at all"}'
        )
        sample.messages[3] = replace(sample.messages[3], content=content)
        async with opened(project_of([sample])) as pilot:
            await press(pilot, "enter", "e")
            assert '"status": "delivered"' in text(pilot)

            await press(pilot, "m")
            assert '"status":"delivered"' in text(pilot)

            await press(pilot, "m")
            assert '"status": "delivered"' in text(pilot)


class TestNarrow:
    async def test_curve_and_text_take_turns(self) -> None:
        """At 80 columns `v` changes between the turns and the list of boundaries."""
        async with opened(project(), size=(80, 24)) as pilot:
            await press(pilot, "down", "enter")
            assert "score if it ended here" not in text(pilot)

            await press(pilot, "v")
            assert "score if it ended here" in text(pilot)

            await press(pilot, "end", "enter")
            assert transcript(pilot).turn == 6
            assert transcript(pilot).has_focus
