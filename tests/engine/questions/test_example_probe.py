"""Example probes: what is predicted is tested out of fold, and what is asked next is spread and unsure."""

from __future__ import annotations

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.base.statistics.ranking import auroc
from engine.completeness.regression import States
from engine.questions.example_fits import (
    EXAMPLES_PER_FIT,
    TYPICAL_EXAMPLES,
    KnownFeatures,
    fit_to_examples,
    rank_by_information,
    word_vectors,
)


def made(count: int, signal: float, dimensions: int = 60) -> tuple[States, Ints]:
    """Features of conversations, those of a random half moved along one direction; and their right marks, 1 or -1."""
    random = np.random.default_rng(3)
    right = np.where(random.random(count) < 0.5, 1, -1)
    known = random.normal(size=(count, dimensions))
    known[:, 0] += signal * right
    return known.astype(np.float32), right


def known_by(features: States) -> KnownFeatures:
    """Conversations of which nothing but features is known, each with the weight of a state's dimension at first."""
    return KnownFeatures(features * np.float32(0.1), None, np.zeros(len(features)))


def marked(right: Ints, count: int) -> Ints:
    """Marks of the first conversations only."""
    return np.where(np.arange(len(right)) < count, right, 0)


def area(p: Floats, right: Ints, among: slice) -> float:
    """How well probabilities tell the right marks of some conversations."""
    return auroc(p[among].tolist(), (right[among] > 0).tolist()).value


class TestTeach:
    def test_few_marks_tell_the_others(self) -> None:
        """Thirty marks tell two hundred other conversations apart, and so does the test on the marked ones, each of
        which is judged by a probe that did not see it."""
        known, right = made(230, signal=3.0)
        p = fit_to_examples(known_by(known), marked(right, 30), np.arange(30))
        assert p is not None
        assert area(p, right, slice(30, None)) > 0.9
        assert abs(area(p, right, slice(0, 30)) - area(p, right, slice(30, None))) < 0.1

    def test_marks_without_relation_tell_nothing(self) -> None:
        """Marks at random, which a regression could learn by heart, are not told among the marked ones."""
        known, right = made(100, signal=0.0, dimensions=300)
        p = fit_to_examples(known_by(known), marked(right, 60), np.arange(60))
        assert p is not None
        assert 0.25 < area(p, right, slice(0, 60)) < 0.75

    def test_copies_are_judged_together(self) -> None:
        """A copy of a marked conversation in the same group does not make random marks look told; in a group of its
        own it would."""
        known, right = made(40, signal=0.0, dimensions=300)
        twice, marks = np.vstack([known, known]), np.concatenate([right, right])
        every = slice(0, None)
        apart = fit_to_examples(known_by(twice), marks, np.arange(80))
        together = fit_to_examples(known_by(twice), marks, np.tile(np.arange(40), 2))
        assert apart is not None
        assert together is not None
        assert area(apart, marks, every) > 0.8
        assert area(together, marks, every) < 0.7

    def test_probabilities_are_as_frequent_as_they_say(self) -> None:
        """Of conversations with a probability above .8 more than seven tenths are positive, below .2 fewer than
        three."""
        known, right = made(600, signal=1.5)
        p = fit_to_examples(known_by(known), marked(right, 100), np.arange(100))
        assert p is not None
        assert (right[p > 0.8] > 0).mean() > 0.7
        assert (right[p < 0.2] > 0).mean() < 0.3

    def test_the_guess_stays_until_examples_speak_against_it(self) -> None:
        """A right guess tells others after ten examples about as well as before; a wrong one is overcome by sixty."""
        known, right = made(300, signal=3.0)
        guess = right + np.random.default_rng(5).normal(size=len(right))
        begun = known_by(known)._replace(guess=guess)
        p = fit_to_examples(begun, marked(right, 10), np.arange(10))
        assert p is not None
        assert area(p, right, slice(10, None)) > area(guess, right, slice(10, None)) - 0.02
        p = fit_to_examples(begun._replace(guess=-guess), marked(right, 60), np.arange(60))
        assert p is not None
        assert area(p, right, slice(60, None)) > 0.9

    def test_words_tell_where_features_do_not(self) -> None:
        """Conversations that differ in one word of many are told apart by it; a word of all of them counts nothing."""
        right = np.tile([1, -1], 100)
        random = np.random.default_rng(4)
        columns = [
            np.unique([1, 2 + (side > 0), *random.integers(10, 40, 2)]).astype(np.uint16)
            for side in right.tolist()
        ]
        words = word_vectors(columns)
        assert words[:, [1]].sum() == 0
        known = KnownFeatures(np.zeros((200, 1), dtype=np.float32), words, np.zeros(200))
        p = fit_to_examples(known, marked(right, 40), np.arange(40))
        assert p is not None
        assert area(p, right, slice(40, None)) > 0.9


class TestInstructive:
    def test_then_unsure_and_unlike_each_other(self) -> None:
        """With marks, what is asked next is among the less certain half, and spread over two kinds of it."""
        random = np.random.default_rng(1)
        side = np.repeat([0, 1], 50)
        known = random.normal(size=(100, 4)).astype(np.float32)
        known[:, 0] += 40 * side
        mark = marked(np.tile([1, -1], 50), TYPICAL_EXAMPLES)
        p = np.where(np.arange(100) % 2, 0.99, 0.5)
        order = rank_by_information(known, mark, p)[:EXAMPLES_PER_FIT]
        assert set(p[order].tolist()) == {0.5}
        assert len(set(side[order].tolist())) == 2
