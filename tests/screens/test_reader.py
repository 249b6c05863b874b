"""The reader: turns, curve, provenance, going from one conversation to the next."""

from __future__ import annotations

from dataclasses import replace

from textual.pilot import Pilot

from engine.rows import LeakRow
from screens.provenance import OriginalDialog, ProvenanceDialog
from screens.widgets.curve import Curve
from screens.widgets.row_table import RowTable
from screens.widgets.transcript import Transcript
from tests.screens.driving import lines, opened, press, text
from tests.screens.fakes import project


def transcript(pilot: Pilot[None]) -> Transcript:
    """The transcript of the screen in front."""
    return pilot.app.screen.query_one("#text", Transcript)


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

    async def test_scrolling_changes_the_turn(self) -> None:
        """Scrolling to the end makes the last turn in sight the current one."""
        async with opened(project(), size=(80, 24)) as pilot:
            await press(pilot, "down", "enter", "end")

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

    async def test_click_unfolds(self) -> None:
        """A click on folded output unfolds it."""
        async with opened(project()) as pilot:
            await press(pilot, "enter")
            line = next(at for at, shown in enumerate(lines(pilot)) if "▸ 42 lines" in shown)
            await pilot.click("#text", offset=(12, line - 2))
            await press(pilot)

            assert '"line": 5,' in text(pilot)


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


class TestProvenance:
    async def test_why(self) -> None:
        """`w` names mode, model, adapter, noise and rule of the number."""
        async with opened(project()) as pilot:
            await press(pilot, "enter", "w")

            assert isinstance(pilot.app.screen, ProvenanceDialog)
            for fact in ("base", "SmolLM2-135M-Instruct", "none", "± 0.006", "complete from .50"):
                assert fact in text(pilot)

    async def test_unscored_says_why(self) -> None:
        """A conversation without a number says the reason instead of one."""
        async with opened(project()) as pilot:
            await press(pilot, "down", "down", "enter")

            assert "· unscored (longer than the context)" in lines(pilot)[1]
            assert "no curve" in text(pilot)

    async def test_no_digit_below_the_noise(self) -> None:
        """On a model whose noise is 0.035 probabilities have one digit."""
        fake = project()
        item = fake.items[2]
        assert item.score is not None
        item.score = replace(item.score, noise=0.035)
        async with opened(fake) as pilot:
            await press(pilot, "down", "enter")

            assert "▇▇▇▇▁▁▁▁ .5 ·" in lines(pilot)[1]

    async def test_original(self) -> None:
        """`o` shows the record as imported, and what is not UTF-8 in it does no harm."""
        fake = project()
        fake.items[1].original = b'{"id": "support/0001", "bytes": "\xff\x1b[2J"}'
        async with opened(fake) as pilot:
            await press(pilot, "enter", "o")

            assert isinstance(pilot.app.screen, OriginalDialog)
            assert '{"id": "support/0001", "bytes": "\ufffd␛[2J"}' in text(pilot)

    async def test_leaks_are_noted_where_they_were(self) -> None:
        """What the leak guard kept from the model is noted under its message and in the provenance."""
        fake = project()
        item = fake.items[1]
        item.messages[1] = replace(item.messages[1], model_view="Please move my flight")
        item.leaks = [
            LeakRow(1, 1, "stop-token", "###STOP###"),
            LeakRow(1, None, "truth-field", "reward"),
        ]
        async with opened(fake) as pilot:
            await press(pilot, "enter")
            assert "⊘ kept from the model: ###STOP### (stop-token)" in text(pilot)

            await press(pilot, "w")
            assert "###STOP###  (stop-token, message 2)" in text(pilot)
            assert "reward  (truth-field, a field)" in text(pilot)


class TestNarrow:
    async def test_curve_and_text_take_turns(self) -> None:
        """At 80 columns `v` changes between the turns and the list of boundaries."""
        async with opened(project(), size=(80, 24)) as pilot:
            await press(pilot, "down", "enter")
            assert "p end if it ended here" not in text(pilot)

            await press(pilot, "v")
            assert "p end if it ended here" in text(pilot)

            await press(pilot, "end", "enter")
            assert transcript(pilot).turn == 6
            assert transcript(pilot).has_focus
