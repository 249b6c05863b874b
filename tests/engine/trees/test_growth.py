"""Growing trees on a toy model whose every probability is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import Cancelled, ModelError, UsageError
from engine.trees.growth import Budget, Grower, Job
from engine.trees.measures import measure
from engine.trees.options import TreeOptions
from engine.trees.tree import Account, Kind, Tree, TreeRecord, record, restore
from tests.engine.model.toy import ROOMY, ToyModel, log_prob
from tests.engine.trees.enumerated import STOPS, enumerate_paths

PROMPT = tuple(b"Where is my parcel?")
OPTIONS = TreeOptions(alpha=0.002, max_tokens=4)


def tree(model: ToyModel, options: TreeOptions = OPTIONS) -> Tree:
    return Tree(options, STOPS, model.token_bytes)


def leaves(grown: Tree) -> dict[tuple[tuple[int, ...], Kind], float]:
    return {
        (tuple(grown.tokens(at)), grown.nodes[at].kind): grown.nodes[at].mass
        for at in grown.leaves()
    }


def total(account: Account) -> float:
    return account.covered + account.pruned + account.unexpanded


def grow(model: ToyModel, *jobs: Job, budget: Budget | None = None) -> None:
    Grower(model).grow(jobs, budget)


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

    @settings(max_examples=25, deadline=None)
    @given(
        prompt=st.binary(min_size=1, max_size=40),
        alpha=st.sampled_from([0.05, 0.01, 0.003]),
        sequences=st.integers(4, 12),
        width=st.integers(1, 8),
    )
    def test_any_prompt_and_any_room(
        self, prompt: bytes, alpha: float, sequences: int, width: int
    ) -> None:
        """The tree is the same for any number of sequences and of nodes in a decode."""
        model = ToyModel(replace(ROOMY, sequences=sequences, batch=48, rows=16))
        grown = tree(model, TreeOptions(alpha, max_tokens=3))
        Grower(model, width=width).grow([Job(grown, tuple(prompt))])

        assert leaves(grown) == pytest.approx(enumerate_paths(tuple(prompt), alpha, 3).leaves)
        model.check_empty()


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


class TestManyTrees:
    def test_trees_side_by_side_are_those_grown_alone(self) -> None:
        """Trees that share decodes are the same as when grown alone."""
        model = ToyModel(replace(ROOMY, cells=400, batch=64))
        prompts = [tuple(f"Prompt number {n} of several.".encode()) for n in range(9)]
        together = [tree(model) for _ in prompts]
        grow(model, *(Job(t, p) for t, p in zip(together, prompts, strict=True)))

        for prompt, grown in zip(prompts, together, strict=True):
            alone = tree(model)
            grow(model, Job(alone, prompt))
            assert leaves(grown) == leaves(alone)
        model.check_empty()

    def test_shared_decodes_are_fewer(self) -> None:
        """Several trees take fewer decodes together than one after another."""
        model = ToyModel()
        jobs = [Job(tree(model), tuple(f"Prompt {n}".encode())) for n in range(6)]
        together = Grower(model).grow(jobs)
        apart = [Grower(model).grow([Job(tree(model), job.prompt)]) for job in jobs]

        assert together.finished
        assert together.decodes < sum(work.decodes for work in apart)
        assert together.nodes == sum(work.nodes for work in apart)


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
        assert again.tree.follow(list(answer)) >= len(inside)


class TestStopping:
    @pytest.mark.parametrize("nodes", [1, 7, 40])
    def test_a_budget_of_nodes_is_kept_and_growth_goes_on(self, nodes: int) -> None:
        """At most the budget of nodes is read; grown further, the tree equals one grown at once."""
        model = ToyModel()
        parts, whole = tree(model), tree(model)
        first = Grower(model).grow([Job(parts, PROMPT)], Budget(nodes=nodes))
        grow(model, Job(whole, PROMPT))

        assert first.nodes <= nodes
        assert not first.finished
        assert total(parts.account()) == pytest.approx(1, abs=1e-6)
        assert parts.account().unexpanded > 0
        grow(model, Job(parts, PROMPT))
        assert leaves(parts) == leaves(whole)

    def test_it_stops_when_asked(self) -> None:
        """A stopped growth keeps the tree as it is then."""
        model = ToyModel()
        grown = tree(model)
        asked = iter([False, False, True])
        work = Grower(model).grow([Job(grown, PROMPT)], stopped=lambda: next(asked))

        assert not work.finished
        assert len(grown.nodes) > 1

    def test_cancelled_reading_waits_again(self) -> None:
        """A cancelled decode loses no node."""
        model = ToyModel()
        model.cancel_after = 4
        grown, whole = tree(model), tree(model)
        with pytest.raises(Cancelled):
            grow(model, Job(grown, PROMPT))
        model.cancel_after = None
        grow(model, Job(grown, PROMPT))
        grow(model, Job(whole, PROMPT))

        assert leaves(grown) == leaves(whole)

    def test_seconds(self) -> None:
        """With a time budget of zero no node is read."""
        model = ToyModel()
        grown = tree(model)
        assert Grower(model).grow([Job(grown, PROMPT)], Budget(seconds=0)).nodes == 0


class TestLowering:
    @pytest.mark.parametrize("mode", ["path", "token"])
    @pytest.mark.parametrize("lower", [0.01, 0.004, 0.0005])
    def test_a_lower_alpha_gives_the_tree_grown_at_it(self, mode: str, lower: float) -> None:
        """Grown further to a lower alpha, leaves and masses are those of a tree grown at that alpha at once."""
        model = ToyModel()
        before = TreeOptions(0.02 if mode == "path" else 0.1, mode, max_tokens=3)  # type: ignore[arg-type]
        alpha = lower if mode == "path" else lower * 8
        grown, whole = tree(model, before), tree(model, replace(before, alpha=alpha))
        grow(model, Job(grown, PROMPT))
        grown.lower(alpha)
        grow(model, Job(grown, PROMPT))
        grow(model, Job(whole, PROMPT))

        assert leaves(grown) == pytest.approx(leaves(whole))
        assert grown.account().pruned == pytest.approx(whole.account().pruned, abs=1e-9)

    def test_nodes_are_not_read_again(self) -> None:
        """Lowering alpha a little reads only the new nodes."""
        model = ToyModel()
        grown, whole = tree(model, replace(OPTIONS, alpha=0.01)), tree(model)
        first = Grower(model).grow([Job(grown, PROMPT)])
        grown.lower(OPTIONS.alpha)
        second = Grower(model).grow([Job(grown, PROMPT)])
        all_at_once = Grower(model).grow([Job(whole, PROMPT)])

        assert first.nodes + second.nodes == all_at_once.nodes


class TestRecord:
    def test_a_recorded_tree_grows_on(self) -> None:
        """A tree that is stored and restored in the middle ends as one that was never interrupted."""
        model = ToyModel()
        parts = tree(model)
        Grower(model).grow([Job(parts, PROMPT)], Budget(nodes=12))
        frame = json.loads(json.dumps(record(parts).as_frame()))
        again = restore(TreeRecord.from_frame(frame))
        again.spelling = model.token_bytes
        grow(model, Job(again, PROMPT))
        grow(model, Job(parts, PROMPT))

        assert again.nodes == parts.nodes

    def test_a_restored_tree_reads_like_the_recorded_one(self) -> None:
        """Texts, measures and masses of a restored tree are the same, without a model."""
        model = ToyModel()
        grown = tree(model)
        grow(model, Job(grown, PROMPT))
        again = restore(record(grown))

        assert measure(again) == measure(grown)
        assert [again.text(at) for at in again.leaves()] == [
            grown.text(at) for at in grown.leaves()
        ]


class TestRefusing:
    def test_a_prompt_without_room(self) -> None:
        """A prompt that fills the context is refused with its length."""
        model = ToyModel(replace(ROOMY, context=20))
        with pytest.raises(ModelError, match="19 tokens"):
            grow(model, Job(tree(model), PROMPT))

    def test_a_model_that_cannot_fork(self) -> None:
        """A recurrent model is refused with the reason."""
        with pytest.raises(ModelError, match="recurrent"):
            Grower(ToyModel(replace(ROOMY, forkable=False)))

    @pytest.mark.parametrize(
        "make", [lambda: TreeOptions(0), lambda: TreeOptions(0.1, max_tokens=0)]
    )
    def test_options(self, make: Callable[[], TreeOptions]) -> None:
        """Invalid options are refused."""
        with pytest.raises((UsageError, ValueError), match=r"above 0|not a way"):
            make()
