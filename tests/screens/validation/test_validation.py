"""The validation screen: pages, rows and curves, progress and cancel, what it gives away, what it says of nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.report_table import ReportTable
from engine.conversations.filters import ListQuery
from engine.results.records import Missing, ValidationProgress, ValidationReport
from screens.shell.base_app import ControlGuard
from screens.validation import ValidationScreen, compared_row, figures_of
from screens.widgets.report_columns import first_figure
from tests.screens.driving import lines, opened, press, text, until
from tests.screens.project import ScreenProject
from tests.screens.test_hostile_text import check
from tests.screens.validation.validation_project import held, validated
from tests.terminal.payloads import PAYLOADS


@pytest.fixture
def made() -> ScreenProject:
    """A project with gold goals, rewards and trees."""
    return validated()


def report_of(made: ScreenProject) -> ValidationReport:
    """What the validation of a project says."""
    return made.validation.report(ValidationProgress())


class TestPages:
    @pytest.mark.parametrize("size", [(80, 24), (200, 60)])
    async def test_a_page_each(self, made: ScreenProject, size: tuple[int, int]) -> None:
        """V opens the first table; right and left go round through all of them and what is missing."""
        async with opened(made, size=size) as pilot:
            await press(pilot, "V")
            assert "1 of 3" in text(pilot)
            assert "as it stands" in text(pilot)
            await press(pilot, "right")
            assert "uncertainty against reward 0" in text(pilot)
            assert "-max_logprob" in text(pilot)
            await press(pilot, "right")
            assert "what is missing for more (1)" in text(pilot)
            assert "Nothing is scored yet" in text(pilot)
            await press(pilot, "right", "left")
            assert "3 of 3" in text(pilot)
            await press(pilot, "left")
            assert "2 of 3" in text(pilot)

    async def test_the_row_under_the_cursor(self, made: ScreenProject) -> None:
        """Moving the cursor draws another curve and says what can be concluded of it, beside the best of the other
        kind."""
        async with opened(made, size=(120, 40)) as pilot:
            await press(pilot, "V", "right")
            assert "ROC leaves" in text(pilot)
            assert "leaves .86 against perplexity" in text(pilot)
            assert "drawn faintly: perplexity" in text(pilot)
            before = [line for line in lines(pilot) if "│" in line]
            await press(pilot, "end")
            assert "ROC perplexity" in text(pilot)
            assert "drawn faintly: leaves" in text(pilot)
            assert [line for line in lines(pilot) if "│" in line] != before


class TestWork:
    async def test_progress_and_cancel(self, made: ScreenProject) -> None:
        """While it works it says at what; escape stops it, and r begins again."""
        validation = held(made)
        validation.hold.clear()
        async with opened(made) as pilot:
            await pilot.press("V")
            await until(pilot, lambda: "working it out: reward 0: leaves" in text(pilot))
            await pilot.press("escape")
            await until(pilot, lambda: "Cancelled." in text(pilot))
            assert isinstance(pilot.app.screen, ValidationScreen)
            validation.hold.set()
            await press(pilot, "r")
            assert "1 of 3" in text(pilot)
            assert validation.asked == 2


class TestWords:
    def test_beside(self, made: ScreenProject) -> None:
        """A measure is drawn beside the best baseline, a baseline beside the best measure, a method beside another."""
        goals, trees = report_of(made).tables
        best = {
            kind: max((row for row in trees.rows if row.kind == kind), key=first_figure)
            for kind in ("measure", "baseline")
        }
        for row in trees.rows:
            other = "measure" if row.kind == "baseline" else "baseline"
            assert compared_row(trees, row) is best[other]
        assert compared_row(goals, goals.rows[0]) is goals.rows[1]
        assert compared_row(replace(goals, rows=goals.rows[:1]), goals.rows[0]) is None

    def test_the_conversations_behind_a_table(self, made: ScreenProject) -> None:
        """The filters of a table match as many conversations as its notes say."""
        goals, trees = report_of(made).tables
        for table, note in ((goals, "{} conversations"), (trees, "{} yes, {} no")):
            numbers = [
                len(made.conversations.ids(ListQuery(figure.filter)))
                for figure in figures_of(table)
            ]
            told = [sum(numbers)] if table is goals else numbers
            assert any(note.format(*told) in line for line in table.notes), (told, table.notes)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_hostile_names(
    made: ScreenProject, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of adapters and clusterings come from outside: without the net, too, they are drawn and do nothing."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    trees = report_of(made).tables[1]

    def hostile(text: str) -> ReportTable:
        rows = tuple(
            replace(row, cells=(text, *row.cells[1:]), description=text)
            for row in (*trees.rows[:2], *trees.rows[-2:])
        )
        plots = tuple(replace(plot, title=text, x_title=text) for plot in trees.plots)
        return replace(
            trees, title=text, notes=(text,), conclusions=(text,), rows=rows, plots=plots
        )

    texts = [" ".join(PAYLOADS.values()), *PAYLOADS.values()]
    missing = tuple(Missing("goals", text, text) for text in texts)
    validation = held(made)
    validation.given = ValidationReport(tuple(map(hostile, texts)), missing, "{}")
    async with opened(made, size=size) as pilot:
        await press(pilot, "V", "enter")
        for nth in range(len(texts) + 1):
            check(pilot, f"page {nth}")
            await press(pilot, "right")
    validation.given = ValidationReport((), missing, "{}")
    async with opened(made, size=size) as pilot:
        await press(pilot, "V")
        check(pilot, "nothing")
