"""Converts an adapter from the format of PEFT to the GGUF format of llama.cpp.

An adapter of the kind LoRA changes a matrix of weights by the product of two narrow matrices, B times A, whose common
length is the rank; the product is scaled by alpha / rank. The two formats differ in three things: the names; llama.cpp
stores one alpha and takes the rank from each matrix; and for some architectures its query and key projections have
their rows in another order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import AdapterError
from engine.base.files import atomic_replacement
from engine.model.adapter_files import LORA_A, LORA_B, AdapterOrigin, Sizes, fingerprint

_MODULES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Name in GGUF of each linear layer, by its name in `transformers`."""

TARGETS = tuple(name.rpartition(".")[2] for name in _MODULES)
"""Names of the modules that an adapter may change: all linear layers but the last one."""

_TENSOR = re.compile(
    r"base_model\.model\.model\.layers\.(?P<block>\d+)\.(?P<module>\w+\.\w+)\.lora_(?P<matrix>[AB])"
    r"(?:\.default)?\.weight"
)
"""Matches the name of a matrix in PEFT: `base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight`."""

_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
"""Name in GGUF of each norm in a block, by its name in `transformers`."""

_NORM = re.compile(
    r"(?:base_model\.model\.)?model\.(?:layers\.(?P<block>\d+)\.(?P<module>[\w.]+)|norm)\.weight"
)
"""Matches the name of a weight that may be a norm, with or without an adapter: in a block, as in
`model.layers.3.input_layernorm.weight`, or after the last block, `model.norm.weight`, which leaves both groups
empty."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture of llama.cpp.

    Attributes:
        name: Name in llama.cpp.
        reordered: Whether the rows of the query and key projections are in another order than in `transformers`.
    """

    name: str
    reordered: bool


_ARCHITECTURES = {
    "llama": Architecture("llama", True),
    "mistral": Architecture("llama", True),
    "smollm3": Architecture("smollm3", True),
    "qwen2": Architecture("qwen2", False),
    "qwen3": Architecture("qwen3", False),
}
"""Architectures by their names in `transformers`."""


def architecture_of(config: Any) -> Architecture:
    """Returns the architecture of a base, by its config of `transformers`.

    This is called before training too, so that no run ends without a usable adapter.

    Raises:
        AdapterError: Adapters for the architecture cannot be converted.
    """
    architecture = _ARCHITECTURES.get(config.model_type)
    if architecture is None:
        raise AdapterError(
            f"An adapter for the architecture {config.model_type!r} cannot be converted for llama.cpp.",
            f"Train on a base of one of these: {', '.join(_ARCHITECTURES)}.",
        )
    return architecture


def fingerprint_of(model: Any) -> str:
    """Returns the fingerprint of a model of `transformers`, with or without an adapter; its GGUF files have the same.

    Raises:
        AdapterError: Adapters for its architecture cannot be converted.
    """
    config = model.config
    norms = {}
    for name, weight in model.named_parameters():
        match = _NORM.fullmatch(name)
        if match is None:
            continue
        block, module = match["block"], match["module"]
        if block and module not in _NORMS:
            continue
        gguf_name = f"blk.{block}.{_NORMS[module]}" if block else "output_norm"
        norms[f"{gguf_name}.weight"] = weight.detach().float().cpu().numpy()
    sizes = Sizes(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        inner=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        vocabulary=model.get_input_embeddings().weight.shape[0],
    )
    return fingerprint(architecture_of(config).name, sizes, norms)


def convert(adapter: Path, config: Any, out: Path, origin: AdapterOrigin) -> None:
    """Writes an adapter as a GGUF file with matrices in 16 bits, completely or not at all.

    Args:
        adapter: Folder with `adapter_config.json` and `adapter_model.safetensors`, as a run leaves them.
        config: The config of `transformers` of the base on which it was trained.
        out: The file to write.
        origin: Metadata for the file.

    Raises:
        AdapterError: The adapter changes a layer that is not converted, or the architecture is not known.
    """
    import gguf
    from safetensors.torch import load_file

    architecture = architecture_of(config)
    settings = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
    loaded = load_file(adapter / "adapter_model.safetensors")
    matrices = _with_gguf_names({name: matrix.float().numpy() for name, matrix in loaded.items()})
    if architecture.reordered:
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        for name, values in matrices.items():
            _, _, module, *_ = name.split(".")  # blk.3.attn_q.weight.lora_b
            if name.endswith(LORA_B) and module in heads:
                matrices[name] = _interleave_halves(values, heads[module])
    with atomic_replacement(out) as part:
        writer = gguf.GGUFWriter(part, architecture.name)
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(settings["lora_alpha"]))
        for key, value in origin.values().items():
            add = writer.add_string if isinstance(value, str) else writer.add_uint32
            add(key, value)
        for name, values in sorted(matrices.items()):
            writer.add_tensor(name, _in_16_bits(values, name))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _with_gguf_names(tensors: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Returns the matrices of an adapter by their names in GGUF; raises AdapterError for a matrix of another layer."""
    matrices = {}
    for name, values in tensors.items():
        match = _TENSOR.fullmatch(name)
        if match is None or match["module"] not in _MODULES:
            raise AdapterError(
                f"The adapter changes {name}, which is not converted.",
                f"Train one that changes these only: {', '.join(TARGETS)}.",
            )
        suffix = LORA_A if match["matrix"] == "A" else LORA_B
        matrices[f"blk.{match['block']}.{_MODULES[match['module']]}.weight{suffix}"] = values
    return matrices


def _interleave_halves(b: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Returns the matrix B, shape (heads * size, rank), with the two halves of the rows of each head interleaved.

    `transformers` rotates row i of a head with row i + size / 2, llama.cpp rotates neighbors.
    """
    rows, rank = b.shape
    halves = b.reshape(heads, 2, rows // heads // 2, rank)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, rank))


def _in_16_bits(values: NDArray[np.float32], name: str) -> NDArray[np.float16]:
    """Returns the values of a matrix in 16 bits; raises AdapterError if a value is not finite in 16 bits."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float16)
    if not np.isfinite(narrow).all():
        raise AdapterError(
            f"The adapter holds numbers in {name} that 16 bits cannot hold.",
            "Lower the learning rate.",
        )
    return narrow
