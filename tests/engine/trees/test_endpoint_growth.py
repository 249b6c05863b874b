"""Response trees over HTTP, compared with the same model in process; tokens outside of the server's list are pruned
mass.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.errors import UsageError
from engine.model.endpoints.model import EndpointModel
from engine.trees.growth import Budget, Grower, Job
from engine.trees.model_requests import Grow, GrownTree, GrowOn, Place
from engine.trees.options import Transform, TreeOptions
from engine.trees.tree import Account, Kind, Tree, record
from tests.engine.model.endpoints.toy_endpoint import capabilities, client, endpoint
from tests.engine.model.endpoints.toy_peer import Manner
from tests.engine.model.toy import END, START, ToyModel

PLACE = Place(("Where is ", "my parcel?"), 0, 3, "Here")
OPTIONS = TreeOptions(alpha=0.008, max_tokens=3)


def total(account: Account) -> float:
    return account.covered + account.pruned + account.unexpanded


def in_process(options: TreeOptions = OPTIONS, place: Place = PLACE) -> tuple[Tree, Job]:
    """The tree of the same toy without HTTP."""
    model = ToyModel()
    tree = Tree(options, frozenset({END}), model.token_bytes)
    job = Job(tree, [START, *"".join(place.texts).encode()], list(place.answer.encode()))
    Grower(model).grow([job])
    return tree, job


def grown(model: EndpointModel, options: TreeOptions = OPTIONS) -> GrownTree:
    """One tree grown to its end."""
    (found,), work = model.ask(Grow([PLACE], options, Budget()))
    assert work.finished
    return found


def by_tokens(tree: Tree) -> dict[tuple[tuple[int, ...], Kind], float]:
    """Leaves by their tokens."""
    return {
        (tuple(tree.tokens(at)), tree.nodes[at].kind): tree.nodes[at].mass for at in tree.leaves()
    }


def by_text(tree: Tree) -> dict[tuple[bytes, Kind], float]:
    """Leaves by their text."""
    return {(tree.text(at), tree.nodes[at].kind): tree.nodes[at].mass for at in tree.leaves()}


class TestParity:
    def test_same_tree_where_everything_is_listed(self) -> None:
        """With the whole vocabulary listed the tree equals that of the model process, node for node."""
        with endpoint("llama-server") as (_, peer):
            can = replace(capabilities("llama-server"), top=259)
            found = grown(client(peer, can))
        tree, job = in_process()
        columns, expected = record(found.tree).columns, record(tree).columns
        for name in ("parent", "token", "kind"):
            assert columns[name] == expected[name]
        assert columns["log_p"] == pytest.approx(expected["log_p"], abs=1e-5)
        assert columns["pruned"] == pytest.approx(expected["pruned"], abs=1e-7)
        assert found.prompt_tokens == len(job.prompt)
        assert found.answer == tuple(job.answer)

    def test_a_list_of_texts(self) -> None:
        """A server that names tokens by texts gives the same leaves, except for bytes that are no text by
        themselves.
        """
        with endpoint("llama-cpp-python") as (model, _):
            found = grown(model)
        expected = by_text(in_process()[0])
        for (text, kind), mass in by_text(found.tree).items():
            if kind is not Kind.CUT:
                assert mass == pytest.approx(expected[(text, kind)], rel=1e-4)
        assert total(found.tree.account()) == pytest.approx(1, abs=1e-12)


class TestWhatIsHidden:
    @pytest.mark.parametrize("manner", ["vllm", "llama-cpp-python"])
    def test_account_is_exact(self, manner: Manner) -> None:
        """Covered, pruned and unexpanded mass add up to 1 however few tokens are listed."""
        with endpoint(manner) as (_, peer):
            found = grown(client(peer, replace(capabilities(manner), top=3)))
        assert total(found.tree.account()) == pytest.approx(1, abs=1e-12)

    def test_hidden_tokens_are_pruned(self) -> None:
        """With three tokens listed no node has more children, and the mass of the others is pruned."""
        with endpoint("vllm") as (_, peer):
            found = grown(client(peer, replace(capabilities("vllm"), top=3)))
        tree, _ = in_process(replace(OPTIONS, widest=3))
        assert found.tree.options.widest == 3
        assert by_tokens(found.tree) == pytest.approx(by_tokens(tree), rel=1e-5)
        assert found.tree.account().pruned == pytest.approx(tree.account().pruned, abs=1e-6)


class TestSamplers:
    def test_top_k_is_followed_exactly(self) -> None:
        """A sampler with a top-k within the list is reproduced exactly, temperature included."""
        options = TreeOptions(0.02, max_tokens=2, transform=Transform(temperature=0.7, top_k=5))
        with endpoint("vllm") as (model, _):
            found = grown(model, options)
        assert by_tokens(found.tree) == pytest.approx(by_tokens(in_process(options)[0]), rel=1e-4)

    @pytest.mark.parametrize("transform", [Transform(temperature=0.5), Transform(top_k=50)])
    def test_others_are_refused(self, transform: Transform) -> None:
        """A sampler that needs unlisted tokens is refused before a request."""
        with endpoint("vllm") as (model, peer):
            with pytest.raises(UsageError, match="lists 20 tokens"):
                model.ask(Grow([PLACE], replace(OPTIONS, transform=transform), Budget()))
            assert not peer.requests


class TestGrowth:
    def test_bound_on_nodes(self) -> None:
        """A budget of nodes ends growth with correct masses, and growing further gives the tree of one growth."""
        with endpoint("vllm") as (model, _):
            whole = grown(model)
            (part,), work = model.ask(Grow([PLACE], OPTIONS, Budget(nodes=5)))
            assert not work.finished
            assert work.nodes == 5
            assert total(part.tree.account()) == pytest.approx(1, abs=1e-12)
            rest, _ = model.ask(GrowOn(PLACE, record(part.tree), Budget()))
        assert by_tokens(rest.tree) == pytest.approx(by_tokens(whole.tree), rel=1e-9)


def test_refused() -> None:
    """Endpoints without log-probabilities refuse trees with the reason."""
    with (
        endpoint("bare") as (model, _),
        pytest.raises(UsageError, match=r"trees.*no log-probabilities"),
    ):
        model.ask(Grow([PLACE], OPTIONS, Budget()))
