"""Models with other caches than a plain transformer's: forked exactly, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from engine.base.errors import ModelError
from engine.model.interface import LoadOptions, Logits, Span
from engine.model.llamacpp.model import LlamaModel
from engine.trees.growth import Grower, Job
from engine.trees.records import TreeOptions
from engine.trees.tree import Tree
from tests.engine.model.tiny import WINDOW, write_recurrent, write_sliding
from tests.engine.model.weights import probabilities
from tests.engine.trees.prompted import grow_by_prompts

PROMPT = b"A log that is many times as long as the window of this little model. "
LONG = PROMPT * 6
AFTER = b" And then"


@pytest.fixture(scope="module")
def sliding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    """The tiny model with a sliding window that is soon full."""
    path = write_sliding(tmp_path_factory.mktemp("weights") / "sliding.gguf")
    model = LlamaModel(path, LoadOptions(context=768, batch=32), lambda: False)
    yield model
    model.close()


def read(model: LlamaModel, tokens: list[int], position: int, sequence: int) -> Logits:
    """Decodes tokens in batches; returns the probabilities after the last one."""
    size = model.capacity.batch
    for at in range(0, len(tokens), size):
        part = tokens[at : at + size]
        rows = model.decode([Span(part, position + at, (sequence,), (len(part) - 1,))])
    return probabilities(rows)


def fresh(model: LlamaModel, tokens: list[int]) -> Logits:
    """The probabilities after tokens that are decoded on an empty cache."""
    model.clear()
    return read(model, tokens, 0, 0)


def read_and_continued(model: LlamaModel) -> tuple[list[int], list[int], int, Logits]:
    """Reads a long text on an empty cache; returns its tokens, those of another text, a place in it, and the
    probabilities after the other text where that follows the text up to the place."""
    tokens = model.tokenize(PROMPT.decode(), start=True)
    more = model.tokenize(AFTER.decode())
    place = len(tokens) // 3
    expected = fresh(model, [*tokens[:place], *more])
    model.clear()
    read(model, tokens, 0, 0)
    return tokens, more, place, expected


class TestSliding:
    def test_what_came_before_the_window_matters(self, sliding: LlamaModel) -> None:
        """The output of the sliding-window model depends on tokens before the window, so the test can detect a wrong
        fork.
        """
        tokens = sliding.tokenize(PROMPT.decode(), start=True)
        other = [tokens[0], tokens[2], *tokens[2:]]
        assert len(tokens) > 8 * WINDOW
        assert np.abs(fresh(sliding, tokens) - fresh(sliding, other)).max() > 1e-3

    def test_a_fork_at_an_earlier_place(self, sliding: LlamaModel) -> None:
        """A sequence forked at an earlier position, after much else was read and dropped, continues as a fresh one."""
        tokens, more, place, expected = read_and_continued(sliding)
        for other in range(1, 9):
            for at, token in enumerate(tokens[:60]):
                read(sliding, [token], at, other)
            sliding.drop(other)
        sliding.fork(0, 1, place)
        found = read(sliding, more, place, 1)

        assert np.abs(found - expected).max() < 1e-5

    def test_going_back(self, sliding: LlamaModel) -> None:
        """A sequence whose tail is dropped from an early position continues from there as a fresh one."""
        tokens, more, place, expected = read_and_continued(sliding)
        for _ in range(8):
            for at, token in enumerate(tokens[:60]):
                read(sliding, [token], len(tokens) + at, 0)
            sliding.drop(0, len(tokens))
        sliding.drop(0, place)
        found = read(sliding, more, place, 0)

        assert np.abs(found - expected).max() < 1e-5

    def test_trees(self, sliding: LlamaModel) -> None:
        """Trees of prompts with a common prefix have the nodes of a recursion that reads a prompt for each node."""
        options = TreeOptions(alpha=0.01, max_tokens=2)
        prompts = [sliding.tokenize(f"{PROMPT.decode()} {end}", start=True) for end in "abc"]
        trees = [Tree(options, sliding.stop_tokens, sliding.token_bytes) for _ in prompts]
        Grower(sliding).grow([Job(t, p) for t, p in zip(trees, prompts, strict=True)])
        llama = llama_cpp.Llama(
            str(sliding.path), n_ctx=192, type_k=llama_cpp.GGML_TYPE_F32,
            type_v=llama_cpp.GGML_TYPE_F32, logits_all=True, verbose=False,
        )  # fmt: skip
        try:
            for prompt, tree in zip(prompts, trees, strict=True):
                expected = grow_by_prompts(
                    llama, prompt, options, sliding.stop_tokens.__contains__, sliding.token_bytes
                )
                found = {tuple(tree.tokens(at)): node.mass for at, node in enumerate(tree.nodes)}
                assert len(found) > 5
                assert found == pytest.approx(expected.nodes, abs=1e-5)
                assert tree.account().pruned == pytest.approx(expected.pruned, abs=1e-5)
        finally:
            llama.close()


class TestRecurrent:
    def test_refused_with_the_reason(self, tmp_path: Path) -> None:
        """A model with a recurrent state is recognized by its file, and no tree is grown on it."""
        model = LlamaModel(
            write_recurrent(tmp_path / "recurrent.gguf"), LoadOptions(context=128), lambda: False
        )
        try:
            assert not model.capacity.forkable
            assert read(model, model.tokenize("abc", start=True), 0, 0).sum() == pytest.approx(1)
            with pytest.raises(ModelError, match="recurrent or hybrid"):
                Grower(model)
        finally:
            model.close()
