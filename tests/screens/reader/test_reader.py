"""The reader: turns, curve, the record, going from one conversation to the next."""

from __future__ import annotations

from dataclasses import replace

from textual.pilot import Pilot

from engine.base.conversation import Conversation, Verdict
from engine.conversations.tables import imports
from engine.formats.records import Leak, Parsed
from screens.conversations.screen import ConversationsScreen
from screens.reader import OriginalDialog
from screens.widgets.curve import Curve
from screens.widgets.transcript import Transcript
from tests.screens.conversations.listing import filtered
from tests.screens.driving import lines, opened, press, strips_of, text
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
        """`]` goes to the next turn, and the mark on the curve follows."""
        async with opened(project()) as pilot:
            await press(pilot, "down", "enter", *["right_square_bracket"] * 3)
            curve = pilot.app.screen.query_one(Curve)
            assert transcript(pilot).turn == 4
            assert curve.marked == 2
            assert "turn 4 .00" in text(pilot)

            await press(pilot, "left_square_bracket")
            assert transcript(pilot).turn == 3

    async def test_messages_and_folds(self) -> None:
        """Long tool output is folded to its first lines and its length until enter unfolds it. `{` and `}` go from
        message to message; enter unfolds the one that is reached, not its neighbors."""
        async with opened(project()) as pilot:
            await press(pilot, "enter", "right_square_bracket")
            assert "▸ 42 lines" in text(pilot)
            assert '"line": 5,' not in text(pilot)
            await press(pilot, "enter")
            assert '"line": 5,' in text(pilot)
            await press(pilot, "enter")
            assert '"line": 5,' not in text(pilot)

            await press(pilot, *["right_curly_bracket"] * 2)
            current = transcript(pilot).message
            assert current is not None
            assert (current.index, current.role) == (3, "tool")
            await press(pilot, "enter", "left_curly_bracket")
            assert '"line": 5,' in text(pilot)
            assert transcript(pilot).turn == 2


class TestOrder:
    async def test_next_and_previous_in_list_order(self) -> None:
        """`n` and `p` follow the order of the list, its filter included, and stop at its ends."""
        async with opened(project()) as pilot:
            await filtered(pilot, "state:broken-off")
            await press(pilot, "enter")
            assert "support/0001" in lines(pilot)[1]
            assert "1 of 12" in lines(pilot)[0]

            await press(pilot, "n")
            assert "support/0005" in lines(pilot)[1]

            await press(pilot, "p", "p")
            assert "support/0001" in lines(pilot)[1]
            assert "This is the first conversation of the list." in text(pilot)


class TestFind:
    async def test_find_while_typing(self) -> None:
        """`/` counts and shows hits while one types, `n` and `N` walk through them, folded text unfolds. Every hit in
        sight is underlined, the one where the cursor is is drawn in reverse."""
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

            await look_for(pilot, "flight")
            drawn = [
                segment.style
                for strip in strips_of(pilot)
                for segment in strip
                if segment.text == "flight" and segment.style is not None
            ]
            assert sum(bool(style.reverse) for style in drawn) == 1
            assert sum(bool(style.underline) for style in drawn) >= 2

            await press(pilot, "escape", "escape")
            assert isinstance(pilot.app.screen, ConversationsScreen)

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
    async def test_copied_raw_and_as_imported(self) -> None:
        """`y` copies the current message as imported, control characters too, and says how much it was; `m` shows JSON
        as imported, and laid out again; `o` shows the record as imported, and what is not UTF-8 in it does no harm.
        What the leak guard kept from the model is noted under its message."""
        sample = conversation(1, 0.07)
        sample.messages[1] = replace(
            sample.messages[1], content="a\x1b[2J [/b]", model_view="Please move my flight"
        )
        sample.leaks = [Leak(1, "stop-token", "###STOP###")]
        content = (
            '{"order":{"id":"#W6390527","status":"delivered"},"paid":true,"note":"none at all"}'
        )
        sample.messages[3] = replace(sample.messages[3], content=content)
        sample.original = b'{"id": "support/0001", "bytes": "\xff\x1b[2J"}'
        async with opened(project_of([sample])) as pilot:
            await press(pilot, "enter")
            assert "⊘ kept from the model: ###STOP### (stop-token)" in text(pilot)

            await press(pilot, "right_square_bracket", "y")
            assert pilot.app.clipboard == "a\x1b[2J [/b]"
            assert "Copied message 2, user: 10 characters." in text(pilot)

            await press(pilot, "e")
            assert '"status": "delivered"' in text(pilot)
            await press(pilot, "m")
            assert '"status":"delivered"' in text(pilot)
            await press(pilot, "m")
            assert '"status": "delivered"' in text(pilot)

            await press(pilot, "o")
            assert isinstance(pilot.app.screen, OriginalDialog)
            assert '{"id": "support/0001", "bytes": "\ufffd␛[2J"}' in text(pilot)


class TestNarrow:
    async def test_curve_and_text_take_turns(self) -> None:
        """At 80 columns `v` changes between the turns and the curve with what is below it."""
        async with opened(project(), size=(80, 24)) as pilot:
            await press(pilot, "down", "enter")
            assert "Remaining tasks" not in text(pilot)

            await press(pilot, "v")
            assert "Remaining tasks" in text(pilot)
            assert not transcript(pilot).has_focus

            await press(pilot, "v")
            assert transcript(pilot).has_focus


class TestRecord:
    async def test_verdict_on_an_earlier_text(self) -> None:
        """Of a conversation that grew the reader says what a person said of the text that it had."""
        first = conversation(1, 0.07, turns=2)
        made = project_of([first])
        made.triage.give(1, Verdict.YES, "she knows")
        messages = tuple(conversation(1, 0.07, turns=4).messages)
        record = Parsed(None, b'{"the": "new"}', Conversation("support/0001", messages))
        made.file.write(lambda conn: imports.add_records(conn, 1, [record]))
        async with opened(made) as pilot:
            await press(pilot, "enter")

            assert "not scored" in lines(pilot)[1]
            assert f"given when it had {len(first.messages)} messages: yes," in text(pilot)

            await press(pilot, "o")
            assert '{"the": "new"}' in text(pilot)
