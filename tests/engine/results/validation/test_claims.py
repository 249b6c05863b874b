"""Tree figures against truths, and which truths a conversation has."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from engine.results.validation import claims as truths
from engine.results.validation.claims import BASELINES, MEASURES, Case, claim_tables, figures_of
from engine.trees.records import TreeOptions, TreeRow
from engine.trees.stages import tree_row
from tests.screens.trees.tree_project import grown, likely


def row(prompt: bytes = b"hi", alpha: float = 0.02) -> TreeRow:
    """The row of a tree of the toy model with a recorded answer."""
    tree = grown(prompt, TreeOptions(alpha, max_tokens=5), answer=likely(prompt, 4))
    return tree_row(1, 2, tree)


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
        assert truths.claims_of(truth) == claims
        assert claims.keys() <= truths.CLAIMS.keys()

    def test_an_answerable_question_is_set_against_all(self) -> None:
        """An answerable question is the negative case of each of the three truths on answerability."""
        claims = truths.claims_of({"answerability": "ANSWERABLE"})
        assert len(claims) == 3
        assert not any(claims.values())


class TestFigures:
    def test_all_are_there(self) -> None:
        """Every measure and baseline has a figure; perplexity is per token of the recorded answer."""
        told = replace(row(), answer_log_prob=math.log(0.5 * 0.125 * 0.25 * 0.5))
        found = figures_of([told], 120)
        assert found.keys() == {**MEASURES, **BASELINES}.keys()
        assert found["length"] == 120
        assert found["perplexity"] == pytest.approx((2 * 8 * 4 * 2) ** (1 / 4))

    def test_several_trees(self) -> None:
        """A conversation with several trees has the greatest value of each figure."""
        trees = [replace(row(), leaves=leaves, answer_log_prob=None) for leaves in (3, 9, 5)]
        found = figures_of(trees, 1)
        assert (found["leaves"], found["perplexity"]) == (9, None)

    def test_each_grows_with_uncertainty(self) -> None:
        """Leaves, entropy and negative log-probabilities rise when the best answer gets less probable."""
        sure = row()
        unsure = replace(
            sure,
            leaves=sure.leaves + 1,
            max_log_prob=(sure.max_log_prob or 0) - 1,
            entropy=sure.entropy + 1,
            answer_log_prob=(sure.answer_log_prob or 0) - 1,
        )
        low = figures_of([sure], 1)
        high = figures_of([unsure], 2)
        for name in (*MEASURES, *BASELINES):
            first, second = low[name], high[name]
            assert first is not None
            assert second is not None
            assert first < second


class TestTables:
    CASES = tuple(
        Case(
            n,
            {
                "leaves": n,
                "-max_logprob": 1.0,
                "entropy": None,
                "length": 8 - n,
                "perplexity": n if n > 2 else None,
            },
            {"reward 0": n > 4},
        )
        for n in range(1, 9)
    )

    def test_a_claim(self) -> None:
        """A table has a row for each figure over the cases that have it: a perfect one, one by chance, and one over six
        cases; the best measure is set against the best baseline, over the cases that have both.
        """
        (table,) = claim_tables(self.CASES)
        assert (table.claim, table.holds, table.fails) == ("reward 0", 4, 4)
        rows = {one.figure: one for one in table.rows}
        assert rows.keys() == {"leaves", "-max_logprob", "length", "perplexity"}
        assert rows["leaves"].area.value == 1
        assert rows["-max_logprob"].area.value == 0.5
        assert rows["-max_logprob"].average_precision.value == 0.5
        assert (rows["perplexity"].positives, rows["perplexity"].negatives) == (4, 2)
        assert table.conclusions[1] == (
            "leaves 1.00 against perplexity 1.00: too few of one kind to test."
        )

    def test_the_best_measure_is_tested(self) -> None:
        """With many cases the sentence has the p value of no difference."""
        noise = (3, 1, 2)
        cases = [
            Case(
                n,
                {
                    "leaves": n,
                    "-max_logprob": None,
                    "entropy": None,
                    "length": noise[n % 3],
                    "perplexity": None,
                },
                {"reward 0": n > 20},
            )
            for n in range(40)
        ]
        (table,) = claim_tables(cases)
        assert table.conclusions[1].startswith("leaves 1.00 against length .")
        assert table.conclusions[1].endswith(": better (p < .001).")
