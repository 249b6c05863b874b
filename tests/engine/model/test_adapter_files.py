"""Which adapters are refused for which base, before llama.cpp sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import AdapterError, ModelFileError
from engine.model.adapter_files import AdapterOrigin, read_card, refuse_other_base
from engine.model.chat import Call, ChatMessage
from engine.model.interface import LoadOptions, Sampling
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Chat
from tests.engine.model.small_adapters import FITTING, V, adapter_file


class TestByFingerprint:
    def test_another_base_of_its_shape(self, shipped: Path, tmp_path: Path) -> None:
        """An adapter of fitting shapes with another fingerprint is refused, with the name of its own base."""
        origin = AdapterOrigin("n1:0000", "smollm2-135m-base")
        with pytest.raises(ModelFileError, match=r"trained on smollm2-135m-base, which has other"):
            refuse_other_base(adapter_file(tmp_path / "a.gguf", origin=origin), shipped)

    def test_in_the_model_process(
        self, shared_process: ModelProcess, shallow_weights: Path, tmp_path: Path
    ) -> None:
        """The model process refuses an adapter by the same check, keeps running, and accepts one that fits."""
        options = LoadOptions(context=1024)
        wrong = adapter_file(tmp_path / "wrong.gguf", origin=AdapterOrigin("n1:0000", "another"))
        with pytest.raises(ModelFileError, match=r"wrong\.gguf is not an adapter for .* another"):
            shared_process.load(shallow_weights, options, wrong)
        shared_process.load(shallow_weights, options)
        talk = (ChatMessage("user", "The end"),)
        asked = Chat([Call("test", "user", talk, Sampling(temperature=1.0), 40)])
        plain = shared_process.ask(asked)
        shared_process.load(shallow_weights, options, adapter_file(tmp_path / "right.gguf"))
        assert shared_process.ask(asked) != plain


def test_one_that_ends_with_a_text(shipped: Path, tmp_path: Path) -> None:
    """An adapter that was trained to end with a text is refused: its base's end token means nothing to it."""

    class EndsWithText(AdapterOrigin):
        def values(self) -> dict[str, str | int]:
            """The text that ends a conversation."""
            return {"workbench.end_tag": "<end>"}

    adapter = adapter_file(tmp_path / "a.gguf", origin=EndsWithText())
    with pytest.raises(ModelFileError, match="trained to end with a text"):
        refuse_other_base(adapter, shipped)


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "another architecture": ("architecture qwen2, not llama", {"architecture": "qwen2"}),
    "no LoRA": ("the kind 'control_vector'", {"kind": "control_vector"}),
    "wider matrices": (
        "for 640 x 192 weights, the model has 576 x 192",
        {"shapes": {f"{V}.lora_a": (4, 640), f"{V}.lora_b": (192, 4)}},
    ),
    "taller matrices": (
        "for 576 x 256 weights",
        {"shapes": {f"{V}.lora_a": (4, 576), f"{V}.lora_b": (256, 4)}},
    ),
    "ranks that differ": (
        "matrices for",
        {"shapes": {f"{V}.lora_a": (4, 576), f"{V}.lora_b": (192, 8)}},
    ),
    "vectors": ("matrices for", {"shapes": {f"{V}.lora_a": (576,), f"{V}.lora_b": (192,)}}),
    "more layers": (
        "'blk.30.attn_v.weight', which the model does not have",
        {"shapes": {name.replace("blk.0", "blk.30"): shape for name, shape in FITTING.items()}},
    ),
    "one matrix of two": ("only one of the two", {"shapes": {f"{V}.lora_b": (192, 4)}}),
    "other tensors": ("no part of a LoRA", {"shapes": {**FITTING, f"{V}.magnitude": (192,)}}),
    "no tensors": ("no tensors", {"shapes": {}}),
}


class TestNumbers:
    @pytest.mark.parametrize("scale", [float("nan"), float("inf")])
    def test_an_adapter_without_numbers(
        self, shared_process: ModelProcess, shallow_weights: Path, tmp_path: Path, scale: float
    ) -> None:
        """An adapter whose weights are not numbers is named as what is broken."""
        broken = adapter_file(tmp_path / "broken.gguf", scale=scale)
        said = r"The adapter broken\.gguf is broken: in blk\.0\.attn_v"
        with pytest.raises(AdapterError, match=said):
            shared_process.load(shallow_weights, LoadOptions(context=1024), broken)


class TestByShape:
    @pytest.mark.parametrize("what", REFUSED)
    def test_refused(self, shipped: Path, tmp_path: Path, what: str) -> None:
        """An adapter that does not fit is refused with the reason."""
        said, change = REFUSED[what]
        with pytest.raises(ModelFileError, match=said):
            refuse_other_base(adapter_file(tmp_path / "a.gguf", **change), shipped)


class TestCard:
    def test_beside_the_adapter(self, tmp_path: Path) -> None:
        """The name of an adapter is the given one, else that of the run whose card lies beside it."""
        assert read_card(tmp_path / "a.gguf") == {}
        (tmp_path / "a.json").write_text(json.dumps({"recipe": "paper"}))
        assert read_card(tmp_path / "a.gguf") == {"recipe": "paper"}
        (tmp_path / "card.json").write_text("[not a card]")
        assert read_card(tmp_path / "a.gguf") == {"recipe": "paper"}
        (tmp_path / "card.json").write_text(json.dumps({"recipe": "boundary"}))
        assert read_card(tmp_path / "a.gguf") == {"recipe": "boundary"}
