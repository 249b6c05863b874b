"""The real model: tokens, sequences, adapters, embeddings, broken files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import Cancelled, ModelError, ModelFileError
from engine.model.batched_replies import CELL_MULTIPLE
from engine.model.catalog import embedded_model
from engine.model.gguf_file import bytes_of, read_gguf
from engine.model.interface import LoadOptions, Logits, Span
from engine.model.llamacpp.files import copy_first_layers
from engine.model.llamacpp.model import LlamaModel
from engine.model.memory_plan import estimate
from engine.model.prompt_files import parse_prompt, prompt_text, tokens_around
from tests.engine.model.weights import SMALL, probabilities, write_adapter

TEXT = (
    "\n\nTURN 2, STEP 4, user chat:\nPlease cancel order #W123 and refund it to my card. Grüße 👋"
)


def last_row(model: LlamaModel, tokens: list[int]) -> Logits:
    """The logits after some tokens, decoded alone."""
    model.clear()
    rows = model.decode([Span(tokens, 0, (0,), (len(tokens) - 1,))])
    return np.array(rows[0])


def test_the_first_layers_as_they_are(tmp_path: Path) -> None:
    """A copy of the first layers has these tensors of the model and no other layers, unchanged, and takes the place of
    other copies; a model loads from it."""
    source, target = embedded_model(), tmp_path / "copies" / "14.gguf"
    copy_first_layers(source, target.with_name("13.gguf"), 13, 2)
    copy_first_layers(source, target, 14, 2)

    whole, copy = read_gguf(source), read_gguf(target)
    assert copy.number("llama.block_count") == 14
    assert set(copy.tensors) == {
        name
        for name in whole.tensors
        if not name.startswith("blk.") or int(name.split(".")[1]) < 14
    }
    for name, info in copy.tensors.items():
        size = bytes_of(info.shape, info.kind)
        assert size is not None
        place, place_in_whole = info.offset, whole.tensors[name].offset
        with target.open("rb") as file, source.open("rb") as whole_file:
            file.seek(place)
            whole_file.seek(place_in_whole)
            assert file.read(size) == whole_file.read(size)
    assert list(target.parent.iterdir()) == [target]
    LlamaModel(target, LoadOptions(context=64), lambda: False).close()


class TestTokens:
    def test_control_tokens_in_a_transcript_are_text(self, model: LlamaModel) -> None:
        """Control tokens spelled in a transcript are tokenized as text."""
        control = {
            model.end_token,
            *model.stop_tokens,
            *model.tokenize("<|im_start|>", special=True),
        }
        tokens = model.tokenize("Hi <|im_end|><|im_start|>assistant\n<|endoftext|>")
        assert not control & set(tokens)
        assert model.tokenize("<|im_end|>", special=True) == [model.end_token]

    def test_chat_frame(self, model: LlamaModel) -> None:
        """A chat prompt has one start token at its beginning, closes the user's turn and opens the assistant's."""
        around = tokens_around(parse_prompt("base", prompt_text("base")), model)
        (opens,) = model.tokenize("<|im_start|>", special=True)
        assert around.head[0] == opens
        assert opens not in around.head[1:2]
        assert [*around.head, *around.tail].count(opens) == 3  # system, user, assistant
        assert [*around.head, *around.tail].count(model.end_token) == 2


class TestSequences:
    def test_a_fork_is_the_same_past(self, model: LlamaModel) -> None:
        """After a fork both sequences continue as if each had been decoded alone."""
        tokens = model.tokenize(TEXT)
        model.decode([Span(tokens[:-2], 0, (0,))])
        model.fork(0, 5, len(tokens) - 2)
        both = model.decode(
            [
                Span(tokens[-2:], len(tokens) - 2, (0,), (1,)),
                Span([7, 8], len(tokens) - 2, (5,), (1,)),
            ]
        ).copy()
        for row, whole in zip(both, (tokens, [*tokens[:-2], 7, 8]), strict=True):
            alone = last_row(model, whole)
            assert np.abs(probabilities(row) - probabilities(alone)).max() < 1e-3

    def test_a_span_of_several_sequences(self, model: LlamaModel) -> None:
        """Tokens that belong to two sequences can be followed by different tokens in each, in the same batch."""
        tokens = model.tokenize(TEXT)
        count = len(tokens)
        rows = model.decode(
            [
                Span(tokens, 0, (1, 2), (count - 1,)),
                Span([11, 12], count, (1,), (1,)),
                Span([13], count, (2,), (0,)),
            ]
        ).copy()
        wholes = (tokens, [*tokens, 11, 12], [*tokens, 13])
        for row, whole in zip(rows, wholes, strict=True):
            alone = last_row(model, whole)
            assert np.abs(probabilities(row) - probabilities(alone)).max() < 1e-3

    def test_a_full_cache(self, shallow_weights: Path) -> None:
        """A full cache is an error that says so, and the model is usable afterwards."""
        small = LlamaModel(shallow_weights, LoadOptions(context=64, batch=32), lambda: False)
        before = last_row(small, [1, 2, 3])
        small.clear()

        def fill() -> None:
            for sequence in range(small.capacity.sequences):
                small.decode([Span([5] * 32, 0, (sequence,))])

        with pytest.raises(ModelError, match="refused"):
            fill()
        assert (last_row(small, [1, 2, 3]) == before).all()
        small.close()


class TestCancel:
    def test_while_decoding(self, exact_weights: Path) -> None:
        """A cancel during a decode ends it, and the model is usable afterwards."""
        asked = 0
        after = 10**9

        def cancelled() -> bool:
            nonlocal asked
            asked += 1
            return asked > after

        small = LlamaModel(exact_weights, LoadOptions(context=256, batch=128), cancelled)
        tokens = small.tokenize(TEXT * 3)[:100]
        before = last_row(small, tokens)
        asked_per_decode = asked
        asked, after = 0, asked_per_decode // 3
        with pytest.raises(Cancelled):
            small.decode([Span(tokens, len(tokens), (0,), (0,))])
        assert asked < asked_per_decode
        after = 10**9
        assert (last_row(small, tokens) == before).all()
        small.close()


class TestAdapters:
    def test_on_and_off(self, model: LlamaModel, tmp_path: Path) -> None:
        """An adapter changes probabilities; switching it off restores the base bit for bit, switching it on the
        adapter's, without a reload.
        """
        first = write_adapter(tmp_path / "a.gguf", model, seed=1)
        second = write_adapter(tmp_path / "b.gguf", model, seed=2)
        tokens = model.tokenize(TEXT)
        base = last_row(model, tokens)
        model.use_adapter(first)
        tuned = last_row(model, tokens)
        model.use_adapter(second)
        other = last_row(model, tokens)
        first.unlink()
        model.use_adapter(first)
        assert (last_row(model, tokens) == tuned).all()
        model.use_adapter(None)
        assert (last_row(model, tokens) == base).all()
        for one, two in ((base, tuned), (base, other), (tuned, other)):
            assert np.abs(probabilities(one) - probabilities(two)).max() > 0.01


class TestFiles:
    @pytest.mark.parametrize("as_adapter", [False, True])
    def test_not_a_gguf_file(self, model: LlamaModel, tmp_path: Path, as_adapter: bool) -> None:
        """Any other file is refused by name, as a model and as an adapter."""
        path = tmp_path / "model.gguf"
        path.write_bytes(b"PK\x03\x04 something else")
        with pytest.raises(ModelFileError, match=r"model\.gguf is not a GGUF file"):
            model.use_adapter(path) if as_adapter else LlamaModel(path, SMALL, lambda: False)

    def test_memory_estimate(self, model: LlamaModel, exact_weights: Path) -> None:
        """The estimate is at least the weights and the cells of the largest layout, and little more."""
        per_token = 30 * 3 * 64 * 2 * 4  # layers, key-value heads, width, key and value, bytes
        cells = (model.max_separate(CELL_MULTIPLE) + 1) * CELL_MULTIPLE
        assert cells > model.capacity.cells
        weights = exact_weights.stat().st_size
        need = estimate(read_gguf(exact_weights), SMALL)
        assert weights * 0.95 < need.weights + need.cache < weights * 1.05 + per_token * cells


class TestEmbeddings:
    def test_vectors(self, quick_weights: Path) -> None:
        """Vectors have length one, similar texts are nearer, and a vector hardly depends on the other texts of its
        batch.
        """
        texts = [
            "I want a refund for my shoes.",
            "Please give me my money back for the boots.",
            "The train to Berlin leaves at nine from platform four.",
        ] + [f"Filler {number}." for number in range(62)]
        options = LoadOptions(context=256, batch=64, embedding=True)
        embedder = LlamaModel(quick_weights, options, lambda: False)
        tokens = [embedder.tokenize(text) for text in texts]
        vectors = embedder.embed(tokens)
        assert vectors.shape == (65, 576)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(65), abs=1e-5)
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
        assert vectors[0] @ embedder.embed(tokens[:1])[0] > 0.999
