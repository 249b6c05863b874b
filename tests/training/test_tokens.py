"""Training and scoring tokenize text alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.model.catalog import embedded_model
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Tokenize
from engine.training.config import TrainConfig
from training.base import HubTokenizer, load_tokenizer

HARD = [
    "in this place?  9 or 10pm",
    "  42\n\n  7",
    "½ ² Ⅳ １２ ٣",
    "a\t\t3",
    "don't you'LL",
    "\r\n \r\n1",
    "12,345.6",
]
"""Spaces before digits, digits that are none of ASCII's, contractions, line ends, words of the vocabulary's own."""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """llama.cpp with the default model."""
    made = ModelProcess(tmp_path_factory.mktemp("model") / "log")
    made.load(Path(embedded_model()), LoadOptions(context=512))
    yield made
    made.close()


@pytest.fixture(scope="module")
def tokenizer() -> HubTokenizer:
    """The tokenizer of a run on the default model."""
    return load_tokenizer(TrainConfig(base=str(embedded_model())))


def test_hard_texts(process: ModelProcess, tokenizer: HubTokenizer) -> None:
    """Texts on which splitting by words and digits could differ have the same tokens."""
    assert [tokenizer.tokenize(text) for text in HARD] == process.ask(Tokenize(HARD))


CHARACTERS = st.one_of(
    st.sampled_from(list(" \n\t09aZé'’.,?!-_<|>{}\"")),
    st.characters(codec="utf-8", exclude_categories=["Cc"]),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.text(CHARACTERS, max_size=40), min_size=1, max_size=30))
def test_any_text(process: ModelProcess, tokenizer: HubTokenizer, texts: list[str]) -> None:
    """Any text has the same tokens, of characters for which the vocabulary has any: what one of both drops between two
    others it may join them across."""
    assert [tokenizer.tokenize(text) for text in texts] == process.ask(Tokenize(texts))
