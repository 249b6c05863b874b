"""Grouping of answers by meaning: groups and entropies computed by hand, and bounds that hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.trees.growth import Budget, Grower, Job
from engine.trees.meaning import AnswerMeanings, TextComparison, Vectors, letter_vectors, meanings
from engine.trees.measures import Answer, answers, measure
from engine.trees.options import TreeOptions
from engine.trees.tree import Kind, Tree
from tests.engine.model.toy import ToyModel
from tests.engine.trees.enumerated import STOPS
from tests.screens.trees.tree_project import grown as grown_answer


def entropy(*masses: float) -> float:
    return -sum(mass * math.log2(mass) for mass in masses)


def grown(nodes: int, prompt: bytes = b"Is it?") -> Tree:
    model = ToyModel()
    tree = Tree(TreeOptions(0.002, max_tokens=4), STOPS, model.token_bytes)
    Grower(model).grow([Job(tree, prompt)], Budget(nodes=nodes))
    return tree


def unit(rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Vectors:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def degrees(*angles: float) -> Vectors:
    turned = np.radians(angles)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


def made(*probabilities: float) -> list[Answer]:
    return [Answer(str(at), p, (at,), Kind.ENDED) for at, p in enumerate(probabilities)]


def with_rest(mass: float) -> Tree:
    """A tree whose only leaf has the rest of the mass; `meanings` uses only the mass outside."""
    tree = Tree(TreeOptions(0.5, max_tokens=1), frozenset(), lambda token: b"x")
    root = tree.take()
    assert root is not None
    tree.expand(root, np.log(np.array([1 - mass, mass / 2, mass / 2])))
    return tree


class TestGroups:
    def test_by_hand(self) -> None:
        """Each answer joins the most probable one that it is similar to; a chain of small steps does not join
        opposites.
        """
        vectors = degrees(0, 25, 50, 75, 170)
        found = meanings(with_rest(0.1), made(0.4, 0.2, 0.15, 0.1, 0.05), vectors, 0.85)

        assert [group.answers for group in found.groups] == [(0, 1), (2, 3), (4,)]
        assert [group.probability for group in found.groups] == pytest.approx([0.6, 0.25, 0.05])

    def test_equal_vectors_meet_at_the_highest_threshold(self) -> None:
        """Equal vectors are one group in spite of rounding."""
        vectors = unit(np.tile(np.array([[0.1, 0.7, 0.3]]), (3, 1)))
        found = meanings(with_rest(0.1), made(0.4, 0.3, 0.2), vectors, 1.0)

        assert len(found.groups) == 1


class TestEntropy:
    def test_by_hand(self) -> None:
        """The entropy over the covered mass; at least with the rest in the largest group; at most with each part in a
        group of its own.
        """
        found = meanings(with_rest(0.1), made(0.5, 0.3, 0.1), degrees(0, 90, 5), 0.85)

        assert found.entropy == pytest.approx(entropy(0.6 / 0.9, 0.3 / 0.9))
        assert found.entropy_low == pytest.approx(entropy(0.7, 0.3))
        assert found.entropy_high == pytest.approx(entropy(0.6, 0.3, 0.05, 0.05))

    @settings(max_examples=40, deadline=None)
    @given(
        nodes=st.integers(1, 60),
        threshold=st.floats(0.05, 1.0),
        seed=st.integers(0, 1000),
        share=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    )
    def test_bounds_hold_wherever_the_rest_goes(
        self, nodes: int, threshold: float, seed: int, share: list[float]
    ) -> None:
        """However the mass outside the leaves is distributed over groups, the entropy is within the bounds; the groups
        partition the answers and add up to the covered mass.
        """
        tree = grown(nodes)
        found = answers(tree)
        random = np.random.default_rng(seed)
        vectors = unit(random.standard_normal((len(found), 4)))
        result = meanings(tree, found, vectors, threshold)
        account = tree.account()

        assert sorted(at for g in result.groups for at in g.answers) == list(range(len(found)))
        assert sum(g.probability for g in result.groups) == pytest.approx(account.covered)
        assert result.entropy_low <= result.entropy_high + 1e-9
        assert result.entropy_high <= measure(tree).entropy_high + 1e-9
        if result.groups:
            masses = [g.probability for g in result.groups]
            for part in share:
                at = seed % len(masses)
                given_out = (account.pruned + account.unexpanded) * part
                dealt = [*masses, account.pruned + account.unexpanded - given_out]
                dealt[at] += given_out
                assert entropy(*(m for m in dealt if m > 0)) >= result.entropy_low - 1e-9


class TestLetters:
    def test_wordings(self) -> None:
        """Texts that differ in case and space are the same; more shared words make texts more similar."""
        texts = ["The lamp is red.", "the  lamp is RED.", "The lamp is blue.", "No order found"]
        vectors = letter_vectors(texts)
        like = vectors @ vectors.T

        assert np.diag(like) == pytest.approx(np.ones(4), abs=1e-5)
        assert like[0, 1] == pytest.approx(1, abs=1e-5)
        assert like[0, 1] > like[0, 2] > like[0, 3] >= 0


TREE = grown_answer(b"Is it?", TreeOptions(0.004, max_tokens=4)).tree


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
