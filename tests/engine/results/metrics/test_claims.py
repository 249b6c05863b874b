"""Tree figures against truths, and which truths a conversation has."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from engine.results.metrics import claims as truths
from engine.results.metrics.claims import claim_tables
from engine.results.metrics.uncertainty import (
    BASELINES,
    MEASURES,
    PLAIN,
    Case,
    TreeLogProbs,
    figures_of,
)
from engine.trees.records import TreeOptions, TreeRow
from engine.trees.stages import tree_row
from engine.trees.tree import leaf_log_probs, record
from tests.screens.trees.tree_project import grown, likely


def row(prompt: bytes = b"hi", alpha: float = 0.02) -> TreeRow:
    """The row of a tree of the toy model with a recorded answer."""
    tree = grown(prompt, TreeOptions(alpha, max_tokens=5), answer=likely(prompt, 4))
    return tree_row(1, 2, tree, 0.1)


class TestTruths:
    @pytest.mark.parametrize(
        ("truth", "claims"),
        [
            ({"reward": 0.0}, {"reward 0": True, "reward below 1": True}),
            ({"reward": 0.5}, {"reward 0": False, "reward below 1": True}),
            ({"reward": 1}, {"reward 0": False, "reward below 1": False}),
            ({"reward": True, "goal": "x"}, {}),
            ({"reward": "1", "complete": "yes"}, {}),
            ({"success": 0.9}, {"success below 1": True}),
            ({"success": 1.0}, {"success below 1": False}),
            ({"complete": False}, {"not complete": True}),
            ({"complete": True}, {"not complete": False}),
            (
                {"answerability": "UNDERSPECIFIED"},
                {"unanswerable or underspecified": True, "underspecified": True},
            ),
            (
                {"answerability": "unanswerable"},
                {"unanswerable or underspecified": True, "unanswerable": True},
            ),
            ({"answerability": "PARTIAL"}, {}),
        ],
    )
    def test_of_a_conversation(self, truth: dict[str, object], claims: dict[str, bool]) -> None:
        """The truths of a conversation as true or false; an undecided value is none."""
        assert truths.of_conversation(truth) == claims
        assert claims.keys() <= truths.CLAIMS.keys()

    def test_an_answerable_question_is_set_against_all(self) -> None:
        """An answerable question is the negative case of each of the three truths on answerability."""
        claims = truths.of_conversation({"answerability": "ANSWERABLE"})
        assert len(claims) == 3
        assert not any(claims.values())

    def test_of_answers(self) -> None:
        """Truths of answers are one for each assistant message, None where it was not judged; none at all where the
        numbers differ.
        """
        truth = {"hallucination": [False, None, True]}
        said = [{"hallucinated": False}, {}, {"hallucinated": True}]
        assert truths.of_answers(truth, 3) == said
        assert truths.of_answers(truth, 2) == [{}, {}]
        assert truths.of_answers({"reward": 1}, 1) == [{}]

    def test_satisfaction(self) -> None:
        """A satisfaction of up to 3 of 5 counts as not satisfied; both judgments of one answer are kept."""
        truth = {"satisfaction": [3, 4, None], "hallucination": [True, None, False]}
        assert truths.judges_answers(truth)
        assert truths.of_answers(truth, 3) == [
            {"hallucinated": True, "not satisfied": True},
            {"not satisfied": False},
            {"hallucinated": False},
        ]


class TestFigures:
    def test_all_are_there(self) -> None:
        """Every measure and baseline has a figure; the recorded answer's is per token."""
        odds = [0.5, 0.125, 0.25, 0.5]
        told = replace(row(), answer_log_prob=sum(map(math.log, odds)))
        found = figures_of(told, 120, TreeLogProbs([-1.0], [math.log(one) for one in odds]))
        assert found.keys() == {**MEASURES, **BASELINES}.keys()
        assert found["length"] == 120
        assert found["answer_tokens"] == 4
        assert found["perplexity"] == pytest.approx((2 * 8 * 4 * 2) ** (1 / 4))
        assert found["-mean_token_p"] == pytest.approx(-1.375 / 4)
        assert found["-min_token_p"] == pytest.approx(-0.125)

    def test_leaves_of_a_record(self) -> None:
        """The leaves read from the stored columns are those of the tree."""
        tree = grown(b"hi", TreeOptions(0.02, max_tokens=5)).tree
        found = leaf_log_probs(record(tree).as_frame()["columns"])
        assert sorted(found) == pytest.approx(
            sorted(tree.nodes[at].path_log_p for at in tree.leaves())
        )

    def test_each_grows_with_uncertainty(self) -> None:
        """Leaves, entropy and negative log-probabilities rise when the best answer gets less probable."""
        sure = row()
        unsure = replace(
            sure,
            leaves=sure.leaves + 1,
            answers=sure.answers + 1,
            max_log_prob=(sure.max_log_prob or 0) - 1,
            covered=sure.covered - 0.1,
            entropy=sure.entropy + 1,
            answer_log_prob=(sure.answer_log_prob or 0) - 1,
        )
        low = figures_of(sure, 1, TreeLogProbs([-0.5], [-0.1, -0.2]))
        high = figures_of(unsure, 2, TreeLogProbs([-0.6], [-0.1, -0.9]))
        for name in (*MEASURES, *PLAIN):
            first, second = low[name], high[name]
            assert first is not None
            assert second is not None
            assert first < second


class TestTables:
    CASES = tuple(
        Case(
            n,
            {"leaves": n, "fork_entropy": 1.0, "answer_tokens": n if n > 2 else None},
            {"reward 0": n > 4},
        )
        for n in range(1, 9)
    )

    def test_a_claim(self) -> None:
        """A table has a row for each figure over the cases that have it: a perfect one, one by chance, and one over six
        cases.
        """
        (table,) = claim_tables(self.CASES, ["reward 0", "not complete"])
        assert (table.claim, table.holds, table.fails) == ("reward 0", 4, 4)
        rows = {one.figure: one for one in table.rows}
        assert rows["leaves"].area.value == 1
        assert rows["fork_entropy"].area.value == 0.5
        assert rows["fork_entropy"].average_precision.value == 0.5
        assert (rows["answer_tokens"].positives, rows["answer_tokens"].negatives) == (4, 2)
