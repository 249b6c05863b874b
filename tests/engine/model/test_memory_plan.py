"""The memory that a model needs, and how much of it a GPU holds, computed from the header alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.model.gguf_file import GgufFile, TensorInfo, read_gguf
from engine.model.interface import LoadOptions
from engine.model.memory_plan import estimate, plan_layers

MIB = 1 << 20
MEASURED = {
    # batch, cells: bytes of compute and output buffers that llama.cpp 0.3.36 reported for the default model
    (512, 1024): (12.00 + 50.25) * MIB,
    (512, 8192): (12.00 + 49.69) * MIB,
    (256, 8192): (12.00 + 49.13) * MIB,
    (64, 8192): (12.00 + 12.28) * MIB,
}
MEASURED_F32 = {
    # the same without flash attention, as F32 weights run
    (512, 4096): (12.00 + 86.38) * MIB,
    (512, 8192): (12.00 + 166.38) * MIB,
    (64, 8192): (12.00 + 20.80) * MIB,
}


def with_type(file: GgufFile, kind: int) -> GgufFile:
    """The same file with another `general.file_type` in its header."""
    return GgufFile(
        file.path, {**file.values, "general.file_type": kind}, file.tensors, file.lists, file.size
    )


def options(batch: int, cells: int) -> LoadOptions:
    """Options that make a context of so many cells."""
    return LoadOptions(context=cells - 4 * batch, batch=batch)


class TestEstimate:
    @pytest.mark.parametrize(("batch", "cells"), [key for key in MEASURED if key[1] > 4 * key[0]])
    def test_compute_buffers(self, batch: int, cells: int, shipped: Path) -> None:
        """The compute buffers are within five per cent of what llama.cpp reported, whatever the batch."""
        found = estimate(read_gguf(shipped), options(batch, cells)).compute
        assert found == pytest.approx(MEASURED[batch, cells], rel=0.05)

    @pytest.mark.parametrize(("batch", "cells"), MEASURED_F32)
    def test_compute_buffers_without_flash_attention(
        self, batch: int, cells: int, shipped: Path
    ) -> None:
        """They are so too where every head keeps its scores over all cells."""
        found = estimate(with_type(read_gguf(shipped), 0), options(batch, cells)).compute
        assert found == pytest.approx(MEASURED_F32[batch, cells], rel=0.05)

    def test_cache(self, shipped: Path) -> None:
        """Keys and values of 30 layers with 3 heads of 64 numbers, two bytes each or four, for every cell."""
        cell = 30 * 3 * (64 + 64) * 2
        found = estimate(read_gguf(shipped), options(512, 8192))
        assert found.cache == cell * found.cells
        exact = estimate(with_type(read_gguf(shipped), 0), options(512, 8192))
        assert exact.cache == 2 * cell * exact.cells

    def test_context_is_what_the_model_was_trained_for(self, shipped: Path) -> None:
        """The plan is for the context that would be loaded, or a smaller one that a person asks for; the figure names
        it.
        """
        file = read_gguf(shipped)
        assert estimate(file).context == file.number("llama.context_length") == 8192
        assert estimate(file, LoadOptions(context=512)).context == 512
        assert estimate(file, LoadOptions(context=512)).total < estimate(file).total


def model(
    layers: int = 4, heads: int | list[int] = 8, *, tied: bool = False, layer: int = 100 * MIB
) -> GgufFile:
    """A header with layers of one size; width 1024, vocabulary 1,000 times 1,024 bytes F16 of embedding."""
    values: dict[str, int | float | bool | str] = {
        "general.architecture": "llama",
        "general.file_type": 1,
        "llama.block_count": layers,
        "llama.embedding_length": 1024,
        "llama.feed_forward_length": 4096,
        "llama.attention.head_count": 8,
        "llama.context_length": 4096,
    }
    lists: dict[str, tuple[int, ...]] = {}
    if isinstance(heads, int):
        values["llama.attention.head_count_kv"] = heads
    else:
        lists["llama.attention.head_count_kv"] = tuple(heads)
    path = Path("m.gguf")
    tensors = {
        f"blk.{nth}.ffn_up.weight": TensorInfo((1024, layer // 2048), 1, 0) for nth in range(layers)
    }
    tensors["token_embd.weight"] = TensorInfo((1024, 32_000), 1, 0)
    tensors["output_norm.weight"] = TensorInfo((1024,), 0, 0)
    if not tied:
        tensors["output.weight"] = TensorInfo((1024, 32_000), 1, 0)
    return GgufFile(path, values, tensors, lists, 0)


class TestGpuPlan:
    def test_one_byte_less_is_one_layer_less(self) -> None:
        """The plan uses exactly the free memory: one byte less than a layer's weights and cache is one layer less."""
        whole = plan_layers(model(), 80 << 30)
        assert plan_layers(model(), whole.used).layers == 5
        less = plan_layers(model(), whole.used - 1)
        assert less.layers == 4
        per_cell = 8 * (128 + 128) * 2
        assert whole.used - less.used == 100 * MIB + per_cell * estimate(model()).cells
