"""An adapter as PEFT writes it, converted for llama.cpp."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.base.errors import ModelError
from engine.model.adapter_files import AdapterOrigin, base_fingerprint
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions, Logits, Span
from engine.model.llamacpp.model import LlamaModel
from tests.engine.model.weights import probabilities
from tests.training.tiny_bases import ARCHITECTURES, tiny_model, with_adapter, write_gguf
from training.gguf_adapter import convert, fingerprint_of

TOKENS = [1, *(3 + byte for byte in b"TURN 3, STEP 5, assistant (tool) chat:\nIt is done now.")]


def by_llama(path: Path, adapter: Path | None) -> Logits:
    """Next-token probabilities of llama.cpp after each token, with an adapter or without."""
    model = LlamaModel(path, LoadOptions(context=256, batch=128), lambda: False)
    model.use_adapter(adapter)
    rows = model.decode([Span(TOKENS, 0, (0,), tuple(range(len(TOKENS))))])
    found = probabilities(rows)
    model.close()
    return found


def by_torch(model: Any) -> Logits:
    """The same probabilities of `transformers`."""
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0]
    return cast(Logits, torch.softmax(logits.float(), -1).numpy())


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Path]:
    """Model, GGUF file and adapter folder, of the architecture of llama."""
    folder = tmp_path_factory.mktemp("llama")
    model = tiny_model("llama")
    base = write_gguf(model, folder / "base.gguf")
    with_adapter(model, folder / "adapter")
    return model, base, folder / "adapter"


class TestArchitectures:
    @pytest.mark.parametrize("model_type", ARCHITECTURES)
    def test_says_the_same(self, model_type: str, tmp_path: Path) -> None:
        """Base and adapter have the same probabilities in llama.cpp and in PEFT, and the adapter changes them much."""
        model = tiny_model(model_type)
        path = write_gguf(model, tmp_path / "base.gguf")
        plain = by_torch(model)
        assert np.abs(by_llama(path, None) - plain).max() < 1e-4

        tuned = by_torch(with_adapter(model, tmp_path / "adapter"))
        origin = AdapterOrigin(base_fingerprint=fingerprint_of(model))
        adapter = tmp_path / "a.gguf"
        convert(tmp_path / "adapter", model.config, adapter, origin)
        assert np.abs(by_llama(path, adapter) - tuned).max() < 2e-3
        assert np.abs(plain - tuned).max() > 0.05

    @pytest.mark.parametrize("model_type", ARCHITECTURES)
    def test_fingerprint_is_that_of_the_file(self, model_type: str, tmp_path: Path) -> None:
        """Model, model with adapter, model in BF16 and GGUF file have the same fingerprint; other weights have
        another.
        """
        model = tiny_model(model_type)
        path = write_gguf(model, tmp_path / "base.gguf")
        wanted = base_fingerprint(read_gguf(path))
        assert fingerprint_of(model) == wanted
        assert fingerprint_of(with_adapter(model, tmp_path / "adapter")) == wanted
        assert fingerprint_of(model.to(torch.bfloat16)) == wanted
        assert fingerprint_of(tiny_model(model_type, seed=8)) != wanted

    def test_others_are_refused(self, llama: tuple[Any, Path, Path], tmp_path: Path) -> None:
        """An unknown architecture is refused by name, with the list of known ones."""
        config: Any = SimpleNamespace(**{**vars(llama[0].config), "model_type": "gemma3"})
        with pytest.raises(ModelError, match=r"'gemma3'.*qwen3"):
            convert(llama[2], config, tmp_path / "a.gguf", AdapterOrigin())
        assert not list(tmp_path.iterdir())


def changed(adapter: Path, folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of an adapter with other matrices."""
    target = folder / "changed"
    target.mkdir()
    shutil.copy(adapter / "adapter_config.json", target)
    matrices = load_file(adapter / "adapter_model.safetensors")
    change(matrices)
    save_file(matrices, target / "adapter_model.safetensors")
    return target


class TestRefusals:
    def test_too_large_for_it(self, llama: tuple[Any, Path, Path], tmp_path: Path) -> None:
        """A number that 16 bits cannot hold is refused."""
        folder = changed(
            llama[2], tmp_path, lambda tensors: [t.mul_(1e6) for t in tensors.values()]
        )
        with pytest.raises(ModelError, match="16 bits cannot hold"):
            convert(folder, llama[0].config, tmp_path / "a.gguf", AdapterOrigin())

    def test_a_layer_that_llama_cannot_change(
        self, llama: tuple[Any, Path, Path], tmp_path: Path
    ) -> None:
        """An adapter of another layer than the linear ones of a block is refused, and no file is left."""

        def embed(matrices: dict[str, Any]) -> None:
            name = next(name for name in matrices if "layers.0.self_attn.q_proj.lora_A" in name)
            matrices[name.replace("q_proj", "embed_tokens")] = matrices.pop(name)

        folder = changed(llama[2], tmp_path, embed)
        with pytest.raises(ModelError, match="embed_tokens"):
            convert(folder, llama[0].config, tmp_path / "a.gguf", AdapterOrigin())
        assert [path.name for path in tmp_path.iterdir()] == ["changed"]
