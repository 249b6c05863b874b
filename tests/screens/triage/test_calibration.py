"""The calibration screen: what the verdicts say, as numbers and as a plot."""

from __future__ import annotations

import re

from engine.base.conversation import Verdict
from engine.base.events import DataChanged
from screens.conversations.screen import ConversationsBehindScreen
from tests.engine.project.support import give_states
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.project import project_of
from tests.screens.samples import conversation
from tests.screens.triage.ordering import choose_order
from tests.screens.triage.test_triage import judged


class TestScreen:
    async def test_figures(self) -> None:
        """Every fact of the report stands there, and nothing is cut. Enter lists the verdicts with their numbers, and
        leads to the conversations behind one. Verdicts change nothing; `a` takes the threshold over that they propose,
        whose effect was told before."""
        support = judged(60, 120)
        report = support.calibration.report()
        before = support.conversations.counts()
        async with opened(support, (200, 60), mode="3") as pilot:
            await press(pilot, "K")
            for size in ((200, 60), (80, 24)):
                await pilot.resize_terminal(*size)
                await settle(pilot)
                shown = " ".join(text(pilot).replace("│", " ").split())
                for name, fact in report.facts():
                    assert " ".join(f"{name} {fact}".split()) in shown, size

            await press(pilot, "enter")
            await until(pilot, lambda: "18  succeeded: no" in text(pilot))
            await press(pilot, "down", "enter")
            behind = pilot.app.screen
            assert isinstance(behind, ConversationsBehindScreen)
            await until(pilot, lambda: len(behind.table.ids) == 18)
            await press(pilot, "escape")

            assert support.conversations.rule().source == "default"
            line = next(line for line in lines(pilot) if "→" in line)
            await press(pilot, "a")
            after = support.conversations.counts()
            assert support.conversations.rule().source == "calibrated"
            shares = [round(100 * found.above / found.scored) for found in (before, after)]
            assert f"{shares[0]}% → {shares[1]}% ended" in line
            assert shares[0] < shares[1]
            assert "in force (calibrated)" in text(pilot)
            assert "not suggested" in text(pilot)

    async def test_success(self) -> None:
        """Without verdicts it says what to do. What verdicts teach about success stands there with its test. Once there
        is a verdict triage begins with the most informative, and shows the probability on the card; once verdicts tell
        success, the least likely to have succeeded come next, unless a person chose the order."""
        support = project_of([conversation(n, 0.9) for n in range(1, 61)])
        give_states(support.file, {n: n % 2 == 0 for n in range(1, 61)})
        async with opened(support, (200, 60), mode="3") as pilot:
            await press(pilot, "K")
            assert "No scored conversation has a verdict yet" in text(pilot)
            assert "there, O and then “calibration” chooses a fair sample" in text(pilot)
        support.triage.give(2, Verdict.YES)
        async with opened(support, (200, 60), mode="3") as pilot:
            assert "most informative first" in text(pilot)
            for _ in range(30):
                key = pilot.app.screen.conversation  # type: ignore[attr-defined]
                await press(pilot, "c" if key % 2 == 0 else "i")
            support.example_probes.wait()
            await until(pilot, lambda: "AUROC of success" in text(pilot))
            assert "likely to have succeeded, by your verdicts" in text(pilot)
            assert re.search(
                r"least likely to have succeeded first · fitted to \d\d verdicts", text(pilot)
            )
            await choose_order(pilot, "informative")
            await until(pilot, lambda: "most informative first" in text(pilot))
            support.emit(DataChanged(frozenset({"example probes"})))
            await settle(pilot)
            assert "most informative first" in text(pilot)
            await press(pilot, "K")
            assert "on conversations drawn at random, 10 are needed" in text(pilot)
            assert "the success column" in text(pilot)

    async def test_verdicts_at_chance_propose_nothing(self) -> None:
        """Verdicts at chance leave the threshold as it is: the reason stands there, and `a` says it too."""
        support = judged(0)
        for number in range(1, 51):
            support.triage.give(number, Verdict.YES if number % 2 else Verdict.NO)
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K")
            assert "no better than chance" in text(pilot)
            await press(pilot, "a")
            assert "Your verdicts suggest no other threshold" in text(pilot)
            assert support.conversations.rule().source == "default"
