"""From an adapter as PEFT writes it to one as llama.cpp reads it.

What differs: the names; that llama.cpp keeps one alpha and takes the rank from each matrix; and that for some
architectures it wants the rows of the query and key projections in another order, in which they lie in its weights too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.model.adapter_files import LORA_A, LORA_B, AdapterOrigin
from engine.model.base_fingerprint import Sizes, fingerprint

Width = Literal["f16", "f32"]


class BaseConfig(Protocol):
    """What is asked of a base's `transformers` config."""

    model_type: str
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    hidden_size: int
    intermediate_size: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """How llama.cpp names an architecture, and whether it wants query and key rows in its own order."""

    name: str
    reordered: bool


_ARCHITECTURES = {
    "llama": Architecture("llama", True),
    "mistral": Architecture("llama", True),
    "smollm3": Architecture("smollm3", True),
    "qwen2": Architecture("qwen2", False),
    "qwen3": Architecture("qwen3", False),
}

_MODULES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TARGETS = tuple(name.rpartition(".")[2] for name in _MODULES)
"""Names of the modules that an adapter may change: every linear layer but the last."""

_TENSOR = re.compile(
    r"base_model\.model\.model\.layers\.(\d+)\.(\w+\.\w+)\.lora_([AB])(?:\.default)?\.weight"
)
_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
_NORM = re.compile(r"(?:base_model\.model\.)?model\.(?:layers\.(\d+)\.([\w.]+)|norm)\.weight")

_PLAIN = frozenset(
    {
        "auto_mapping", "base_model_name_or_path", "bias", "exclude_modules", "inference_mode", "init_lora_weights",
        "layers_pattern", "layers_to_transform", "lora_alpha", "lora_dropout", "megatron_core", "peft_type",
        "peft_version", "qalora_group_size", "r", "rank_pattern", "revision", "target_modules", "task_type",
        "use_rslora",
    }
)  # fmt: skip
"""Fields of PEFT's config whose values leave a LoRA a plain one; the others must be empty."""

_PLAIN_STARTS = (True, False, "gaussian", "orthogonal", "eva")
"""Ways to begin an adapter that leave the base as it is."""


def architecture_of(config: BaseConfig) -> Architecture:
    """How llama.cpp has this base; asked before training begins, so that no run ends without an adapter to use.

    Raises:
        ModelError: Adapters for it cannot be converted.
    """
    found = _ARCHITECTURES.get(config.model_type)
    if found is None:
        raise ModelError(
            f"An adapter for the architecture {config.model_type!r} cannot be converted for llama.cpp.",
            f"Train on a base of one of these: {', '.join(_ARCHITECTURES)}.",
        )
    return found


def fingerprint_of(model: Any) -> str:
    """The fingerprint of a `transformers` model, with or without an adapter: that of its GGUF files.

    Raises:
        ModelError: Its architecture is not one that adapters can be converted for.
    """
    config: BaseConfig = model.config
    norms = {}
    for name, weight in model.named_parameters():
        found = _NORM.fullmatch(name)
        if found is None or (found[1] and found[2] not in _NORMS):
            continue
        ours = f"blk.{found[1]}.{_NORMS[found[2]]}" if found[1] else "output_norm"
        norms[f"{ours}.weight"] = weight.detach().float().cpu().numpy()
    sizes = Sizes(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        inner=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        vocabulary=model.get_input_embeddings().weight.shape[0],
    )
    return fingerprint(architecture_of(config).name, sizes, norms)


def convert(
    adapter: Path, config: BaseConfig, out: Path, origin: AdapterOrigin, width: Width = "f16"
) -> None:
    """Writes an adapter as a GGUF file, whole or not at all.

    Args:
        adapter: Folder with `adapter_config.json` and `adapter_model.safetensors`.
        config: Of the base that it was trained on.
        origin: What the file will say of itself.
        width: Format of the matrices.

    Raises:
        ModelError: It is more than a plain LoRA on linear layers, or for an architecture that is not known.
    """
    import gguf
    from safetensors.torch import load_file

    architecture = architecture_of(config)
    said = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
    alpha = _alpha(said)
    loaded = load_file(adapter / "adapter_model.safetensors")
    matrices = _renamed({name: one.float().numpy() for name, one in loaded.items()})
    _check_ranks(matrices, said)
    if architecture.reordered:
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        for name, values in matrices.items():
            module = name.split(".")[2]
            if name.endswith(LORA_B) and module in heads:
                matrices[name] = _reordered(values, heads[module])
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        writer = gguf.GGUFWriter(part, architecture.name)
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
        for key, value in origin.values().items():
            (writer.add_string if isinstance(value, str) else writer.add_uint32)(key, value)
        for name, values in sorted(matrices.items()):
            writer.add_tensor(name, _narrowed(values, width, name))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _alpha(said: Mapping[str, Any]) -> float:
    """The alpha that makes llama.cpp's scale, alpha / rank, the one that PEFT uses."""
    more = sorted(name for name, value in said.items() if name not in _PLAIN and value)
    start = said.get("init_lora_weights", True)
    if said["peft_type"] != "LORA" or more or start not in _PLAIN_STARTS:
        what = ", ".join(more) or (start if said["peft_type"] == "LORA" else said["peft_type"])
        raise ModelError(
            f"The adapter is no plain LoRA ({what}), which llama.cpp cannot apply.",
            "Train one without these settings.",
        )
    if said.get("bias", "none") != "none":
        raise ModelError("The adapter changes biases, which llama.cpp cannot apply.")
    if said["lora_alpha"] <= 0:
        raise ModelError("The adapter's alpha must be above 0: llama.cpp takes 0 for none.")
    if not said.get("use_rslora"):
        return float(said["lora_alpha"])
    if said.get("rank_pattern"):
        raise ModelError("The adapter scales by the root of ranks that differ, llama.cpp does not.")
    return float(said["lora_alpha"] * said["r"] ** 0.5)


def _renamed(tensors: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    matrices = {}
    for name, values in tensors.items():
        found = _TENSOR.fullmatch(name)
        if found is None or found[2] not in _MODULES:
            raise ModelError(
                f"The adapter changes {name}, which is not converted.",
                f"Train one that changes these only: {', '.join(TARGETS)}.",
            )
        suffix = LORA_A if found[3] == "A" else LORA_B
        matrices[f"blk.{found[1]}.{_MODULES[found[2]]}.weight{suffix}"] = values
    if not matrices:
        raise ModelError("The adapter changes nothing.")
    return matrices


def _check_ranks(matrices: Mapping[str, NDArray[np.float32]], said: Mapping[str, Any]) -> None:
    for name, a in matrices.items():
        if not name.endswith(LORA_A):
            continue
        b = matrices.get(name.removesuffix(LORA_A) + LORA_B)
        same = b is not None and b.shape[1] == a.shape[0]
        if not same or (a.shape[0] != said["r"] and not said.get("rank_pattern")):
            raise ModelError(f"The adapter's matrices {name} do not have the rank {said['r']}.")
    if 2 * sum(name.endswith(LORA_A) for name in matrices) != len(matrices):
        raise ModelError("The adapter lacks one of two matrices somewhere.")


def _reordered(b: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of B, shape (heads * size, rank), each head's two halves interleaved."""
    rows, rank = b.shape
    if rows % (2 * heads):
        raise ModelError(f"The adapter has {rows} rows for {heads} heads.")
    halves = b.reshape(heads, 2, rows // heads // 2, rank)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, rank))


def _narrowed(values: NDArray[np.float32], width: Width, name: str) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float16 if width == "f16" else np.float32)
    if not np.isfinite(narrow).all():
        raise ModelError(
            f"The adapter holds numbers in {name} that {width} cannot hold.",
            "Lower the learning rate.",
        )
    return narrow
