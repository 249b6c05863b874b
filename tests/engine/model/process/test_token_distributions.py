"""The next-token distributions that the model process gives after every token of a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ModelError, ModelFileError
from engine.model.gguf_file import F32, read_gguf
from engine.model.interface import LoadOptions, Span, log_probs
from engine.model.llamacpp.files import quantize
from engine.model.llamacpp.model import LlamaModel
from engine.model.process.log_probs import read_tokens
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Expand
from tests.engine.model.tiny import write_sliding

TEXT = "TURN 1, STEP 1, user chat:\nHow many files are there – and where? ✓"


@pytest.fixture
def tiny(tmp_path: Path) -> LlamaModel:
    """A tiny model whose tokens are bytes."""
    path = write_sliding(tmp_path / "tiny.gguf")
    return LlamaModel(path, LoadOptions(context=128, batch=16), lambda: False)


class TestReadings:
    def test_every_place(self, tiny: LlamaModel) -> None:
        """Each position has its most probable token, the probability of the next one and of the requested ones, as in
        one decode, though the text takes several batches; the last position has no next token.
        """
        tokens = tiny.tokenize(TEXT)
        assert len(tokens) > 4 * tiny.capacity.batch
        found = read_tokens(tiny, tokens, [2, 65])
        assert [one.next_log_p is None for one in found] == [False] * (len(tokens) - 1) + [True]
        for place in (0, 15, 16, 40, len(tokens) - 1):
            tiny.clear()
            for at in range(place + 1):
                row = tiny.decode([Span([tokens[at]], at, (0,), (0,))])[0]
            wanted = log_probs(row, [int(np.argmax(row)), 2, 65, *tokens[place + 1 : place + 2]])
            one = found[place]
            following = [] if one.next_log_p is None else [one.next_log_p]
            assert one.top == int(np.argmax(row))
            assert [one.top_log_p, *one.also, *following] == pytest.approx(list(wanted), abs=1e-4)

    @pytest.mark.parametrize("count", [0, 129])
    def test_what_does_not_fit(self, tiny: LlamaModel, count: int) -> None:
        """An empty text, or one over the context, is refused with both figures."""
        with pytest.raises(ModelError, match=rf"{count} tokens .* 128"):
            read_tokens(tiny, [5] * count, [])


class TestProcess:
    def test_expand(self, process: ModelProcess, tmp_path: Path) -> None:
        """Weights in fewer bits are written in F32 without a model being loaded; a missing file is named."""
        narrow, wide = tmp_path / "q8.gguf", tmp_path / "f32.gguf"
        quantize(write_sliding(tmp_path / "tiny.gguf"), narrow, "q8_0", 1)
        process.ask(Expand(narrow, wide))
        kinds = [
            {info.kind for info in read_gguf(path).tensors.values()} for path in (narrow, wide)
        ]
        assert kinds[0] != kinds[1] == {F32}
        with pytest.raises(ModelFileError, match=r"none\.gguf"):
            process.ask(Expand(tmp_path / "none.gguf", wide))
