"""Log-probabilities of continuations by the real model, compared with `Llama` of llama-cpp-python on F32."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from engine.model.interface import LoadOptions
from engine.model.llamacpp.model import LlamaModel
from engine.model.process.log_probs import PrefixQuestion, continuation_log_probs
from tests.engine.model.test_parity import high_level

PREFIXES = tuple(
    f"Here are tasks.\n{tasks}\nThe next task: -"
    for tasks in (
        "- book a table for two\n- find a restaurant with a garden",
        "- reset a password\n- unlock an account",
        "- book a hotel near the station",
    )
)
CONTINUATIONS = (" book a table in the centre\n", " block a lost card\n", " yes", "")


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
