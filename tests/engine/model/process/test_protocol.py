"""Requests and answers are unchanged after their way through the pipe."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.boundaries import BoundaryReading
from engine.completeness.model_requests import Score
from engine.completeness.scoring import ItemScore
from engine.model.chat import Call, ChatMessage
from engine.model.interface import Sampling
from engine.model.process import protocol
from engine.model.process.requests import Chat
from engine.trees.growth import Budget
from engine.trees.model_requests import Grow, GrownTree, Place
from engine.trees.records import TreeOptions
from engine.trees.tree import Tree, frame_of

probability = st.floats(0, 1)


def crossed(kind: Any, value: Any) -> Any:
    """A value of a type after its way through the pipe."""
    pipe = io.BytesIO()
    protocol.write_frame(pipe, protocol.Answer(1, protocol.encode(value)))
    pipe.seek(0)
    arrived = protocol.read_frame(pipe)
    assert isinstance(arrived, protocol.Answer)
    assert protocol.read_frame(pipe) is None
    return protocol.decode(kind, arrived.value)


@given(
    st.lists(st.builds(BoundaryReading, probability, probability)),
    st.one_of(st.none(), st.text()),
)
def test_scores(curve: list[BoundaryReading], note: str | None) -> None:
    """Probabilities arrive bit for bit, the smallest ones too."""
    score = ItemScore(tuple(curve), 7, note, None)
    assert crossed(protocol.answer_type(Score), [score]) == [score]


def test_calls() -> None:
    """Everything that determines a reply arrives: the key of the call is the same on both sides."""
    call = Call(
        "simulator",
        "user",
        (ChatMessage("system", "S"), ChatMessage("user", "Hi")),
        Sampling(0.5, "{}"),
        7,
        9,
        "O",
    )
    assert crossed(Chat, Chat([call])) == Chat([call])


def test_trees() -> None:
    """A tree arrives with the same nodes and masses."""
    tree = Tree(TreeOptions(alpha=0.1, stop=("\n",)), frozenset({1}), lambda token: bytes([token]))
    root = tree.take()
    assert root is not None
    tree.expand(root, np.log([0.1, 0.9]))
    grown = GrownTree(frame_of(tree), (65,), (-0.1,), 3, None, 0.5)
    (arrived,) = crossed(protocol.answer_type(Grow), [grown])
    assert arrived.frame == frame_of(arrived.tree) == frame_of(tree)
    assert (arrived.answer, arrived.answer_log_probs) == ((65,), (-0.1,))
    request = Grow([Place(("a",), 0, 1, "b")], tree.options, Budget(3))
    assert crossed(type(request), request) == request


def test_the_end_of_the_stream() -> None:
    """A stream that ends, between frames or within one, gives no frame."""
    pipe = io.BytesIO()
    protocol.write_frame(pipe, protocol.Cancel(1))
    for count in (0, 3, protocol.LENGTH_BYTES, len(pipe.getvalue()) - 1):
        assert protocol.read_frame(io.BytesIO(pipe.getvalue()[:count])) is None


def test_what_is_no_frame() -> None:
    """Text that something else wrote into the pipe is refused at once, however long it is."""
    with pytest.raises(ValueError, match="not the beginning"):
        protocol.read_frame(io.BytesIO(b"Segmentation fault"))
