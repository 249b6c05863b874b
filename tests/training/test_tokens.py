"""Training and scoring tokenize text alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import ModelError
from engine.completeness.scoring import LogItem
from engine.model.catalog import embedded_model
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Tokenize
from engine.training.config import TrainConfig
from tests.training.tiny_bases import tiny_model, write_gguf
from training.base import HubTokenizer, load_tokenizer
from training.examples import Log
from training.run import refuse_other_tokens

HARD = [
    "in this place?  9 or 10pm", "  42\n\n  7", "½ ² Ⅳ １２ ٣", "a\t\t3", "don't you'LL", "\r\n \r\n1", "12,345.6",
]  # fmt: skip
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


def test_a_base_with_other_tokens_is_refused(tokenizer: HubTokenizer, tmp_path: Path) -> None:
    """A run on the default model may begin; one whose tokenizer splits text otherwise than llama.cpp may not."""
    logs = [Log("a", LogItem(("TURN 1, STEP 1, user chat:\nHi", "\n\nBye"), (1,), 0))]
    refuse_other_tokens(embedded_model(), tokenizer, logs, tmp_path / "log")
    other = write_gguf(tiny_model("llama"), tmp_path / "other.gguf")
    with pytest.raises(ModelError, match=r"other tokens than the tokenizer of other\.gguf"):
        refuse_other_tokens(other, tokenizer, logs, tmp_path / "log")
    refuse_other_tokens(tmp_path, tokenizer, logs, tmp_path / "log")
