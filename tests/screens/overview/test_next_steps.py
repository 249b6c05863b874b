"""What is left to do, as the overview says it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from engine.records.calibration import Proposal
from engine.records.conversations import Counts
from engine.records.runs import Estimate, RunRow
from engine.records.scores import DecisionRule, ScoreSet
from engine.records.triage import Verdict
from screens.overview.next_steps import (
    ProjectProgress,
    next_steps,
    tightened,
    verdicts_half_width,
)

SCORED = Counts(conversations=1000, complete=600, incomplete=300, borderline=60, unscored=40)
COST = Estimate(40, 50_000, 1000.0, 50.0, "model")


def run(stage: str, number: int = 1) -> RunRow:
    """A run that was left at 120 of 812."""
    return RunRow(number, stage, "interrupted", "h", {}, {}, "0.1", "t", None, 120, 812, None)


def kinds(now: ProjectProgress) -> list[str]:
    """The kinds of the steps, in order."""
    return [step.kind for step in next_steps(now)]


class TestWhatIsOffered:
    def test_empty_project(self) -> None:
        """With nothing in the project there is one thing to do."""
        assert kinds(ProjectProgress(Counts(), {})) == ["import"]

    def test_everything_is_done(self) -> None:
        """Steps are never empty: when nothing is left, that is said."""
        counts = Counts(conversations=3, complete=3)
        tally = {Verdict.COMPLETE: 3}
        assert kinds(ProjectProgress(counts, tally, calibrated=True)) == ["wait"]

    def test_order(self) -> None:
        """What was interrupted comes first, in place of the scores that it gives, then verdicts."""
        now = ProjectProgress(SCORED, {}, interrupted=[run("complete")], to_score=COST)
        assert kinds(now) == ["resume", "triage"]

    @pytest.mark.parametrize(
        ("stage", "kind"), [("fit", "score"), ("remaining", "score"), ("propose", "cluster")]
    )
    def test_resuming_stands_for_the_same_work(self, stage: str, kind: str) -> None:
        """What resuming does is not offered a second time beside it; the raw name of the stage is not shown."""
        now = ProjectProgress(SCORED, {}, to_score=COST, clustered=False)
        assert kind in kinds(now)
        interrupted = replace(now, interrupted=[run(stage)])
        assert "resume" in kinds(interrupted)
        assert kind not in kinds(interrupted)
        assert f"Resume {stage}," not in next_steps(interrupted)[0].title

    def test_one_resumption_for_each_stage(self) -> None:
        """Of several interrupted runs of the same work only the newest is offered; they come newest first."""
        now = ProjectProgress(
            SCORED, {}, interrupted=[run("import"), run("remaining", 5), run("complete")]
        )
        resumed = [step.run.id for step in next_steps(now) if step.run is not None]
        assert resumed == [1, 5]

    def test_scoring_that_runs_is_not_offered_again(self) -> None:
        """While a scoring job runs no second one is offered."""
        assert "score" not in kinds(ProjectProgress(SCORED, {}, to_score=COST, scoring=True))

    def test_unscored_for_good(self) -> None:
        """Conversations that no run can score are not offered for ever."""
        nothing = Estimate(0, 0, None, 0.0, "model")
        assert "score" not in kinds(ProjectProgress(SCORED, {}, to_score=nothing))

    def test_a_proposed_threshold_is_offered_with_its_effect(self) -> None:
        """A threshold that the verdicts propose is a step that says what it would do to the rate, unless the rule is
        calibrated or pinned already."""
        tally = {Verdict.COMPLETE: 20, Verdict.INCOMPLETE: 20}
        proposal = Proposal(DecisionRule(0.62, 0.1, "calibrated"), 0.75, 0.62)
        assert "calibrate" not in kinds(ProjectProgress(SCORED, tally))
        now = ProjectProgress(SCORED, tally, proposal=proposal)
        (step,) = [step for step in next_steps(now) if step.kind == "calibrate"]
        assert step.title == "Take over the threshold .62 from your verdicts"
        assert step.time == "75% → 62% complete"
        assert "calibrate" not in kinds(replace(now, calibrated=True))

    def test_a_better_set_is_offered(self) -> None:
        """A tested set beside one that is not is offered by its number."""
        better = ScoreSet(2, "f", "probe", "m", None, 900, None, in_force=False)
        steps = next_steps(ProjectProgress(SCORED, {}, better=better))
        assert "Choose the scores of set 2, which are tested" in [step.title for step in steps]


class TestHowLong:
    def test_scoring_time_is_the_estimate(self) -> None:
        """The number to score and the time are those of the estimate."""
        score = next(
            s for s in next_steps(ProjectProgress(SCORED, {}, to_score=COST)) if s.kind == "score"
        )
        assert (score.title, score.time) == ("Score 40 conversations", "about 50 s")

    def test_scoring_that_cannot_be_done_says_why(self) -> None:
        """A reason stands in place of the time."""
        score = next_steps(ProjectProgress(SCORED, {}, to_score="There is no adapter."))[0]
        assert score.why_not == "There is no adapter."

    def test_verdicts_take_the_persons_own_time(self) -> None:
        """Twenty seconds each at first, then the pace that was measured."""
        first = next(s for s in next_steps(ProjectProgress(SCORED, {})) if s.kind == "triage")
        assert first.title.startswith("40 triage verdicts")
        assert first.time == "about 13 min"
        own = next(
            s for s in next_steps(ProjectProgress(SCORED, {}, per_hour=360)) if s.kind == "triage"
        )
        assert own.time == "about 7 min"

    def test_goals(self) -> None:
        """Where there are no goals, grouping is offered; proposals that wait come before verdicts, with their time."""
        now = ProjectProgress(SCORED, {}, clustered=True, proposals=27)
        assert kinds(now) == ["score", "merge", "triage"]
        (step,) = [step for step in next_steps(now) if step.kind == "merge"]
        assert (step.title, step.time) == ("27 merge proposals wait for you", "about 9 min")
        assert kinds(ProjectProgress(SCORED, {}, clustered=False))[-1] == "cluster"
        assert "cluster" not in kinds(ProjectProgress(SCORED, {}))

    def test_only_as_many_verdicts_as_there_are_conversations(self) -> None:
        """No more verdicts are asked for than conversations are left."""
        counts = Counts(conversations=3, complete=2, incomplete=1)
        step = next(
            s
            for s in next_steps(ProjectProgress(counts, {Verdict.COMPLETE: 2}))
            if s.kind == "triage"
        )
        assert step.title.startswith("1 triage verdict would")


class TestHowTight:
    def test_by_hand(self) -> None:
        """Half of 95% of a share of one half from 100 verdicts is 9.8 points."""
        assert verdicts_half_width(0.5, 100) == pytest.approx(0.098, abs=0.0005)

    def test_extreme_rates_promise_nothing(self) -> None:
        """A rate of 100% from few verdicts does not promise an interval of nothing."""
        assert verdicts_half_width(1.0, 10) > 0.1

    def test_four_times_the_verdicts_halve_it(self) -> None:
        """The interval shrinks with the square root of the verdicts."""
        assert tightened(0.1, 40, 120) == pytest.approx(0.05)
        assert math.isclose(tightened(0.1, 40, 0), 0.1)

    def test_corrected_interval_is_what_tightens(self) -> None:
        """With a corrected rate its own interval is the one that is promised to shrink."""
        tally = {Verdict.COMPLETE: 20, Verdict.INCOMPLETE: 20}
        now = ProjectProgress(SCORED, tally, half_width=0.10, calibrated=True)
        step = next(s for s in next_steps(now) if s.kind == "triage")
        assert step.title == "40 triage verdicts would tighten the rate to ± 7"
