"""Comparison of two trees: their common nodes, and bounds on the distance between their models."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.interface import LogProbs
from engine.trees.compare import compare
from engine.trees.options import TreeOptions
from engine.trees.tree import Tree

STOP = 0
DEEPEST = 3
"""Tokens after which the models of these tests end, so that all their responses can be counted."""
WORDS = [b"", b"a", b"b", b"ab", b"\n"]
"""`ab` is one token or two, two line ends are the stop text, and the other words have one that spells nothing."""
OTHER_WORDS = [b"", b"ab", b"\n\n", b"", b"a\n"]


def distribution(seed: int, path: Sequence[int], size: int = len(WORDS)) -> LogProbs:
    """A next-token distribution with some impossible tokens, and certain end at the deepest paths."""
    if len(path) >= DEEPEST:
        return np.where(np.arange(size) == STOP, 0.0, -np.inf)
    drawn = random.Random(f"{seed} {list(path)}")
    weights = np.array([drawn.random() ** 3 * (drawn.random() > 0.2) + 1e-9 for _ in range(size)])
    return np.asarray(np.log(weights / weights.sum()))


def grown(seed: int, alpha: float, longest: int = 9, words: Sequence[bytes] = WORDS) -> Tree:
    """The tree of such a model."""
    options = TreeOptions(alpha, max_tokens=longest, stop=("\n\n",))
    tree = Tree(options, frozenset({STOP}), lambda token: words[token])
    while (node := tree.take()) is not None:
        tree.expand(node, distribution(seed, tree.tokens(node)))
    return tree


def responses(seed: int, words: Sequence[bytes] = WORDS) -> dict[bytes, float]:
    """Every response of such a model with its probability, enumerated without a tree."""
    found: dict[bytes, float] = {}

    def visit(path: tuple[int, ...], text: bytes, mass: float) -> None:
        if b"\n\n" in text or (path and path[-1] == STOP):
            whole = text.partition(b"\n\n")[0]
            found[whole] = found.get(whole, 0.0) + mass
            return
        for token, log_p in enumerate(distribution(seed, path)):
            if log_p > -700:
                visit((*path, token), text + words[token], mass * math.exp(log_p))

    visit((), b"", 1.0)
    return found


def variation(one: dict[bytes, float], two: dict[bytes, float]) -> float:
    return sum(abs(one.get(text, 0.0) - two.get(text, 0.0)) for text in one | two) / 2


def _meet(one: int, two: int, tree: Tree) -> bool:
    """Whether two nodes spell the same text and both end there or both do not."""

    def spelled(node: int) -> tuple[bytes, bool]:
        tokens = tree.tokens(node)
        return b"".join(map(tree.spelling, tokens)), tokens[-1:] == [STOP]

    return spelled(one) == spelled(two)


SEEDS = st.integers(0, 10_000)
ALPHAS = st.sampled_from([1.0, 0.4, 0.1, 0.03, 0.005, 1e-6])
VOCABULARIES = st.sampled_from([WORDS, OTHER_WORDS])


class TestTotalVariation:
    @settings(deadline=None, max_examples=150)
    @given(SEEDS, SEEDS, ALPHAS, ALPHAS, st.integers(1, 4), VOCABULARIES)
    def test_lies_between_the_bounds(
        self, one: int, two: int, alpha: float, other: float, longest: int, words: list[bytes]
    ) -> None:
        """Whatever two trees prune, cut or leave unread, the distance between their models lies within the bounds."""
        found = compare(grown(one, alpha), grown(two, other, longest, words))
        exact = variation(responses(one), responses(two, words))
        assert 0 <= found.low <= exact + 1e-9
        assert exact - 1e-9 <= found.high <= 1

    @settings(deadline=None, max_examples=60)
    @given(SEEDS, SEEDS, VOCABULARIES)
    def test_whole_trees_leave_nothing_open(self, one: int, two: int, words: list[bytes]) -> None:
        """Trees with almost no mass left out determine the distance between their models, whatever their tokens."""
        found = compare(grown(one, 1e-12), grown(two, 1e-12, words=words))
        exact = variation(responses(one), responses(two, words))
        assert found.low == pytest.approx(exact, abs=1e-5)
        assert found.high == pytest.approx(exact, abs=1e-5)

    @settings(deadline=None, max_examples=60)
    @given(SEEDS, SEEDS, ALPHAS, ALPHAS)
    def test_more_is_known_of_larger_trees(
        self, one: int, two: int, alpha: float, other: float
    ) -> None:
        """A lower alpha never widens the bounds."""
        small = compare(grown(one, max(alpha, other)), grown(two, 0.05))
        large = compare(grown(one, min(alpha, other)), grown(two, 0.05))
        assert large.low >= small.low - 1e-9
        assert large.high <= small.high + 1e-9

    def test_half_known(self) -> None:
        """Where one model gives `a` for certain and the other `a` with .6, the rest unknown, the distance is at
        most .4.
        """

        def tree(p: float) -> Tree:
            made = Tree(TreeOptions(0.5), frozenset({STOP}), lambda token: WORDS[token])
            rest = max(1e-12, 1 - p)
            root = np.log(np.array([1e-12, p, rest / 2, rest / 2, 1e-12]))
            while (node := made.take()) is not None:
                made.expand(node, distribution(0, [1] * DEEPEST) if node else root)
            return made

        found = compare(tree(1.0), tree(0.6))
        assert (found.low, found.high) == pytest.approx((0.0, 0.4), abs=1e-6)


class TestSides:
    @settings(deadline=None, max_examples=60)
    @given(SEEDS, ALPHAS)
    def test_a_tree_beside_itself(self, seed: int, alpha: float) -> None:
        """Between a tree and itself the lower bound of the distance is 0, every leaf is shared, and each node has its
        own probability or more.
        """
        tree, same = grown(seed, alpha), grown(seed, alpha)
        found = compare(tree, same)
        assert found.low == pytest.approx(0, abs=1e-9)
        assert found.first.shared == frozenset(tree.leaves())
        for node, there, twin in zip(tree.nodes, found.first.there, found.first.twins, strict=True):
            assert there is not None
            assert there >= node.mass - 1e-9
            assert tree.nodes[twin].path_log_p >= node.path_log_p

    @settings(deadline=None, max_examples=60)
    @given(SEEDS, SEEDS, ALPHAS)
    def test_of_equal_tokens(self, one: int, two: int, alpha: float) -> None:
        """Between trees of the same tokens, the probability of a text in the other tree is that of the other tree's own
        paths of it.
        """
        first, second = grown(one, alpha), grown(two, alpha)
        found = compare(first, second)
        for at, there in enumerate(found.first.there):
            twin = found.first.twins[at]
            if twin < 0:
                continue
            assert there is not None
            same = [
                n
                for n, t in enumerate(found.second.twins)
                if t >= 0 and n and _meet(n, twin, second)
            ]
            assert there == pytest.approx(
                math.fsum(second.nodes[n].mass for n in same) if twin else 1.0
            )

    @settings(deadline=None, max_examples=60)
    @given(SEEDS, SEEDS, ALPHAS, VOCABULARIES)
    def test_twins_spell_the_same(
        self, one: int, two: int, alpha: float, words: list[bytes]
    ) -> None:
        """Matched nodes have the same bytes on their paths; a node without a match has no probability in the
        other tree.
        """
        first, second = grown(one, alpha), grown(two, alpha, words=words)
        found = compare(first, second)

        def spelled(tree: Tree, node: int) -> bytes:
            return b"".join(tree.spelling(token) for token in tree.tokens(node))

        for at, twin in enumerate(found.first.twins):
            assert (twin < 0) == (found.first.there[at] is None)
            if twin >= 0:
                assert spelled(first, at) == spelled(second, twin)

    @settings(deadline=None, max_examples=60)
    @given(SEEDS, SEEDS, ALPHAS, VOCABULARIES)
    def test_shared_answers(self, one: int, two: int, alpha: float, words: list[bytes]) -> None:
        """Shared leaves are those whose response the other tree also has."""
        first, second = grown(one, alpha), grown(two, alpha, words=words)
        found = compare(first, second)
        texts = {second.text(leaf) for leaf in second.leaves()}
        assert found.first.shared == {leaf for leaf in first.leaves() if first.text(leaf) in texts}
        assert found.answers == len({first.text(leaf) for leaf in found.first.shared})
