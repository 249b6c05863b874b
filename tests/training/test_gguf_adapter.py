"""An adapter as PEFT writes it, converted for llama.cpp."""

from __future__ import annotations

import json
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
from engine.model.gguf_file import F16, F32, read_gguf
from engine.model.interface import LoadOptions, Logits, Span
from engine.model.llamacpp import LlamaModel
from tests.engine.model.weights import probabilities
from tests.training.tiny_bases import ARCHITECTURES, RANK, tiny_model, with_adapter, write_gguf
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
        convert(tmp_path / "adapter", model.config, adapter, origin, "f32")
        assert np.abs(by_llama(path, adapter) - tuned).max() < 1e-4
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


class TestWidth:
    def test_half_the_bytes(self, llama: tuple[Any, Path, Path], tmp_path: Path) -> None:
        """F16, the default, takes half the bytes of F32 and has nearly the same probabilities."""
        model, base, folder = llama
        wide, narrow = tmp_path / "wide.gguf", tmp_path / "narrow.gguf"
        convert(folder, model.config, wide, AdapterOrigin(), "f32")
        convert(folder, model.config, narrow, AdapterOrigin())
        assert {info.kind for info in read_gguf(wide).tensors.values()} == {F32}
        assert {info.kind for info in read_gguf(narrow).tensors.values()} == {F16}
        assert np.abs(by_llama(base, wide) - by_llama(base, narrow)).max() < 2e-3

    def test_too_large_for_it(self, llama: tuple[Any, Path, Path], tmp_path: Path) -> None:
        """A number that F16 cannot hold is refused."""
        folder = changed(
            llama[2], tmp_path, tensors=lambda found: [t.mul_(1e6) for t in found.values()]
        )
        with pytest.raises(ModelError, match="f16 cannot hold"):
            convert(folder, llama[0].config, tmp_path / "a.gguf", AdapterOrigin())


class TestOrigin:
    def test_is_read_back(self, llama: tuple[Any, Path, Path], tmp_path: Path) -> None:
        """The file names what it was made from."""
        origin = AdapterOrigin("n1:abc", "smol", "sha256:1", "boundary", None, "<end>")
        convert(llama[2], llama[0].config, tmp_path / "a.gguf", origin)
        assert AdapterOrigin.of(read_gguf(tmp_path / "a.gguf")) == origin


def changed(
    adapter: Path,
    folder: Path,
    *,
    tensors: Callable[[dict[str, Any]], object] = lambda _: None,
    **said: object,
) -> Path:
    """A copy of an adapter with other settings or matrices."""
    target = folder / "changed"
    target.mkdir()
    config = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
    (target / "adapter_config.json").write_text(json.dumps({**config, **said}), "utf-8")
    found = load_file(adapter / "adapter_model.safetensors")
    tensors(found)
    save_file(found, target / "adapter_model.safetensors")
    return target


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    """Renames one matrix of an adapter."""

    def rename(found: dict[str, Any]) -> None:
        name = next(one for one in found if old in one)
        found[name.replace(old, new)] = found.pop(name)

    return rename


LAST = "base_model.model.lm_head.lora_A.weight"
FIRST_Q = "layers.0.self_attn.q_proj.lora_A"
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "weights that are decomposed": ("use_dora", {"use_dora": True}),
    "an alpha of its own": ("alpha_pattern", {"alpha_pattern": {"q_proj": 3}}),
    "whole modules": ("modules_to_save", {"modules_to_save": ["norm"]}),
    "a setting that is new": ("use_magic", {"use_magic": True}),
    "another kind": ("LOHA", {"peft_type": "LOHA"}),
    "a base that was changed": ("pissa", {"init_lora_weights": "pissa"}),
    "biases": ("biases", {"bias": "all"}),
    "no alpha": ("above 0", {"lora_alpha": 0}),
    "another rank": (f"rank {2 * RANK}", {"r": 2 * RANK}),
    "roots of ranks that differ": ("root", {"use_rslora": True, "rank_pattern": {"q_proj": 8}}),
    "the last layer": (
        "lm_head",
        {"tensors": renamed("model.layers.0.self_attn.q_proj", "lm_head")},
    ),
    "embeddings": ("embed", {"tensors": renamed(FIRST_Q, "embed_tokens.lora_embedding_A")}),
    "a matrix without its other": (
        "lacks one",
        {"tensors": lambda found: found.pop(next(n for n in found if "lora_A" in n))},
    ),
    "nothing": ("changes nothing", {"tensors": lambda found: found.clear()}),
}


class TestRefusals:
    @pytest.mark.parametrize("what", REFUSED)
    def test_what_llama_cannot_apply(
        self, llama: tuple[Any, Path, Path], tmp_path: Path, what: str
    ) -> None:
        """An adapter that llama.cpp would apply differently is refused with the reason, and no file is left."""
        said, change = REFUSED[what]
        folder = changed(llama[2], tmp_path, **change)
        with pytest.raises(ModelError, match=said):
            convert(folder, llama[0].config, tmp_path / "a.gguf", AdapterOrigin())
        assert [path.name for path in tmp_path.iterdir()] == ["changed"]

    def test_root_of_the_rank(self, llama: tuple[Any, Path, Path], tmp_path: Path) -> None:
        """An adapter scaled by the root of its rank has the same probabilities in llama.cpp as in PEFT: its alpha is
        rewritten.
        """
        folder = changed(llama[2], tmp_path, use_rslora=True)
        convert(folder, llama[0].config, tmp_path / "a.gguf", AdapterOrigin())
        alpha = read_gguf(tmp_path / "a.gguf").values["adapter.lora.alpha"]
        assert alpha == pytest.approx(2 * RANK * RANK**0.5)
