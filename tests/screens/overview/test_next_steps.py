"""What is left to do, as the overview says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.conversation import Verdict
from engine.completeness.records import DecisionRule, ScoreSet
from engine.goals.records import ReviewProgress
from engine.opener.conversations import Counts
from engine.project.records import Estimate, RunRow
from engine.questions.records import Agreement, Proposal
from screens.overview.next_steps import PATH, ProjectProgress, Step, count_done_of_path, next_steps

SCORED = Counts(conversations=1000, complete=600, incomplete=300, borderline=60, unscored=40)
MERGES = ReviewProgress(left=36, to_merge=2.6, likely=4, agreement=Agreement(0))
COST = Estimate(40, 50_000, 1000.0, 50.0, "model")


def run(stage: str, number: int = 1) -> RunRow:
    """A run that was left at 120 of 812."""
    return RunRow(number, stage, "interrupted", "h", {}, {}, "t", None, 120, 812, None)


def kinds(now: ProjectProgress) -> list[str]:
    """The kinds of the steps that can be done now, in order."""
    return [step.kind for step in next_steps(now) if not step.done and not step.after]


def only(now: ProjectProgress, kind: str) -> Step:
    """The one step of a kind."""
    (step,) = [step for step in next_steps(now) if step.kind == kind]
    return step


DONE = ProjectProgress(
    Counts(conversations=300, complete=200, incomplete=100),
    {Verdict.YES: 150, Verdict.NO: 150},
    calibrated=True,
    goals=9,
    merges=ReviewProgress(agreement=Agreement(0)),
)


class TestPath:
    def test_every_step_is_there_with_its_state(self) -> None:
        """All steps of the path are shown in every state of a project: those to do, those that wait, those done."""
        new = ProjectProgress(Counts(), {}, goals=0)
        scored = ProjectProgress(SCORED, {}, to_score=COST, goals=0)
        grouped = replace(scored, goals=9, merges=MERGES)
        for now in (new, scored, grouped, DONE):
            assert {step.kind for step in next_steps(now)} >= set(PATH)

    def test_order(self) -> None:
        """What can be done comes first in the order of the path, then what waits for it, then what is done."""
        now = ProjectProgress(SCORED, {}, to_score=COST, goals=9, merges=MERGES)
        steps = next_steps(now)
        ready = ["score", "triage", "merge", "export"]
        assert [step.kind for step in steps] == [*ready, "import", "cluster"]
        assert count_done_of_path(steps) == 2

    def test_what_waits_says_for_what(self) -> None:
        """A step that cannot be done yet names the step before it."""
        now = ProjectProgress(SCORED, {}, goals=0)
        assert only(now, "merge").after == "after clustering"
        assert only(ProjectProgress(Counts(), {}, goals=0), "triage").after == "after scoring"

    def test_everything_is_done(self) -> None:
        """At the end of the path an export is left; the rest is done and says with what result."""
        assert kinds(DONE) == ["export"]
        steps = next_steps(DONE)
        assert count_done_of_path(steps) == len(PATH) - 1
        assert "Judge: 300 verdicts" in [step.title for step in steps]

    def test_work_that_runs_is_not_offered(self) -> None:
        """While scoring or clustering runs, a line says so in its place."""
        now = ProjectProgress(SCORED, {}, to_score=COST, goals=0)
        busy = next_steps(replace(now, working=frozenset({"scoring", "clustering"})))
        assert [step.kind for step in busy if step.kind in ("score", "cluster")] == []
        assert sum(step.kind == "wait" for step in busy) == 2


class TestWhatIsOffered:
    @pytest.mark.parametrize(
        ("stage", "kind"), [("fit", "score"), ("remaining", "score"), ("propose", "cluster")]
    )
    def test_resuming_stands_for_the_same_work(self, stage: str, kind: str) -> None:
        """What resuming does is not offered a second time beside it; the raw name of the stage is not shown."""
        now = ProjectProgress(SCORED, {}, to_score=COST, goals=0)
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

    def test_a_proposed_threshold_is_offered_with_its_effect(self) -> None:
        """A threshold that the verdicts suggest is a step that says what it would do to the rate, unless the rule is
        calibrated or pinned already."""
        tally = {"yes": 20, "no": 20}
        proposal = Proposal(DecisionRule(0.62, 0.1, "calibrated"), 0.75, 0.62)
        assert "calibrate" not in kinds(ProjectProgress(SCORED, tally))
        now = ProjectProgress(SCORED, tally, proposal=proposal)
        (step,) = [step for step in next_steps(now) if step.kind == "calibrate"]
        assert step.title == "Take over the threshold .62 from your verdicts"
        assert step.time == "75% → 62% ended"
        assert "calibrate" not in kinds(replace(now, calibrated=True))

    def test_a_better_set_is_offered(self) -> None:
        """A tested set beside one that is not is offered by its number."""
        better = ScoreSet(2, "f", "probe", "m", None, 900, None, in_force=False)
        steps = next_steps(ProjectProgress(SCORED, {}, better=better))
        assert "Choose the scores of set 2, which are tested" in [step.title for step in steps]


class TestHowMuch:
    def test_scoring_that_cannot_be_done_says_why(self) -> None:
        """A reason stands in place of the time."""
        score = next_steps(ProjectProgress(SCORED, {}, to_score="There is no adapter."))[0]
        assert score.why_not == "There is no adapter."

    def test_the_first_verdicts(self) -> None:
        """Twenty at first, then as many as are left of them."""
        first = only(ProjectProgress(SCORED, {}), "triage")
        assert first.title == "Judge 20 in triage: did they get what they wanted?"
        begun = only(ProjectProgress(SCORED, {Verdict.YES: 7}), "triage")
        assert begun.title == "Judge 13 more in triage: did they get what they wanted?"

    def test_only_as_many_verdicts_as_there_are_conversations(self) -> None:
        """No more verdicts are asked for than conversations are left."""
        counts = Counts(conversations=3, complete=2, incomplete=1)
        step = only(ProjectProgress(counts, {Verdict.YES: 2}), "triage")
        assert step.title.startswith("Judge 1 more")
        assert only(ProjectProgress(counts, {Verdict.YES: 3}), "triage").done
