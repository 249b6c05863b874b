"""The calibration screen: what the verdicts say, as numbers and as a plot, and the pin."""

from __future__ import annotations

import pytest

from engine.base.conversation import Verdict
from engine.base.statistics.intervals import Interval, wilson
from engine.questions.records import ReliabilityBin
from screens.conversations.screen import ConversationsBehindScreen
from screens.triage.calibration_formatting import (
    axis_line,
    format_estimate,
    format_threshold,
    plot_cells,
)
from tests.engine.project.support import give_states
from tests.screens.driving import Size, lines, opened, press, text, until
from tests.screens.project import ScreenProject, project_of
from tests.screens.samples import conversation


def judged(verdicts: int, count: int = 120) -> ScreenProject:
    """Scores all over, the first so many judged by a person who draws the line at .3."""
    steps = [n * 0.618 % 1 for n in range(1, count + 1)]
    support = project_of([conversation(n, round(p, 3)) for n, p in enumerate(steps, 1)])
    for n, p in enumerate(steps[:verdicts], 1):
        support.triage.give(n, Verdict.YES if p >= 0.3 else Verdict.NO)
    return support


class TestScreen:
    @pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
    async def test_figures(self, size: Size) -> None:
        """Threshold, recall, precision and the corrected rate stand there with intervals, on every size at once."""
        support = judged(60)
        async with opened(support, size, mode="3") as pilot:
            await press(pilot, "K")
            shown = text(pilot)
            for words in ("42 complete", "18 incomplete", "they represent 100% of the scores"):
                assert words in shown
            assert "verdicts suggest" in shown
            assert "all scored    your verdicts" in shown
            for name in ("recall", "precision", "specificity"):
                line = next(line for line in lines(pilot) if name in line)
                assert "% (" in line
                assert " of " in line
            assert "complete, errors corrected" in shown
            assert "calibration error" in shown
            assert "100%▏" in shown
            assert "everything" in shown

    async def test_verdicts_lead_to_their_conversations(self) -> None:
        """Enter lists the verdicts with their numbers, and leads to the conversations behind one."""
        support = judged(60)
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K", "enter")
            await until(pilot, lambda: "18  succeeded: no" in text(pilot))
            await press(pilot, "down", "enter")
            behind = pilot.app.screen
            assert isinstance(behind, ConversationsBehindScreen)
            await until(pilot, lambda: len(behind.table.ids) == 18)

    async def test_success(self) -> None:
        """What verdicts teach about success stands there with its test; what newer ones would change stands beside it,
        and only `s` takes it over. Once there is a verdict triage begins with the most informative, and shows the
        probability on the card."""
        support = project_of([conversation(n, 0.9) for n in range(1, 61)])
        give_states(support.file, {n: n % 2 == 0 for n in range(1, 61)})
        async with opened(support, (200, 60), mode="3") as pilot:
            await press(pilot, "K")
            assert "No scored conversation has a verdict yet" in text(pilot)
        support.triage.give(2, Verdict.YES)
        async with opened(support, (200, 60), mode="3") as pilot:
            assert "most informative first" in text(pilot)
            for keys, wanted in ((30, "AUROC of success"), (6, "newer verdicts would change")):
                for _ in range(keys):
                    key = pilot.app.screen.conversation  # type: ignore[attr-defined]
                    await press(pilot, "c" if key % 2 == 0 else "i")
                support.example_probes.wait()
                await until(pilot, lambda wanted=wanted: wanted in text(pilot))  # type: ignore[misc]
            assert "likely to have succeeded, by your verdicts" in text(pilot)
            await press(pilot, "K")
            assert "succeeded, errors corrected" in text(pilot)
            assert "newer verdicts:" in text(pilot)
            change = support.example_probes.change()
            assert change is not None
            await press(pilot, "s")
            assert support.example_probes.in_force() == change.then
            await until(pilot, lambda: "newer verdicts:" not in text(pilot))
            await press(pilot, "s")
            assert "No newer verdicts wait" in text(pilot)

    async def test_filters(self) -> None:
        """Saved filters have their own line; without any it is said where they are saved."""
        support = judged(60)
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K")
            assert "Filters saved in the list" in text(pilot)
        support.saved.save_filter("from support", "source:support")
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K")
            line = next(line for line in lines(pilot) if "from support" in line)
            assert "120" in line
            assert "100%" in line

    async def test_nothing_judged(self) -> None:
        """Without verdicts it says what to do; without conversations that an import comes first."""
        async with opened(judged(0), mode="3") as pilot:
            await press(pilot, "K")
            assert "there, O and then “calibration” chooses a fair sample" in text(pilot)
        async with opened(project_of([]), mode="3") as pilot:
            await press(pilot, "K")
            assert "No conversations yet" in text(pilot)

    async def test_pin_and_free(self) -> None:
        """`p` pins a threshold, after which the verdicts still propose theirs; `p` again frees it."""
        support = judged(60)
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K", "p", *"0.6", "enter")
            assert (
                support.conversations.rule().threshold,
                support.conversations.rule().source,
            ) == (
                0.6,
                "chosen",
            )
            assert ".60 in force, pinned" in text(pilot)
            assert "verdicts suggest ." in text(pilot)

            await press(pilot, "p")
            assert support.conversations.rule().source == "default"
            assert ".50 in force, the default" in text(pilot)

    async def test_a_proposal_is_taken_over_by_a_key(self) -> None:
        """Verdicts change nothing; `a` takes the threshold over that they propose, whose effect was told before."""
        support = judged(60)
        before = support.conversations.counts()
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K")
            assert support.conversations.rule().source == "default"
            line = next(line for line in lines(pilot) if "verdicts suggest" in line)
            await press(pilot, "a")
            after = support.conversations.counts()
            assert support.conversations.rule().source == "calibrated"
            shares = [round(100 * found.above / found.scored) for found in (before, after)]
            assert f"{shares[0]}% → {shares[1]}% ended" in line
            assert shares[0] < shares[1]
            assert "from your verdicts" in text(pilot)
            assert "verdicts suggest" not in text(pilot)

    async def test_verdicts_at_chance_propose_nothing(self) -> None:
        """Verdicts at chance leave the threshold as it is: the reason stands there, and `a` says it too."""
        support = judged(0)
        for number in range(1, 51):
            support.triage.give(number, Verdict.YES if number % 2 else Verdict.NO)
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K")
            assert "no better than by chance" in text(pilot)
            await press(pilot, "a")
            assert "Your verdicts suggest no other threshold" in text(pilot)
            assert support.conversations.rule().source == "default"


class TestPlot:
    def test_points_intervals_and_diagonal(self) -> None:
        """A point stands at its mean score and share, its interval above and below, the diagonal behind."""
        bins = [ReliabilityBin(0.7, 0.8, 0.75, wilson(2, 8))]
        cells = plot_cells(bins, None, width=20, height=10)
        drawn = ["".join(char for char, _ in row) for row in cells]
        assert drawn[7][15] == "●"  # .25 of ten rows is the eighth from above
        assert drawn[6][15] == drawn[5][15] == "│"
        assert drawn[2][15] == "·"  # the diagonal, where this point should be
        assert [row.count("·") for row in drawn].count(2) >= 8

    def test_threshold(self) -> None:
        """The threshold is a line across the whole plot, and its number stands under it."""
        cells = plot_cells([], 0.5, width=20, height=6)
        assert all(row[10][0] == "┊" for row in cells)
        assert axis_line(0.5, 20)[9:14] == " .50 "
        assert axis_line(0.999, 20).endswith("1.0 ")
        assert axis_line(None, 20)[0] == "0"

    def test_ends(self) -> None:
        """Shares and scores of 0 and 1 lie inside the plot."""
        bins = [
            ReliabilityBin(0, 0.1, 0.0, wilson(0, 3)),
            ReliabilityBin(0.9, 1, 1.0, wilson(3, 3)),
        ]
        cells = plot_cells(bins, 1.0, width=12, height=5)
        assert cells[4][0][0] == "●"
        assert cells[0][11][0] == "●"


def test_words() -> None:
    """Estimates are written with their interval, thresholds near an end with a digit more."""
    assert format_estimate(Interval(0.916, 0.81, 0.968)) == "92% (81–97)"
    assert format_estimate(None) == "–"
    assert [format_threshold(p) for p in (0.47, 0.0042, 1.0)] == [".47", ".004", "1.0"]
