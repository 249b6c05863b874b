"""The model process against the high-level `Llama` of llama-cpp-python, on the F32 expansion of the default model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import llama_cpp
import numpy as np
import pytest

from engine.model import batched_replies
from engine.model.batched_replies import generate
from engine.model.interface import Logits, Sampling, Span
from engine.model.llamacpp.model import LlamaModel
from tests.engine.model.tasks import uniform_tasks
from tests.engine.model.weights import probabilities

TEXTS = (
    "TURN 1, STEP 1, user chat:\nI would like to change my flight to Boston",
    "The capital of France is",
    "TURN 1, STEP 1, system chat:\nYou are an agent of a bank.\n\nTURN 2, STEP 2, user chat:\nMy card",
    "SELECT name, count(*) FROM orders WHERE",
    "Once upon a time there was a",
    "1, 2, 3, 4,",
)


@pytest.fixture(scope="module")
def yardstick(exact_weights: Path) -> Iterator[llama_cpp.Llama]:
    """The `Llama` of llama-cpp-python on the same weights, with a cache of the same precision."""
    llama = high_level(exact_weights, logits_all=False)
    yield llama
    llama.close()


@pytest.fixture(scope="module")
def thorough(exact_weights: Path) -> Iterator[llama_cpp.Llama]:
    """The same with the logits of every position."""
    llama = high_level(exact_weights, logits_all=True)
    yield llama
    llama.close()


def high_level(path: Path, *, logits_all: bool) -> llama_cpp.Llama:
    """Loads weights with the high-level interface."""
    return llama_cpp.Llama(
        str(path),
        n_ctx=256,
        n_batch=256,
        n_ubatch=256,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        n_threads=1,
        n_threads_batch=1,
        logits_all=logits_all,
        verbose=False,
    )


def wanted(model: LlamaModel, number: int) -> list[int]:
    """One of many prompts of different lengths."""
    return model.tokenize(f"{TEXTS[number % len(TEXTS)]} {' and'.join(['so on'] * (number // 6))}")


def by_yardstick(llama: llama_cpp.Llama, prompt: list[int], count: int) -> list[int]:
    """Greedy tokens of the `Llama` of llama-cpp-python."""
    tokens: list[int] = []
    for token in llama.generate(prompt, temp=0.0, repeat_penalty=1.0):
        if token == llama.token_eos() or len(tokens) == count:
            break
        tokens.append(int(token))
    return tokens


class TestGreedy:
    def test_many_sequences(
        self, model: LlamaModel, yardstick: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """More prompts than are generated at a time, of different lengths, give the same tokens each."""
        monkeypatch.setattr(batched_replies, "PARALLEL", 8)
        prompts = [wanted(model, number) for number in range(11)]
        replies = generate(model, uniform_tasks(prompts, sampling=Sampling(), max_tokens=5))
        for prompt, reply in zip(prompts, replies, strict=True):
            assert list(reply.tokens) == by_yardstick(yardstick, prompt, 5)


class TestProbabilities:
    def reference(self, llama: llama_cpp.Llama, prompt: list[int]) -> Logits:
        """Next-token probabilities after every token of a prompt."""
        llama.reset()
        llama.eval(prompt)
        scores = cast(Logits, np.array(llama.scores[: len(prompt)], dtype=np.float32))
        return probabilities(scores)

    def test_many_sequences(self, model: LlamaModel, thorough: llama_cpp.Llama) -> None:
        """Six texts in one batch give after every token what each gives alone, within 1e-4."""
        prompts = [wanted(model, number) for number in range(6)]
        spans = [
            Span(prompt, 0, (number,), tuple(range(len(prompt))))
            for number, prompt in enumerate(prompts)
        ]
        rows = probabilities(model.decode(spans))
        at = 0
        for prompt in prompts:
            own = rows[at : at + len(prompt)]
            assert np.abs(own - self.reference(thorough, prompt)).max() < 1e-4
            at += len(prompt)
