"""Trees with a bound on the children of a node, on a toy model whose every probability is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trees.growth import Grower, Job
from engine.trees.options import Growth, Transform, TreeOptions, options_frame, options_from
from engine.trees.tree import Tree, record, restore
from tests.engine.model.toy import ToyModel
from tests.engine.trees.enumerated import STOPS, enumerate_paths

PROMPT = b"Where is my parcel?"


def grown(options: TreeOptions, prompt: bytes = PROMPT, lower: float | None = None) -> Tree:
    model = ToyModel()
    tree = Tree(options, STOPS, model.token_bytes)
    Grower(model).grow([Job(tree, prompt)])
    if lower is not None:
        tree.lower(lower)
        Grower(model).grow([Job(tree, prompt)])
    return tree


def leaves(tree: Tree) -> dict[tuple[tuple[int, ...], int], float]:
    return {
        (tuple(tree.tokens(at)), tree.nodes[at].kind): tree.nodes[at].mass for at in tree.leaves()
    }


class TestWidest:
    @settings(max_examples=40, deadline=None)
    @given(
        prompt=st.binary(min_size=1, max_size=20),
        widest=st.integers(0, 6),
        mode=st.sampled_from(["path", "token"]),
        alpha=st.sampled_from([0.05, 0.01, 0.004]),
        transform=st.sampled_from(
            [Transform(), Transform(temperature=0.7, top_k=40), Transform(top_p=0.8, min_p=0.02)]
        ),
    )
    def test_the_account_sums_to_one(
        self, prompt: bytes, widest: int, mode: Growth, alpha: float, transform: Transform
    ) -> None:
        """In both modes and under any sampler, children that are not followed are pruned mass, and nothing is
        renormalised.
        """
        if mode == "token":
            alpha *= 20
        options = TreeOptions(alpha, mode, 3, transform=transform, widest=widest)
        tree = grown(options, prompt)
        account = tree.account()

        assert account.covered + account.pruned == pytest.approx(1, abs=1e-6)
        if widest:
            assert max(len(node.children) for node in tree.nodes) <= widest

    @pytest.mark.parametrize("widest", [1, 3, 8])
    def test_the_same_as_a_plain_recursion(self, widest: int) -> None:
        """Leaves, kinds and masses equal those of an enumeration with the same bound."""
        tree = grown(TreeOptions(0.0015, max_tokens=3, widest=widest))
        expected = enumerate_paths(PROMPT, 0.0015, 3, widest)

        assert leaves(tree) == pytest.approx(expected.leaves, rel=1e-5)
        assert tree.account().pruned == pytest.approx(expected.pruned, abs=1e-6)

    @pytest.mark.parametrize("widest", [1, 3])
    def test_a_lower_alpha_lets_no_more_in(self, widest: int) -> None:
        """Grown further to a lower alpha, the tree equals one grown at that alpha at once with the same bound."""
        options = TreeOptions(0.02, max_tokens=3, widest=widest)
        later = grown(options, lower=0.0008)
        at_once = grown(replace(options, alpha=0.0008))

        assert leaves(later) == pytest.approx(leaves(at_once))
        assert later.account().pruned == pytest.approx(at_once.account().pruned, abs=1e-9)

    def test_recorded(self) -> None:
        """The bound is stored with a tree; without a bound the field is missing, so that older keys stay valid."""
        bounded = TreeOptions(0.02, widest=3)

        assert options_from(options_frame(bounded)) == bounded
        assert restore(record(grown(bounded))).options == bounded
        assert "widest" not in options_frame(TreeOptions(0.02))

    def test_refused(self) -> None:
        """A bound below zero is refused."""
        with pytest.raises(ValueError, match="not a way"):
            TreeOptions(0.1, widest=-1)


class TestOrder:
    @settings(max_examples=20, deadline=None)
    @given(order=st.permutations(range(5)), width=st.sampled_from([1, 8, 32]), alike=st.booleans())
    def test_jobs_in_any_order(self, order: list[int], width: int, alike: bool) -> None:
        """Trees depend neither on the order of jobs nor on the nodes in a decode, with or without common prefixes."""
        start = b"A long beginning that all of them have in common. " if alike else b""
        prompts = [start + f"Question {number}?".encode() for number in range(5)]
        model = ToyModel()
        options = TreeOptions(0.01, max_tokens=3)
        trees = {at: Tree(options, STOPS, model.token_bytes) for at in order}
        Grower(model, width=width).grow([Job(trees[at], prompts[at]) for at in order])

        for at, tree in trees.items():
            assert leaves(tree) == leaves(grown(options, prompts[at]))
