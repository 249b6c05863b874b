"""A person reviews the decisions of a model: agrees, decides otherwise, undoes."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.goals.merges.merge_state import after_reviews
from engine.goals.records import DecisionKind, Evidence, GoalDecision, PairAnswer, Proposal
from engine.goals.service.merge_review import MergeReviewService
from engine.goals.views.decision_log import DecisionLog
from engine.project.project import Project
from tests.engine.goals.service.goal_project import cluster, stored_review

ANSWER = PairAnswer(yes=1.0, reason="Yes, alike.", label="Both", model="m", spoken=True)
EVIDENCE = Evidence(0.4, 0.5, 0.6, 0.1, ANSWER, {"closeness": 0.3, "description": 0.4}).as_json()


@pytest.fixture
def groups(review: MergeReviewService, clustered: Project) -> list[str]:
    """Six groups: a model merged the first two into the fifth, the third to that into the sixth, and kept the fourth
    apart from it."""
    first, second, third, fourth = (group.id for group in review.goals.groups()[:4])

    def decide(kind: DecisionKind, *sides: str) -> str:
        names = (("Both", ""),) if kind == "merge" else ()
        decision = GoalDecision(kind, sides, names, author="llm", model="m", evidence=EVIDENCE)
        key = review.goals.view().stored.id
        (stored,) = DecisionLog(clustered).decide(key, lambda state: [decision])
        return "".join(stored.made_groups)

    both = decide("merge", first, second)
    three = decide("merge", both, third)
    decide("apart", three, fourth)
    return [first, second, third, fourth, both, three]


def next_decision(review: MergeReviewService) -> Proposal:
    """The decision that is to be reviewed next, with the groups of then."""
    proposal = review.proposal([p.pair for p in review.above(0)])
    assert proposal is not None
    assert proposal.reviewed_decision is not None
    return proposal


def label(review: MergeReviewService, key: str) -> str:
    """The label of a current or former group."""
    group = review.goals.group(key)
    return "" if group is None else group.label


def counts(review: MergeReviewService) -> tuple[int, int, int, int]:
    """Merged and refused by the model, then by the person."""
    progress = review.progress()
    return progress.merged_by_model, progress.refused_by_model, progress.merged, progress.refused


def test_one_by_one(review: MergeReviewService, groups: list[str]) -> None:
    """Merges come first, then refusals; what a person agrees with counts as the person's, until it is undone."""
    assert counts(review) == (2, 1, 0, 0)
    assert review.goals.merges() == Counter({"llm": 2})
    proposal = next_decision(review)
    assert set(proposal.pair) == set(groups[:2])
    assert proposal.evidence.answer == ANSWER
    assert proposal.after.unscored + proposal.after.scored == proposal.a.size + proposal.b.size
    assert review.merge(proposal, "Better").kind == "agree"
    assert label(review, groups[4]) == "Both"  # it is a part of another by now
    assert set(next_decision(review).pair) == {groups[4], groups[2]}
    review.merge(next_decision(review), "Best")
    assert label(review, groups[5]) == "Best"
    assert set(next_decision(review).pair) == {groups[5], groups[3]}
    review.apart(next_decision(review))
    assert counts(review) == (0, 0, 2, 1)
    assert review.progress().to_review == 0
    assert review.goals.merges() == Counter({"human": 2})
    assert review.progress().learned_from == 3
    for _ in range(3):
        review.undo()
    assert counts(review) == (2, 1, 0, 0)
    assert [d.kind for d in review.history() if d.active] == ["apart", "merge", "merge"]


def test_a_merge_that_was_wrong(review: MergeReviewService, groups: list[str]) -> None:
    """A merge that a person refuses is taken back with all that builds on the group that it made; undo brings all of it
    back."""
    before = {group.id for group in review.goals.groups()}
    review.apart(next_decision(review))
    now = {group.id for group in review.goals.groups()}
    assert now == before - {groups[5]} | {*groups[:3]}
    assert counts(review) == (0, 0, 0, 1)
    assert review.progress().to_review == 0
    assert review.goals.view().state.is_kept_apart(groups[0], groups[1])
    assert len(review.goals.clusterings()) == 1
    assert review.goals.clusterings()[0].groups == len(now)
    review.undo()
    assert {group.id for group in review.goals.groups()} == before
    assert review.progress().to_review == 3


def test_reviews_go_with_the_members(
    clustered: Project, review: MergeReviewService, groups: list[str]
) -> None:
    """Clustering again takes over what a person agreed with, as the person's, and not what only a model decided."""
    review.merge(next_decision(review))
    cluster(clustered, seed=3)
    again = stored_review(clustered)
    assert {d.author for d in again.history() if d.transferred} <= {"human"}
    assert again.progress().merged_by_model == 0


def test_what_builds_on_what() -> None:
    """A replaced decision takes with it, through several steps, what is about groups that it made; others stay."""
    decisions = [
        GoalDecision("merge", ("c0", "c1"), (("a", ""),), author="llm", id=1),
        GoalDecision("merge", ("d1", "c2"), (("b", ""),), id=2),
        GoalDecision("rename", ("d2",), (("c", ""),), id=3),
        GoalDecision("pin", ("c3",), id=4),
        GoalDecision("never", ("c0", "c1"), reviewed=1, id=5),
    ]
    assert [d.active for d in after_reviews(decisions)] == [False, False, False, True, True]
    decisions[-1] = GoalDecision("agree", ("c0", "c1"), (("a", ""),), reviewed=1, id=5)
    agreed = after_reviews(decisions)
    assert [d.decided_by for d in agreed][:2] == ["human", "human"]
    assert all(d.active for d in agreed)
