"""Growing trees on a toy model whose every probability is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import ModelError, UsageError
from engine.trees.growth import Budget, Grower, Job
from engine.trees.records import Growth, TreeOptions
from engine.trees.tree import Account, Kind, Tree, frame_of, restore
from tests.engine.model.toy import ROOMY, ToyModel, log_prob
from tests.engine.trees.enumerated import STOPS, enumerate_paths

PROMPT = tuple(b"Where is my parcel?")
OPTIONS = TreeOptions(alpha=0.002, max_tokens=4)
SHORT_OPTIONS = TreeOptions(alpha=0.02, max_tokens=2)
SYSTEM = b"You are a patient assistant of a small shop. "


def tree(model: ToyModel, options: TreeOptions = OPTIONS) -> Tree:
    return Tree(options, STOPS, model.token_bytes)


def leaves(grown: Tree) -> dict[tuple[tuple[int, ...], Kind], float]:
    return {
        (tuple(grown.tokens(at)), grown.nodes[at].kind): grown.nodes[at].mass
        for at in grown.leaves()
    }


def total(account: Account) -> float:
    return account.covered + account.pruned + account.unexpanded


def grow(model: ToyModel, *jobs: Job) -> None:
    Grower(model).grow(jobs)


def grow_prompts(model: ToyModel, prompts: list[bytes], width: int = 32) -> list[Tree]:
    trees = [tree(model, SHORT_OPTIONS) for _ in prompts]
    jobs = [Job(tree, tuple(prompt)) for tree, prompt in zip(trees, prompts, strict=True)]
    Grower(model, width=width).grow(jobs)
    return trees


class TestAgainstEnumeration:
    @pytest.mark.parametrize("alpha", [0.02, 0.005, 0.0015])
    def test_same_leaves_and_masses(self, alpha: float) -> None:
        """Leaves, their kinds and probabilities, and the pruned mass equal those of a plain recursion."""
        model = ToyModel()
        grown = tree(model, TreeOptions(alpha, max_tokens=3))
        grow(model, Job(grown, PROMPT))
        expected = enumerate_paths(PROMPT, alpha, 3)

        assert leaves(grown) == pytest.approx(expected.leaves, rel=1e-5)
        assert grown.account().pruned == pytest.approx(expected.pruned, abs=1e-6)
        assert grown.account().unexpanded == 0


class TestAccount:
    def test_it_sums_to_one_at_every_moment(self) -> None:
        """After each decode covered, pruned and unexpanded mass add up to 1."""
        model = ToyModel()
        grown = tree(model)
        sums: list[float] = []
        Grower(model).grow(
            [Job(grown, PROMPT)], progress=lambda nodes: sums.append(total(grown.account()))
        )

        assert len(sums) > 3
        assert sums == pytest.approx([1.0] * len(sums), abs=1e-6)

    def test_token_mode_follows_the_best_token_and_branches(self) -> None:
        """In mode `token` every inner node has its best child, and others only from alpha on."""
        model = ToyModel()
        grown = tree(model, TreeOptions(0.08, "token", max_tokens=5))
        grow(model, Job(grown, PROMPT))

        inner = [node for node in grown.nodes if node.kind is Kind.INNER]
        assert len(inner) >= 5
        for node in inner:
            children = [grown.nodes[child] for child in node.children]
            assert all(math.exp(child.log_p) >= 0.08 for child in children[1:])
        assert not [node for node in grown.nodes if node.kind is Kind.CUT]
        assert total(grown.account()) == pytest.approx(1, abs=1e-6)


class TestRecordedAnswer:
    def test_its_probability_and_where_it_leaves(self) -> None:
        """The recorded answer is scored in the same pass, with the number of its tokens that are in the tree."""
        model = ToyModel()
        grown = tree(model)
        grow(model, Job(grown, PROMPT))
        inside = grown.tokens(grown.leaves()[0])
        answer = (*inside, 65, 66)
        again = Job(tree(model), PROMPT, answer)
        grow(model, again)

        assert sum(again.answer_log_probs) == pytest.approx(log_prob(PROMPT, answer), abs=1e-4)
        assert len(again.tree.path_of(answer)) >= len(inside)


class TestStopping:
    @pytest.mark.parametrize("nodes", [1, 7, 40])
    def test_a_budget_of_nodes_is_kept(self, nodes: int) -> None:
        """At most the budget of nodes is read; what was not read is unexpanded mass."""
        model = ToyModel()
        parts = tree(model)
        Grower(model).grow([Job(parts, PROMPT)], Budget(nodes))

        assert sum(node.entropy is not None for node in parts.nodes) <= nodes
        assert total(parts.account()) == pytest.approx(1, abs=1e-6)
        assert parts.account().unexpanded > 0


class TestRecord:
    def test_a_recorded_tree_is_the_same(self) -> None:
        """A tree that is stored and restored has the same nodes, options and texts."""
        model = ToyModel()
        grown = tree(model)
        Grower(model).grow([Job(grown, PROMPT)], Budget(12))
        frame = json.loads(json.dumps(frame_of(grown)))
        again = restore(frame)

        assert again.nodes == grown.nodes
        assert again.options == grown.options
        assert all(again.text(leaf) == grown.text(leaf) for leaf in grown.leaves())


class TestRefusing:
    def test_a_model_that_cannot_fork(self) -> None:
        """A recurrent model is refused with the reason."""
        with pytest.raises(ModelError, match="recurrent"):
            Grower(ToyModel(replace(ROOMY, forkable=False)))

    @pytest.mark.parametrize(
        "make",
        [
            lambda: TreeOptions(0),
            lambda: TreeOptions(0.1, max_tokens=0),
            lambda: TreeOptions(0.1, temperature=0),
        ],
    )
    def test_options(self, make: Callable[[], TreeOptions]) -> None:
        """Invalid options are refused."""
        with pytest.raises((UsageError, ValueError), match=r"above 0|not a way"):
            make()


class TestTemperature:
    @settings(max_examples=40, deadline=None)
    @given(
        prompt=st.binary(min_size=1, max_size=20),
        mode=st.sampled_from(["path", "token"]),
        alpha=st.sampled_from([0.05, 0.01, 0.004]),
        temperature=st.sampled_from([0.5, 1.0, 1.4]),
    )
    def test_the_account_sums_to_one(
        self, prompt: bytes, mode: Growth, alpha: float, temperature: float
    ) -> None:
        """In both modes and at any temperature, children that are not followed are pruned mass, and nothing is
        renormalized.
        """
        if mode == "token":
            alpha *= 20
        options = TreeOptions(alpha, mode, 3, temperature=temperature)
        model = ToyModel()
        grown = tree(model, options)
        grow(model, Job(grown, tuple(prompt)))
        account = grown.account()

        assert account.covered + account.pruned == pytest.approx(1, abs=1e-6)


class TestShared:
    @settings(max_examples=40, deadline=None)
    @given(
        tails=st.lists(st.binary(min_size=1, max_size=30), min_size=2, max_size=9),
        nested=st.booleans(),
        cells=st.integers(180, 700),
        sequences=st.integers(4, 20),
        width=st.integers(2, 16),
    )
    def test_any_prompts_in_any_room(
        self, tails: list[bytes], nested: bool, cells: int, sequences: int, width: int
    ) -> None:
        """With few or many cells, together or one after another, the tree of each prompt is the same, and nothing is
        left in the cache.
        """
        prompts, said = [], SYSTEM
        for tail in tails:
            said = said + tail if nested else SYSTEM + tail
            prompts.append(said)
        longest = max(map(len, prompts))
        room = replace(ROOMY, cells=max(cells, longest + 70), sequences=sequences, batch=48)
        model = ToyModel(room)
        trees = grow_prompts(model, prompts, width)

        for prompt, grown in zip(prompts, trees, strict=True):
            expected = enumerate_paths(tuple(prompt), SHORT_OPTIONS.alpha, 2).leaves
            assert leaves(grown) == pytest.approx(expected)
        model.check_empty()
