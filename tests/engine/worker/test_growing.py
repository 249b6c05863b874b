"""Growing a recorded tree on beside the logits, on the toy model."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.errors import Cancelled
from engine.trees.record import TreeRecord, restore
from engine.trees.tree import Kind, Tree
from engine.worker.growing import grow_trees
from tests.engine.model.toy import ToyModel

OPTIONS = {
    "alpha": 0.02,
    "mode": "path",
    "max_tokens": 5,
    "stop": [],
    "transform": {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
}
TEXT = "Where is my parcel? It was to come on Monday, and today is Thursday already."


def grow(nodes: int | None = None, on: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
    request = {
        "items": [[[TEXT], 0, ""]],
        "options": OPTIONS,
        "budget": {"nodes": nodes, "seconds": None},
        "on": on,
    }
    answer = grow_trees(ToyModel(), request, lambda nodes: None)
    return restore(TreeRecord.from_frame(answer["trees"][0]["tree"])), answer


def leaves(tree: Tree) -> dict[tuple[tuple[int, ...], Kind], float]:
    return {(tuple(tree.tokens(at)), tree.nodes[at].kind): tree.nodes[at].mass for at in tree.leaves()}  # fmt: skip


def on(answer: dict[str, Any], alpha: float | None = None, below: int | None = None) -> Any:
    return {"tree": answer["trees"][0]["tree"], "alpha": alpha, "below": below}


class TestGoingOn:
    def test_in_parts_as_at_once(self) -> None:
        """A tree grown in parts, recorded in between, is the tree that is grown at once."""
        whole, _ = grow()
        tree, answer = grow(3)
        parts = 1
        while not answer["work"]["finished"]:
            tree, answer = grow(3, on(answer))
            parts += 1

        assert parts > 2
        assert leaves(tree) == pytest.approx(leaves(whole))

    def test_lower_below_one_node_only(self) -> None:
        """Only below the node does anything change; there the leaves are those of the lower alpha everywhere."""
        before, answer = grow()
        below = max(before.nodes[0].children, key=lambda at: before.nodes[at].path)
        token = before.nodes[below].token
        tree, _ = grow(None, on(answer, 0.004, below))
        low = restore(TreeRecord.from_frame(answer["trees"][0]["tree"]))
        everywhere, _ = grow(None, on(answer, 0.004, 0))

        def of(grown: Tree, here: bool) -> dict[tuple[tuple[int, ...], Kind], float]:
            return {k: p for k, p in leaves(grown).items() if (k[0][:1] == (token,)) is here}

        assert of(tree, False) == of(low, False)
        assert of(tree, True) == pytest.approx(of(everywhere, True))
        assert len(of(tree, True)) > len(of(before, True))
        account = tree.account()
        assert math.isclose(account.covered + account.pruned + account.unexpanded, 1, abs_tol=1e-6)

    def test_what_waits_elsewhere_keeps_waiting(self) -> None:
        """Where a budget left nodes unread, growing on below another node does not read them."""
        begun, answer = grow(2)
        below = next(at for at in begun.nodes[0].children if begun.nodes[at].kind is Kind.INNER)
        token = begun.nodes[below].token
        tree, _ = grow(None, on(answer, 0.004, below))

        def unread(grown: Tree) -> set[tuple[int, ...]]:
            return {
                tuple(grown.tokens(at))
                for at, node in enumerate(grown.nodes)
                if node.kind is Kind.FRONTIER and grown.tokens(at)[0] != token
            }

        assert unread(begun)
        assert unread(tree) == unread(begun)

    def test_cancelled_growth_gives_what_has_grown(self) -> None:
        """A cancel ends growing on with a whole tree; a new tree is not worth keeping and the cancel goes on."""
        _, answer = grow(2)
        model = ToyModel()
        request = {
            "items": [[[TEXT], 0, ""]],
            "options": OPTIONS,
            "budget": {"nodes": None, "seconds": None},
            "on": on(answer),
        }
        model.cancel_after = 2
        got = grow_trees(model, request, lambda nodes: None)
        account = restore(TreeRecord.from_frame(got["trees"][0]["tree"])).account()
        assert not got["work"]["finished"]
        assert account.unexpanded > 0
        assert math.isclose(account.covered + account.pruned + account.unexpanded, 1, abs_tol=1e-6)

        model.cancel_after = model.decodes + 1
        with pytest.raises(Cancelled):
            grow_trees(model, {**request, "on": None}, lambda nodes: None)
