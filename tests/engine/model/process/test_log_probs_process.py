"""Log-probabilities from the real model process, compared with `Llama` of llama-cpp-python on F32."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from engine.goals.stages.proposing import log_probs_reader
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from tests.engine.model.test_parity import high_level

QUESTION = Prompt("q", False, "Here are tasks.\n", "\nThe next task:", " -", "Yes", "No", (), 12)
BODIES = (
    "- book a table for two\n- find a restaurant with a garden",
    "- reset a password\n- unlock an account",
    "- book a hotel near the station",
)
CONTINUATIONS = (" book a table in the centre\n", " block a lost card\n", " yes", "")


@pytest.fixture(scope="module")
def exact(
    exact_weights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ModelProcess, llama_cpp.Llama]]:
    """The model process, and `Llama` of llama-cpp-python, on the same F32 weights."""
    process = ModelProcess(tmp_path_factory.mktemp("log") / "worker.log")
    process.load(exact_weights, LoadOptions(context=256))
    llama = high_level(exact_weights, logits_all=True)
    yield process, llama
    llama.close()
    process.close()


def one_by_one(llama: llama_cpp.Llama, prefix: str, continuation: str) -> float:
    """The sum over the tokens from `Llama`'s logits of the whole text."""
    before = llama.tokenize(prefix.encode(), add_bos=False)
    after = llama.tokenize(continuation.encode(), add_bos=False)
    if not after:
        return 0.0
    llama.reset()
    llama.eval([*before, *after])
    rows = np.array(llama.scores[: len(before) + len(after)], dtype=np.float64)
    top = rows.max(axis=1, keepdims=True)
    rows -= top + np.log(np.exp(rows - top).sum(axis=1, keepdims=True))
    return float(sum(rows[len(before) + at - 1, token] for at, token in enumerate(after)))


class TestParity:
    def test_log_probabilities(self, exact: tuple[ModelProcess, llama_cpp.Llama]) -> None:
        """Bodies and continuations in one request give what each text alone gives, within 1e-3."""
        process, llama = exact
        pairs = [(body, text) for body in BODIES for text in CONTINUATIONS]
        found = log_probs_reader(process)(QUESTION, pairs)
        for (body, text), got in zip(pairs, found, strict=True):
            prefix = QUESTION.before + body + QUESTION.question + QUESTION.reply
            assert got.total == pytest.approx(one_by_one(llama, prefix, text), abs=1e-3)
            assert got.tokens == len(llama.tokenize(text.encode(), add_bos=False))

    def test_neighbors_and_order_do_not_matter(
        self, exact: tuple[ModelProcess, llama_cpp.Llama]
    ) -> None:
        """Alone, in another order or twice, a pair has the same number within 1e-3."""
        read = log_probs_reader(exact[0])
        pairs = [(body, text) for body in BODIES for text in CONTINUATIONS]
        together = read(QUESTION, pairs)
        backwards = read(QUESTION, pairs[::-1] + pairs[:3])
        assert [p.total for p in backwards[: len(pairs)][::-1]] == pytest.approx(
            [p.total for p in together], abs=1e-3
        )
        (alone,) = read(QUESTION, pairs[5:6])
        assert alone.total == pytest.approx(together[5].total, abs=1e-3)
