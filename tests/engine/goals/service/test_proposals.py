"""Merge proposals of a project file: their order, and how the merge probability learns from decisions."""

from __future__ import annotations

import sqlite3
from collections import Counter

import numpy as np
import pytest

from engine.goals.merges.merge_probability import NAMES
from engine.goals.records import Pair, PairAnswer
from engine.goals.service.groups import GoalService
from engine.goals.service.merge_review import MergeReviewService
from engine.goals.tables import decisions
from engine.goals.tables.decisions import AnswerEntry
from engine.goals.views.decision_log import DecisionLog
from engine.project.project import Project
from tests.engine.goals.service.goal_project import TOPICS, members, merge_rightly, topic_of


def answer_pair(project: Project, goals: GoalService, pair: Pair) -> None:
    """Stores a model's answer on a pair: yes in both orders, with a label."""
    view = goals.view()
    answer = PairAnswer(0.9, 0.8, "They are alike.", "Alike", "They want it.", "tiny.gguf")
    entry = AnswerEntry(view.state.sides_key(*pair), answer, 4, 2.0)

    def store(conn: sqlite3.Connection) -> None:
        decisions.show_answers(conn, view.stored.id, "asked")
        decisions.add_answers(conn, "asked", 1, [entry])

    project.write(store)


class TestProposals:
    def test_a_proposal(self, review: MergeReviewService) -> None:
        """A proposal is two present groups, the larger first, with the evidence and the states of both."""
        proposal = review.proposal()
        assert proposal is not None
        a, b, evidence = proposal.a, proposal.b, proposal.evidence
        assert a.size >= b.size
        assert 0 < evidence.probability < 1
        assert -1 <= evidence.member_similarity <= 1
        assert 0 <= evidence.overlap <= 1
        assert evidence.answer.model == ""
        after = proposal.after
        states = (after.complete, after.incomplete, after.borderline, after.unscored)
        assert sum(states) == a.size + b.size
        assert review.pair(b.id, a.id).pair == proposal.pair

    def test_a_merge_while_a_proposal_is_read(
        self, review: MergeReviewService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A merge that is stored after the undecided pairs were read takes no group from the proposal."""
        shown, queue = review.proposal(), review._queue()
        assert shown is not None
        review.merge(shown)
        monkeypatch.setattr(review, "_queue", lambda: queue)
        assert review.pair(*shown.pair).pair == shown.pair

    def test_the_queue_ends(self, goals: GoalService, review: MergeReviewService) -> None:
        """Decided by the topics, the queue ends, reports it, and leaves one group for each topic."""
        assert not review.progress().finished
        answered = merge_rightly(review)
        progress = review.progress()
        assert (progress.finished, progress.left) == (True, 0)
        assert progress.merged + progress.refused == answered
        assert progress.learned_from == answered
        found = Counter(topic_of(goals, row.id) for row in goals.groups())
        assert found == dict.fromkeys(TOPICS, 1)

    def test_it_learns(self, goals: GoalService, review: MergeReviewService) -> None:
        """After refusals of pairs of two topics other such pairs are less probable, and a merge raises similar pairs;
        undone decisions do not count.
        """

        def probabilities(alike: bool) -> dict[Pair, float]:
            return {
                p.pair: p.evidence.probability
                for p in review.above(0)
                if (topic_of(goals, p.pair[0]) == topic_of(goals, p.pair[1])) == alike
            }

        before = probabilities(False)
        for a, b in list(before)[:3]:
            review.apart(review.pair(a, b))
        after = probabilities(False)
        assert len(after) == len(before) - 3
        assert np.mean(list(after.values())) < np.mean([before[pair] for pair in after])
        assert review.progress().learned_from == 3
        same = probabilities(True)
        review.merge(review.pair(*next(iter(same))))
        assert review.progress().learned_from == 4
        while review.undo() is not None:
            pass
        assert review.progress().learned_from == 0
        assert probabilities(False) == pytest.approx(before)

    def test_answers_of_a_model(
        self, clustered: Project, goals: GoalService, review: MergeReviewService
    ) -> None:
        """A model's answer is evidence for exactly these members: gone when a member moves, back when that is undone;
        its label is proposed, and its agreement with the person is counted.
        """
        proposal = review.proposal()
        assert proposal is not None
        a, b = proposal.pair
        answer_pair(clustered, goals, (a, b))
        evidence = review.pair(a, b).evidence
        answer = evidence.answer
        assert (answer.yes, answer.yes_reversed, answer.model) == (0.9, 0.8, "tiny.gguf")
        assert evidence.probability > proposal.evidence.probability
        progress = review.progress()
        assert (progress.unasked, progress.seconds) == (
            progress.likely - 1,
            2.0 * (progress.likely - 1),
        )
        review.move([sorted(members(goals, a))[0]], None)
        assert review.pair(a, b).evidence.answer.yes is None
        review.undo()
        assert review.pair(a, b).evidence.answer.yes == 0.9
        done = review.merge(review.pair(a, b))
        assert (done.model, done.probability) == ("tiny.gguf", evidence.probability)
        group = goals.group(done.made_groups[0])
        assert group is not None
        assert (group.label, group.description) == ("Alike", "They want it.")
        assert review.progress().agreement.n == review.agreements()["tiny.gguf", ""].n == 1

    def test_the_proposal_that_was_shown_is_stored(
        self, clustered: Project, goals: GoalService, review: MergeReviewService
    ) -> None:
        """An answer that arrives between showing a pair and deciding on it does not change what is stored: evidence,
        probability, features, label and order of the groups are those that the person saw.
        """
        shown = review.proposal()
        assert shown is not None
        answer_pair(clustered, goals, shown.pair)
        now = review.pair(*shown.pair)
        assert now.evidence.probability != shown.evidence.probability
        given = review.merge(shown)
        (stored,) = DecisionLog(clustered).active(goals.view().stored.id)
        assert stored.evidence == shown.evidence.as_json()
        assert set(shown.evidence.features) == set(NAMES)
        assert shown.evidence.features["yes"] is None
        assert now.evidence.features["yes"] is not None
        assert (stored.probability, stored.model) == (shown.evidence.probability, "")
        assert (stored.kind, stored.sides, given.probability) == ("merge", shown.pair, stored.probability)  # fmt: skip
        assert stored.names[0][0] in (shown.a.label, shown.b.label)
