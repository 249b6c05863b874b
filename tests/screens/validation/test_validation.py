"""The validation screen: pages, rows and curves, progress and cancel, what it gives away, what it says of nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.events import DataChanged
from engine.records.report import ReportTable
from engine.records.validation import Missing
from engine.services.report_rendering import tab_separated
from engine.services.validation.records import ValidationReport
from screens.conversations.screen import ConversationsScreen
from screens.shell.control_guard import ControlGuard
from screens.validation.formatting import compared_row
from screens.validation.screen import ValidationScreen
from screens.widgets.report_columns import report_columns
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.project import ScreenProject, project
from tests.screens.test_hostile_text import check
from tests.screens.validation.fake_validation import GOALS, NOTHING, REPORT, TREES
from tests.terminal.payloads import PAYLOADS


@pytest.fixture
def fake() -> ScreenProject:
    """An empty project whose validation has something to say."""
    return project(0)


class TestPages:
    @pytest.mark.parametrize("size", [(80, 24), (200, 60)])
    async def test_a_page_each(self, fake: ScreenProject, size: tuple[int, int]) -> None:
        """V opens the first table; right and left go round through all of them and what is missing."""
        async with opened(fake, size=size) as pilot:
            await press(pilot, "V")
            assert "1 of 3" in text(pilot)
            assert "as it stands" in text(pilot)
            await press(pilot, "right")
            assert "uncertainty against reward 0" in text(pilot)
            assert "entropy_high" in text(pilot)
            await press(pilot, "right")
            assert "what is missing for more (1)" in text(pilot)
            assert "workbench run complete PROJECT" in text(pilot)
            await press(pilot, "right", "left")
            assert "3 of 3" in text(pilot)
            await press(pilot, "left")
            assert "2 of 3" in text(pilot)

    async def test_every_page_fits(self, fake: ScreenProject) -> None:
        """In the smallest terminal table, curves and the conclusion on the row under the cursor are all in sight."""
        async with opened(fake, size=(80, 24)) as pilot:
            await press(pilot, "V", "right")
            shown = text(pilot)
            for part in (
                "AUROC",
                "perplexity",
                "rejected",
                "false alarms",
                "no significant difference",
            ):
                assert part in shown

    async def test_the_row_under_the_cursor(self, fake: ScreenProject) -> None:
        """Moving the cursor draws another curve and says what can be concluded of it, beside the best of the other
        kind."""
        async with opened(fake, size=(120, 40)) as pilot:
            await press(pilot, "V", "right")
            assert "ROC leaves" in text(pilot)
            assert "leaves .63 against length .61: no significant difference" in text(pilot)
            assert "drawn faintly: length" in text(pilot)
            before = [line for line in lines(pilot) if "│" in line]
            await press(pilot, "down", "down", "down")
            assert "ROC perplexity" in text(pilot)
            assert "drawn faintly: entropy_high" in text(pilot)
            assert [line for line in lines(pilot) if "│" in line] != before

    async def test_once_at_a_time(self, fake: ScreenProject) -> None:
        """It is reached from any mode, only once, and left to where one was."""
        async with opened(fake) as pilot:
            await press(pilot, "V")
            assert len(pilot.app.screen_stack) == 2
            await press(pilot, "V")
            assert isinstance(pilot.app.screen, ConversationsScreen)
            await press(pilot, "4", "V", "q")
            assert fake.validation.asked == 2


class TestWork:
    async def test_progress_and_cancel(self, fake: ScreenProject) -> None:
        """While it works it says at what; escape stops it, and r begins again."""
        fake.validation.hold.clear()
        async with opened(fake) as pilot:
            await pilot.press("V")
            await until(pilot, lambda: "working it out: reward 0: leaves" in text(pilot))
            await pilot.press("escape")
            await until(pilot, lambda: "Cancelled." in text(pilot))
            assert isinstance(pilot.app.screen, ValidationScreen)
            fake.validation.hold.set()
            await press(pilot, "r")
            assert "1 of 3" in text(pilot)
            assert fake.validation.asked == 2

    async def test_leaving_stops_it(self, fake: ScreenProject) -> None:
        """Two escapes leave at once, and what nobody waits for is stopped."""
        fake.validation.hold.clear()
        async with opened(fake) as pilot:
            await pilot.press("V")
            await until(pilot, lambda: "reward 0: leaves" in text(pilot))
            await pilot.press("escape", "escape")
            await until(pilot, lambda: isinstance(pilot.app.screen, ConversationsScreen))
            await settle(pilot)

    async def test_a_change_is_told(self, fake: ScreenProject) -> None:
        """When the project changes the tables stay, and it is said that they are from before."""
        async with opened(fake) as pilot:
            await press(pilot, "V")
            fake.emit(DataChanged(frozenset({"tree"})))
            await until(pilot, lambda: "the project has changed" in text(pilot))
            assert fake.validation.asked == 1
            await press(pilot, "r")
            assert "the project has changed" not in text(pilot)
            assert fake.validation.asked == 2

    async def test_a_problem(self, fake: ScreenProject) -> None:
        """An error is shown, and the screen says how to go on."""
        fake.validation.problem = UsageError("It cannot be read.", "Try again.")
        async with opened(fake) as pilot:
            await press(pilot, "V")
            assert "It cannot be read." in text(pilot)
            await press(pilot, "escape")
            assert "works it out again" in text(pilot)


class TestNothing:
    async def test_what_to_do(self, fake: ScreenProject) -> None:
        """With nothing to hold against anything it says what is missing and what gives it."""
        fake.validation.found = NOTHING
        async with opened(fake, size=(80, 24)) as pilot:
            await press(pilot, "V")
            assert "Nothing to validate yet." in text(pilot)
            assert "workbench run complete PROJECT" in text(pilot)
            await press(pilot, "right", "y", "X")
            await press(pilot, "escape")
            assert "Nothing to validate yet." in text(pilot)


class TestTaking:
    async def test_copy(self, fake: ScreenProject) -> None:
        """The table goes to the clipboard with tabs, intervals and conclusions."""
        async with opened(fake) as pilot:
            await press(pilot, "V", "right", "y")
            taken = pilot.app.clipboard
            assert taken == tab_separated(TREES, TREES.rows)
            assert taken.splitlines()[1].startswith("leaves\t0.6300\t0.5300\t0.7300")
            assert "no significant difference" in taken

    async def test_export(
        self, fake: ScreenProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Everything goes to the file that is named."""
        monkeypatch.chdir(tmp_path)
        async with opened(fake) as pilot:
            await press(pilot, "V", "X", "ctrl+u", *"a.json", "enter")
            assert (tmp_path / "a.json").read_text("utf-8") == REPORT.text + "\n"
            assert "Wrote a.json" in text(pilot)


class TestWords:
    def test_beside(self) -> None:
        """A measure is drawn beside the best baseline, a baseline beside the best measure, a method beside another."""
        leaves, _, length, _ = TREES.rows
        assert [
            one and one.name for one in (compared_row(TREES, leaves), compared_row(TREES, length))
        ] == [
            "length",
            "entropy_high",
        ]
        assert compared_row(GOALS, GOALS.rows[0]) is GOALS.rows[1]
        assert compared_row(replace(GOALS, rows=GOALS.rows[:1]), GOALS.rows[0]) is None

    def test_chance_column(self) -> None:
        """Only where chance was tested; above and below are told apart."""
        assert "chance" not in {column.key for column in report_columns(GOALS)}
        (chance,) = [column for column in report_columns(TREES) if column.key == "chance"]
        low = replace(TREES.rows[1], cells=TREES.rows[3].cells)
        told = [chance.cell((0, row))[0][0] for row in (TREES.rows[0], TREES.rows[1], low)]
        assert told == ["no", "above", "below"]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_hostile_names(
    fake: ScreenProject, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of adapters and clusterings come from outside: without the net, too, they are drawn and do nothing."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)

    def hostile(text: str) -> ReportTable:
        rows = tuple(
            replace(row, cells=(text, *row.cells[1:]), means=text, conclusions=(text,))
            for row in TREES.rows
        )
        plots = tuple(replace(plot, title=text, across=text) for plot in TREES.plots)
        return replace(
            TREES, title=text, notes=(text,), conclusions=(text,), rows=rows, plots=plots
        )

    texts = [" ".join(PAYLOADS.values()), *PAYLOADS.values()]
    missing = tuple(Missing("goals", text, text) for text in texts)
    fake.validation.found = ValidationReport(tuple(map(hostile, texts)), missing, "{}")
    async with opened(fake, size=size) as pilot:
        await press(pilot, "V", "enter")
        for nth in range(len(texts) + 1):
            check(pilot, f"page {nth}")
            await press(pilot, "right")
    fake.validation.found = ValidationReport((), missing, "{}")
    async with opened(fake, size=size) as pilot:
        await press(pilot, "V")
        check(pilot, "nothing")
