"""Measures and guarantees of trees whose every probability is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.model.interface import LogProbs
from engine.trees.growth import Budget, Grower, Job
from engine.trees.guarantee import contains, equals, guarantee, json_has, matches, parse_predicate
from engine.trees.measures import answers, measure
from engine.trees.records import TreeOptions
from engine.trees.tree import Tree
from tests.engine.model.toy import ToyModel
from tests.engine.trees.enumerated import STOPS

END = 3
TEXTS = {0: b"yes", 1: b"no", 2: b" \xc3", END: b"", 4: b"\xa9"}


def by_hand(alpha: float, **rows: list[float]) -> Tree:
    """A tree over five tokens; `rows` gives the distribution after each path of token digits, `r` the root's."""
    tree = Tree(TreeOptions(alpha, max_tokens=4), frozenset({END}), TEXTS.__getitem__)
    while (node := tree.take()) is not None:
        path = "r" + "".join(map(str, tree.tokens(node)))
        tree.expand(node, distribution(rows[path]))
    return tree


def distribution(masses: list[float]) -> LogProbs:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.array(masses, dtype=np.float64)))


def small() -> Tree:
    """`yes` .5, `no` .3 (ended), and `yes no` .1 (ended); the rest is pruned."""
    return by_hand(
        0.08,
        r=[0.6, 0.3, 0.05, 0.05, 0.0],
        r0=[0.01, 0.16667, 0.0, 0.82333, 0.0],
        r1=[0.0, 0.0, 0.0, 1.0, 0.0],
        r01=[0.0, 0.0, 0.0, 1.0, 0.0],
    )


class TestMeasures:
    def test_by_hand(self) -> None:
        """Leaves, the best one, masses and entropies are as computed by hand."""
        found = measure(small())

        assert found.leaves == 3
        assert found.max_log_prob == pytest.approx(math.log(0.494), abs=1e-3)
        assert found.covered == pytest.approx(0.894, abs=1e-3)
        assert found.pruned == pytest.approx(0.106, abs=1e-3)
        assert found.unexpanded == 0
        masses = [0.6, 0.3, 0.05, 0.05]
        bits = -sum(p * math.log2(p) for p in masses)
        assert found.fork_entropy == pytest.approx(bits)
        outcomes = [0.494, 0.3, 0.1]
        known = -sum(p * math.log2(p) for p in outcomes)
        lost = [0.05, 0.05, 0.006]
        expected = known - sum(p * math.log2(p) for p in lost)
        assert found.entropy == pytest.approx(expected, abs=5e-3)

    def test_equal_texts_are_one_answer(self) -> None:
        """A cut leaf and an ended one with the same text are one answer."""
        tree = by_hand(0.2, r=[0.5, 0.3, 0.0, 0.2, 0.0], r0=[0.1] * 4 + [0.6], r1=[0.2] * 5, r04=[0.2] * 5)  # fmt: skip
        found = answers(tree)

        assert [answer.text for answer in found] == ["yes\ufffd", "no", ""]
        assert sum(answer.probability for answer in found) == pytest.approx(tree.account().covered)


class TestGuarantee:
    def test_by_hand(self) -> None:
        """Mass of leaves with the property counts for the lower bound; mass that could still have it keeps the bounds
        apart.
        """
        tree = small()
        no = guarantee(tree, contains("NO"))
        assert no.low == pytest.approx(0.4, abs=1e-3)
        assert no.high == pytest.approx(1 - 0.494, abs=1e-3)
        exact = guarantee(tree, equals("yes"))
        assert exact.low == pytest.approx(0.494, abs=1e-3)
        assert exact.high == pytest.approx(1 - 0.3 - 0.1, abs=2e-3)

    @settings(max_examples=20, deadline=None)
    @given(prompt=st.binary(min_size=1, max_size=10), part=st.sampled_from("abcxyz0"))
    def test_growing_only_narrows_it(self, prompt: bytes, part: str) -> None:
        """A tree grown further gives bounds within the former ones."""
        model = ToyModel()
        tree = Tree(TreeOptions(0.004, max_tokens=4), STOPS, model.token_bytes)
        low, high = 0.0, 1.0
        for _ in range(5):
            Grower(model).grow([Job(tree, prompt)], Budget(nodes=15))
            found = guarantee(tree, contains(part))
            assert low - 1e-9 <= found.low <= found.high + 1e-9
            assert found.high <= high + 1e-9
            low, high = found.low, found.high

    @pytest.mark.parametrize(
        ("property_", "text", "ended", "settled"),
        [
            (contains("a"), "xAx", False, True),
            (contains("a"), "x", False, None),
            (equals("yes"), " ye", False, None),
            (equals("yes"), "yes, but", False, False),
            (equals("yes"), "yes\n", True, True),
            (matches(r"\d$"), "7", False, None),
            (matches(r"\d$"), "7", True, True),
            (json_has("a.0.b"), '{"a": [{"b": 1}]}', True, True),
            (json_has("a.0.b", "1"), '{"a": [{"b": 1}]}', True, True),
            (json_has("a.1"), '{"a": [0]}', True, False),
            (json_has("a"), '{"a": 1}', False, None),
        ],
    )
    def test_what_a_beginning_settles(
        self, property_: object, text: str, ended: bool, settled: bool | None
    ) -> None:
        """A property is decided by a beginning only when no continuation can change it."""
        assert callable(property_)
        assert property_(text, ended) is settled

    def test_reading(self) -> None:
        """Properties are parsed from a line; an invalid one is refused with the known kinds."""
        assert parse_predicate("contains two years")("it is two years", False) is True
        assert parse_predicate("json a=1")('{"a": 1}', True) is True
        for wrong in ("like this", "regex (", "contains"):
            with pytest.raises(UsageError):
                parse_predicate(wrong)
