"""The answers of a tree grouped by meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.base.errors import UsageError
from engine.trees.meaning import AnswerMeanings, TextComparison, Vectors, letter_vectors
from engine.trees.options import TreeOptions
from tests.screens.trees.tree_project import grown

TREE = grown(b"Is it?", TreeOptions(0.004, max_tokens=4)).tree


class CountingComparison:
    """A comparison by which texts of one length are the same; counts its calls."""

    def __init__(self) -> None:
        self.asked = 0

    def vectors(self, texts: Sequence[str]) -> Vectors:
        self.asked += 1
        found = np.zeros((len(texts), 200), dtype=np.float32)
        found[range(len(texts)), [len(text) for text in texts]] = 1
        return found


def test_groups_are_those_of_the_comparison() -> None:
    """Texts that are the same by the comparison are one group; the result names the comparison."""
    counting = CountingComparison()
    meant = AnswerMeanings(lambda: TextComparison("by length", counting.vectors))
    grouped = meant.of(TREE, 0.9)
    answers, groups = grouped.answers, grouped.meanings.groups
    lengths = [{len(answers[index].text) for index in group.answers} for group in groups]

    assert grouped.by == "by length"
    assert len(answers) > len(groups) > 1
    assert all(len(each) == 1 for each in lengths)
    assert len(set[int]().union(*lengths)) == len(lengths)


def test_another_threshold_asks_for_no_vectors() -> None:
    """Another threshold uses the stored vectors; a higher one never joins more."""
    counting = CountingComparison()

    def vectors(texts: Sequence[str]) -> Vectors:
        counting.asked += 1
        return letter_vectors(texts)

    meant = AnswerMeanings(lambda: TextComparison("letters", vectors))
    groups = [len(meant.of(TREE, threshold).meanings.groups) for threshold in (0.05, 0.5, 0.99)]

    assert counting.asked == 1
    assert groups == sorted(groups)
    assert groups[0] < groups[-1]


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, float("nan")])
def test_a_threshold_that_is_none(threshold: float) -> None:
    """An invalid threshold is an error."""
    with pytest.raises(UsageError, match="no similarity"):
        AnswerMeanings().of(TREE, threshold)
