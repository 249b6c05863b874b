"""Trees of the real model, on its F32 expansion, against a reference that asks the high-level interface anew for
each branch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from engine.model.interface import LoadOptions, log_probs
from engine.model.llamacpp import LlamaModel
from engine.trees.growth import Grower, Job
from engine.trees.tree import Kind, Tree, TreeOptions

PROMPTS = (
    "TURN 1, STEP 1, user chat:\nWhat is the capital of France?\n\nTURN 1, STEP 2, assistant chat:\n",
    "TURN 1, STEP 1, user chat:\nMay I return a lamp?\n\nTURN 1, STEP 2, assistant chat:\n",
)
OPTIONS = TreeOptions(alpha=0.02, max_tokens=6, stop=("\n",))


@pytest.fixture(scope="module")
def yardstick(expanded: Path) -> Iterator[llama_cpp.Llama]:
    """The high-level interface on the same weights, with a cache as exact as ours."""
    llama = llama_cpp.Llama(
        str(expanded),
        n_ctx=256,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        logits_all=True,
        verbose=False,
    )
    yield llama
    llama.close()


def by_prompts(llama: llama_cpp.Llama, model: LlamaModel, prompt: list[int]) -> dict[bytes, float]:
    """Leaves and their probabilities, each node by a prompt of its own."""
    found: dict[bytes, float] = {}

    def visit(tokens: list[int], path: float) -> None:
        text = b"".join(map(model.token_bytes, tokens))
        ended = tokens and (tokens[-1] in model.stop_tokens or b"\n" in text)
        if ended or len(tokens) == OPTIONS.max_tokens:
            found[text] = found.get(text, 0.0) + math.exp(path)
            return
        llama.reset()
        llama.eval([*prompt, *tokens])
        row = np.array(llama.scores[len(prompt) + len(tokens) - 1], dtype=np.float32)
        values = path + log_probs(row, range(len(row)))
        kept = np.flatnonzero(values >= math.log(OPTIONS.alpha))
        if not len(kept):
            found[text] = found.get(text, 0.0) + math.exp(path)
        for token in kept:
            visit([*tokens, int(token)], float(values[token]))

    visit([], 0.0)
    return found


def grown_leaves(tree: Tree) -> dict[bytes, float]:
    found: dict[bytes, float] = {}
    for at in tree.leaves():
        text = b"".join(map(tree.spelling, tree.tokens(at)))
        found[text] = found.get(text, 0.0) + tree.nodes[at].mass
    return found


def grow(model: LlamaModel, width: int = 32) -> list[Tree]:
    trees = [Tree(OPTIONS, model.stop_tokens, model.token_bytes) for _ in PROMPTS]
    jobs = [Job(tree, model.tokenize(prompt)) for tree, prompt in zip(trees, PROMPTS, strict=True)]
    Grower(model, width=width).grow(jobs)
    return trees


class TestParity:
    def test_same_leaves_as_a_prompt_for_each_branch(
        self, expanded: Path, yardstick: llama_cpp.Llama
    ) -> None:
        """Two trees grown side by side have the leaves of the reference, with probabilities within 1e-3."""
        model = LlamaModel(expanded, LoadOptions(context=256), lambda: False)
        try:
            for prompt, tree in zip(PROMPTS, grow(model), strict=True):
                expected = by_prompts(yardstick, model, model.tokenize(prompt))
                assert grown_leaves(tree) == pytest.approx(expected, abs=1e-3)
                account = tree.account()
                assert account.covered + account.pruned == pytest.approx(1, abs=1e-4)
        finally:
            model.close()

    def test_how_many_share_a_decode_does_not_matter(self, expanded: Path) -> None:
        """One node a decode and thirty-two give the same leaves of the same kinds."""
        model = LlamaModel(expanded, LoadOptions(context=256), lambda: False)
        try:
            for one, many in zip(grow(model, 1), grow(model, 32), strict=True):
                assert grown_leaves(one) == pytest.approx(grown_leaves(many), abs=1e-3)
                assert {one.nodes[at].kind for at in one.leaves()} <= set(Kind)
        finally:
            model.close()
