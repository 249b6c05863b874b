"""Log-probabilities of given continuations: on the toy model whose every probability is known, and by the real model,
compared with `Llama` of llama-cpp-python on F32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import Cancelled
from engine.model.interface import LoadOptions
from engine.model.llamacpp.model import LlamaModel
from engine.model.process.chat import PrefixQuestion, continuation_log_probs
from tests.engine.model.test_parity import high_level
from tests.engine.model.toy import ROOMY, ToyModel, log_prob

HEAD = list(b"What all of them begin with, long enough to be shared. ")

PREFIXES = tuple(
    f"Here are tasks.\n{tasks}\nThe next task: -"
    for tasks in (
        "- book a table for two\n- find a restaurant with a garden",
        "- reset a password\n- unlock an account",
        "- book a hotel near the station",
    )
)
CONTINUATIONS = (" book a table in the centre\n", " block a lost card\n", " yes", "")

texts = st.binary(min_size=1, max_size=60).map(list)
continuations = st.lists(st.binary(max_size=30).map(list), max_size=6)


@st.composite
def questions(draw: st.DrawFn) -> list[PrefixQuestion]:
    """A few questions, most with a common prefix, some equal."""
    head = draw(st.sampled_from([[], HEAD[:4], HEAD]))
    return [
        PrefixQuestion([*head, *draw(texts)], draw(continuations))
        for _ in range(draw(st.integers(0, 12)))
    ]


def expected(asked: list[PrefixQuestion]) -> list[list[float]]:
    return [[log_prob(one.prefix, tokens) for tokens in one.continuations] for one in asked]


class TestSums:
    @settings(max_examples=40, deadline=None)
    @given(questions(), st.integers(8, 64), st.sampled_from([4, 6, 64]))
    def test_every_batch_size(
        self, asked: list[PrefixQuestion], batch: int, sequences: int
    ) -> None:
        """With any size of batch and cache each sum is that of the tokens one by one, and the cache is empty
        afterwards.
        """
        model = ToyModel(replace(ROOMY, batch=batch, rows=max(1, batch // 3), sequences=sequences))
        found = continuation_log_probs(model, asked)
        for got, wanted in zip(found, expected(asked), strict=True):
            assert got == pytest.approx(wanted, abs=1e-4)
        model.check_empty()

    def test_what_is_shared_is_decoded_once(self) -> None:
        """A common prefix, and a prefix with many continuations, is decoded once."""
        asked = [
            PrefixQuestion([*HEAD, 1], [[2, 3]] * 10),
            PrefixQuestion([*HEAD, 4], [[5, 6]] * 10),
        ]
        model = ToyModel()
        continuation_log_probs(model, asked)
        assert model.decoded == len(HEAD) + 2 + 20

    def test_cancelled(self) -> None:
        """After a cancel the next question starts from an empty cache."""
        asked = [PrefixQuestion([*HEAD, n], [[2, 3], [4, 5]]) for n in range(3)]
        model = ToyModel()
        model.cancel_after = 2
        with pytest.raises(Cancelled):
            continuation_log_probs(model, asked)
        model.check_empty()
        assert continuation_log_probs(model, asked)[0] == pytest.approx(expected(asked)[0])


@pytest.fixture(scope="module")
def exact(exact_weights: Path) -> Iterator[tuple[LlamaModel, llama_cpp.Llama]]:
    """The model, and `Llama` of llama-cpp-python, on the same F32 weights."""
    model = LlamaModel(exact_weights, LoadOptions(context=256, batch=128), lambda: False)
    llama = high_level(exact_weights, logits_all=True)
    yield model, llama
    llama.close()
    model.close()


def one_by_one(llama: llama_cpp.Llama, before: list[int], after: list[int]) -> float:
    """The sum over the tokens from `Llama`'s logits of the whole text."""
    if not after:
        return 0.0
    llama.reset()
    llama.eval([*before, *after])
    rows = np.array(llama.scores[: len(before) + len(after)], dtype=np.float64)
    top = rows.max(axis=1, keepdims=True)
    rows -= top + np.log(np.exp(rows - top).sum(axis=1, keepdims=True))
    return float(sum(rows[len(before) + at - 1, token] for at, token in enumerate(after)))


def test_parity(exact: tuple[LlamaModel, llama_cpp.Llama]) -> None:
    """Several questions at once give what each text alone gives, within 1e-3, in any order."""
    model, llama = exact
    questions = [
        PrefixQuestion(model.tokenize(prefix), [model.tokenize(text) for text in CONTINUATIONS])
        for prefix in PREFIXES
    ]
    found = continuation_log_probs(model, questions)
    for question, values in zip(questions, found, strict=True):
        for tokens, value in zip(question.continuations, values, strict=True):
            expected = one_by_one(llama, list(question.prefix), list(tokens))
            assert value == pytest.approx(expected, abs=1e-3)
    backwards = continuation_log_probs(model, questions[::-1])[::-1]
    for values, others in zip(found, backwards, strict=True):
        assert others == pytest.approx(values, abs=1e-3)
