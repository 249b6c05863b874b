"""What crosses the pipe comes out as it went in."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.block import BoundaryProbability, ItemScore, LogItem, Question
from engine.model.interface import LoadOptions
from engine.model.prompting import parse_prompt, prompt_names, prompt_text
from engine.worker import protocol
from engine.worker.protocol import Frame

probability = st.floats(0, 1)


def sent(frame: Frame) -> Frame:
    """A frame after its way through a pipe."""
    pipe = io.BytesIO()
    protocol.write_frame(pipe, frame)
    assert pipe.getvalue().count(b"\n") == 1
    pipe.seek(0)
    arrived = protocol.read_frame(pipe)
    assert arrived is not None
    return arrived


@given(
    st.lists(st.builds(BoundaryProbability, st.integers(0, 99), probability, probability)),
    st.one_of(st.none(), st.text()),
)
def test_scores(curve: list[BoundaryProbability], note: str | None) -> None:
    """Probabilities arrive bit for bit, the smallest ones too."""
    score = ItemScore(tuple(curve), 7, note, None)
    assert protocol.score_from(sent(protocol.score_frame(score))) == score


@given(
    st.lists(st.text(st.characters(exclude_categories=[]))),
    st.lists(st.integers(0, 9)),
    st.integers(),
)
def test_logs(texts: list[str], boundaries: list[int], kept: int) -> None:
    """Any text arrives as it was, line breaks, NULs and lone surrogates included."""
    item = LogItem(tuple(texts), tuple(boundaries), kept)
    assert protocol.item_from(sent({"item": protocol.item_frame(item)})["item"]) == item


def test_questions() -> None:
    """Every shipped prompt and an end tag arrive whole."""
    prompts = [parse_prompt(name, prompt_text(name)) for name in prompt_names()]
    for question in [Question(None), Question(None, "<end>"), *map(Question, prompts)]:
        assert protocol.question_from(sent(protocol.question_frame(question))) == question


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3)))
def test_vectors(rows: list[list[float]]) -> None:
    """Vectors arrive bit for bit, an empty list of them too."""
    vectors = np.array(rows, dtype=np.float32).reshape(len(rows), 3)
    arrived = protocol.vectors_from(sent(protocol.vectors_frame(vectors)))
    assert arrived.dtype == np.float32
    assert arrived.shape == vectors.shape
    assert arrived.tobytes() == vectors.tobytes()


def test_load_options() -> None:
    """Options arrive as they were."""
    options = LoadOptions(context=100, threads=3, batch=64, embedding=True)
    frame = sent(protocol.load_request(Path("m.gguf"), options, None))
    assert LoadOptions(**frame["options"]) == options


def test_the_end_of_the_stream() -> None:
    """A stream that ends, between frames or within one, gives no frame."""
    assert protocol.read_frame(io.BytesIO()) is None
    assert protocol.read_frame(io.BytesIO(json.dumps({"id": 1}).encode()[:-1])) is None
