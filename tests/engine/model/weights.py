"""How tests load the real model, and small adapters for it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import gguf
import llama_cpp
import numpy as np

from engine.model.interface import LoadOptions, Logits
from engine.model.llamacpp.model import LlamaModel
from tests.engine.model.tiny import finish

SMALL = LoadOptions(context=1024, batch=128)
RANK = 2
LEFT_OUT = range(4, 29)
"""Layers of the thirty that the shallow model lacks. It writes words without sense, seldom blanks."""
FIRST_TEN = range(10, 30)
"""Layers that a model of the first ten lacks. Its probabilities differ, where those of the other are all near 1."""

ALL_BUT_FIRST = range(1, 30)
"""For what asks a model often, where it does not matter what it says."""


def probabilities(logits: Logits) -> Logits:
    """Rows of logits as probabilities."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float32)


def write_shallow(
    source: Path, target: Path, left_out: range = LEFT_OUT, *, exact: bool = False
) -> None:
    """Writes the model without some of its layers, in Q8_0, or with `exact` in F32."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_ALL_F32 if exact else llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    params.allow_requantize = True
    params.nthread = 1
    params.prune_layers = (ctypes.c_int32 * (len(left_out) + 1))(*left_out, -1)
    status = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(params)
    )
    assert status == 0


def write_adapter(path: Path, model: LlamaModel, *, seed: int) -> Path:
    """Writes a random LoRA adapter for the value projections of a llama model."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(RANK))
    layers, width, heads, kv_heads = (
        int(model.meta(f"llama.{key}") or 0)
        for key in (
            "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv"
        )
    )  # fmt: skip
    height = width // heads * kv_heads
    for layer in range(layers):
        shapes = {"lora_a": (RANK, width), "lora_b": (height, RANK)}
        for part, shape in shapes.items():
            values = random.standard_normal(shape, dtype=np.float32) * (2.0 / width**0.5)
            writer.add_tensor(f"blk.{layer}.attn_v.weight.{part}", values.astype(np.float32))
    finish(writer)
    return path
