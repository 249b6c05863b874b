"""Requests and answers are unchanged after their way through the pipe."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.block import (
    BoundaryProbability,
    ItemScore,
    LogItem,
    Question,
    WrittenOn,
)
from engine.model.chat import Call, ChatMessage
from engine.model.interface import LoadOptions, Sampling
from engine.model.process import protocol, requests
from engine.model.process.requests import Chat, Embed, Grow, GrownTree, GrowOn, Load, Request, Score
from engine.model.prompt_files import parse_prompt, prompt_names, prompt_text
from engine.trees.growth import Budget, Work
from engine.trees.places import Place
from engine.trees.record import record
from engine.trees.tree import Tree, TreeOptions

probability = st.floats(0, 1)


def sent(value: Any) -> Any:
    """The JSON values that arrive for a value."""
    pipe = io.BytesIO()
    protocol.write_frame(pipe, {"value": value})
    assert pipe.getvalue().count(b"\n") == 1
    pipe.seek(0)
    arrived = protocol.read_frame(pipe)
    assert arrived is not None
    return arrived["value"]


def crossed(request: Request[Any]) -> Request[Any]:
    """A request after its way through the pipe."""
    arrived: Request[Any] = protocol.decode(type(request), sent(request))
    return arrived


@given(
    st.lists(st.builds(BoundaryProbability, st.integers(0, 99), probability, probability)),
    st.one_of(st.none(), st.text()),
)
def test_scores(curve: list[BoundaryProbability], note: str | None) -> None:
    """Probabilities arrive bit for bit, the smallest ones too."""
    score = ItemScore(tuple(curve), 7, note, None, WrittenOn("To do.", "stop"))
    assert protocol.decode(protocol.answer_type(Score), sent([score])) == [score]


@given(
    st.lists(st.text(st.characters(exclude_categories=[]))),
    st.lists(st.integers(0, 9)),
    st.integers(),
)
def test_logs(texts: list[str], boundaries: list[int], kept: int) -> None:
    """Any text arrives as it was, line breaks, NULs and lone surrogates included."""
    item = LogItem(tuple(texts), tuple(boundaries), kept)
    assert crossed(Score([item], Question(None))) == Score([item], Question(None))


def test_questions() -> None:
    """Every shipped prompt and an end tag arrive whole."""
    prompts = [parse_prompt(name, prompt_text(name)) for name in prompt_names()]
    for question in [Question(None), Question(None, "<end>"), *map(Question, prompts)]:
        assert crossed(Score([], question)) == Score([], question)


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3)))
def test_vectors(rows: list[list[float]]) -> None:
    """Vectors arrive bit for bit, an empty list of them too."""
    vectors = np.array(rows, dtype=np.float32).reshape(len(rows), 3)
    arrived = protocol.decode(protocol.answer_type(Embed), sent(vectors))
    assert arrived.dtype == np.float32
    assert arrived.shape == vectors.shape
    assert arrived.tobytes() == vectors.tobytes()


def test_load_options() -> None:
    """Options arrive as they were."""
    options = LoadOptions(context=100, threads=3, batch=64, embedding=True)
    request = Load(Path("m.gguf"), options, Path("a.gguf"))
    assert crossed(request) == request


def test_calls() -> None:
    """Everything that determines a reply arrives: the key of the call is the same on both sides."""
    call = Call(
        "simulator",
        "user",
        (ChatMessage("system", "S"), ChatMessage("user", "Hi")),
        Sampling(0.5, 4, 0.9, 0.1, None, "{}"),
        7,
        ("a", "b"),
        9,
        "O",
    )
    assert crossed(Chat([call])) == Chat([call])


def test_trees() -> None:
    """A tree arrives with the same nodes and masses."""
    tree = Tree(TreeOptions(alpha=0.1, stop=("\n",)), frozenset({2}), lambda token: bytes([token]))
    root = tree.take()
    assert root is not None
    tree.expand_listed(root, [(65, -0.1), (2, -2.5)], 2)
    grown = GrownTree(tree, (65,), (-0.1,), 3, None)
    answer = ([grown], Work(1, 1, 1, 0.5, 0.25, True))
    (arrived,), work = protocol.decode(protocol.answer_type(Grow), sent(answer))
    assert record(arrived.tree) == record(tree)
    assert (arrived.answer, arrived.answer_log_probs, work) == ((65,), (-0.1,), answer[1])
    request = GrowOn(Place(("a",), 0, 1, "b"), record(tree), Budget(3), 0.01, 1)
    assert crossed(request) == request


def test_every_request_has_an_answer_type() -> None:
    """The codec has an answer type for each request."""
    kinds = [kind for kind in vars(requests).values() if isinstance(kind, type)]
    asked = [kind for kind in kinds if issubclass(kind, Request) and kind is not Request]
    assert asked
    for kind in asked:
        protocol.answer_type(kind)


def test_the_end_of_the_stream() -> None:
    """A stream that ends, between frames or within one, gives no frame."""
    assert protocol.read_frame(io.BytesIO()) is None
    assert protocol.read_frame(io.BytesIO(json.dumps({"id": 1}).encode()[:-1])) is None
