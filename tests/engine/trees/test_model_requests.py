"""Growing a stored tree further with new logits, on the toy model."""

from __future__ import annotations

import math

import pytest

from engine.base.conversation import Message, render_log
from engine.base.errors import Cancelled
from engine.trees.growth import Budget, Work
from engine.trees.model_requests import Grow, GrowOn, Place, grow_on, grow_trees, places
from engine.trees.options import TreeOptions
from engine.trees.tree import Kind, Tree, record
from tests.engine.model.toy import ToyModel

OPTIONS = TreeOptions(alpha=0.02, max_tokens=5)
TEXT = "Where is my parcel? It was to come on Monday, and today is Thursday already."


PLACE = Place((TEXT,), 0, 1, "")


def grow(nodes: int | None = None) -> tuple[Tree, Work]:
    """A new tree."""
    request = Grow([PLACE], OPTIONS, Budget(nodes))
    (grown,), work = grow_trees(ToyModel(), request, lambda nodes: None)
    return grown.tree, work


def continued(
    tree: Tree, nodes: int | None = None, alpha: float | None = None, below: int | None = None
) -> tuple[Tree, Work]:
    """A tree that was stored and grown further."""
    request = GrowOn(PLACE, record(tree), Budget(nodes), alpha, below)
    grown, work = grow_on(ToyModel(), request, lambda nodes: None)
    return grown.tree, work


def leaves(tree: Tree) -> dict[tuple[tuple[int, ...], Kind], float]:
    return {(tuple(tree.tokens(at)), tree.nodes[at].kind): tree.nodes[at].mass for at in tree.leaves()}  # fmt: skip


class TestGoingOn:
    def test_lower_below_one_node_only(self) -> None:
        """A lower alpha below one node changes only what is below it; there the leaves are those of that alpha
        everywhere.
        """
        before, _ = grow()
        below = max(before.nodes[0].children, key=lambda at: before.nodes[at].path_log_p)
        token = before.nodes[below].token
        tree, _ = continued(before, None, 0.004, below)
        everywhere, _ = continued(before, None, 0.004, 0)

        def of(grown: Tree, here: bool) -> dict[tuple[tuple[int, ...], Kind], float]:
            return {k: p for k, p in leaves(grown).items() if (k[0][:1] == (token,)) is here}

        assert of(tree, False) == of(before, False)
        assert of(tree, True) == pytest.approx(of(everywhere, True))
        assert len(of(tree, True)) > len(of(before, True))
        account = tree.account()
        assert math.isclose(account.covered + account.pruned + account.unexpanded, 1, abs_tol=1e-6)

    def test_what_waits_elsewhere_keeps_waiting(self) -> None:
        """Nodes that a budget left unread elsewhere stay unread."""
        begun, _ = grow(2)
        below = next(at for at in begun.nodes[0].children if begun.nodes[at].kind is Kind.INNER)
        token = begun.nodes[below].token
        tree, _ = continued(begun, None, 0.004, below)

        def unread(grown: Tree) -> set[tuple[int, ...]]:
            return {
                tuple(grown.tokens(at))
                for at, node in enumerate(grown.nodes)
                if node.kind is Kind.FRONTIER and grown.tokens(at)[0] != token
            }

        assert unread(begun)
        assert unread(tree) == unread(begun)

    def test_cancelled_growth_gives_what_has_grown(self) -> None:
        """A cancel of growing further gives a complete tree; a cancelled new tree is discarded and the cancel
        is raised.
        """
        begun, _ = grow(2)
        model = ToyModel()
        model.cancel_after = 2
        got, work = grow_on(model, GrowOn(PLACE, record(begun), Budget()), lambda nodes: None)
        account = got.tree.account()
        assert not work.finished
        assert account.unexpanded > 0
        assert math.isclose(account.covered + account.pruned + account.unexpanded, 1, abs_tol=1e-6)

        model.cancel_after = model.decodes + 1
        with pytest.raises(Cancelled):
            grow_trees(model, Grow([PLACE], OPTIONS, Budget()), lambda nodes: None)


TALK = render_log(
    [
        Message("system", "You sell lamps."),
        Message("user", "A red one?"),
        Message("assistant", "Yes,\n12 dollars."),
        Message("user", "Thanks"),
        Message("assistant", "Bye."),
        Message("user", "Bye"),
    ]
)


class TestPlaces:
    def test_before_the_last_answer(self) -> None:
        """The prompt ends with the header of the assistant's last step, whose content is the recorded answer."""
        (place,) = places(TALK, "last-answer")

        assert "".join(place.texts).endswith("Thanks\n\nTURN 3, STEP 5, assistant chat:\n")
        assert (place.step, place.answer, place.pinned_pieces) == (5, "Bye.", 1)

    def test_at_the_end(self) -> None:
        """At the end the prompt is the whole log, and there is no recorded answer."""
        (place,) = places(TALK, "end")

        assert (len(place.texts), place.answer, place.step) == (6, "", 6)
