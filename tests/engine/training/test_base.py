"""The memory formulas of training, and the settings that are chosen by them."""

from __future__ import annotations

from dataclasses import replace as replaced

import pytest
from msgspec.structs import replace

from engine.training.base import (
    GIB,
    ROOM,
    Shape,
    advice_on,
    estimate_memory,
    fit_to_memory,
    longest_log,
)
from engine.training.config import TrainConfig

SMALL = Shape(30, 576, 1536, 9, 3, 64, 49152)
LARGE = Shape(32, 4096, 14336, 32, 8, 128, 128256, tied=False)
PLAIN = TrainConfig(base="b.gguf")
GPU = True


class TestSizes:
    def test_weights_are_counted_as_published(self) -> None:
        """The counted weights of two well-known models equal their published sizes."""
        assert SMALL.linear + SMALL.embeddings == pytest.approx(134.5e6, rel=0.005)
        assert LARGE.linear + LARGE.embeddings == pytest.approx(8.03e9, rel=0.005)


class TestMemory:
    def test_what_saves_memory_saves_memory(self) -> None:
        """Recomputation reduces activations and changes no other part."""
        base = estimate_memory(LARGE, PLAIN, 2048, 40, gpu=GPU)
        again = estimate_memory(LARGE, replace(PLAIN, recompute=True), 2048, 40, gpu=GPU)

        assert again.activations < base.activations / 5
        assert replaced(again, activations=0) == replaced(base, activations=0)


class TestFitted:
    @pytest.mark.parametrize(
        ("gigabytes", "tokens"), [(None, 2048), (15, 2048), (24, 4096), (141, 8192)]
    )
    def test_the_machine_chooses(self, gigabytes: int | None, tokens: int) -> None:
        """Longer logs are read on larger GPUs."""
        assert longest_log(None if gigabytes is None else gigabytes * 10**9) == tokens

    @pytest.mark.parametrize("shape", [SMALL, LARGE])
    @pytest.mark.parametrize("gigabytes", [24, 80])
    def test_it_fits_the_memory(self, gigabytes: int, shape: Shape) -> None:
        """On a GPU with 24 GB and more both a small and an 8B base fit with what is chosen."""
        memory = gigabytes * GIB
        config = fit_to_memory(PLAIN, shape, memory, 100_000, 100, gpu=GPU)

        assert estimate_memory(shape, config, 100_000, 100, gpu=GPU).total <= ROOM * memory

    def test_what_a_person_chose_stays(self) -> None:
        """Settings that a person chose do not change."""
        asked = replace(PLAIN, batch=6, rows=3, max_tokens=512)
        chosen = ("batch", "rows", "max_tokens")
        config = fit_to_memory(asked, SMALL, 80 * GIB, 2_000, 40, gpu=GPU, chosen=chosen)

        assert (config.batch, config.rows, config.max_tokens) == (6, 3, 512)

    def test_advice_names_what_takes_most(self) -> None:
        """The advice names what takes most memory: activations, rows, long logs, or the weights."""

        def advised(config: TrainConfig, shape: Shape = LARGE, gpu: bool = True) -> str:
            return advice_on(config, estimate_memory(shape, config, 8_192, 40, gpu=gpu))

        many = replace(PLAIN, rows=8, max_tokens=8192)
        assert "recompute" in advised(many)
        assert "rows" in advised(replace(many, recompute=True))
        assert "smaller base" in advised(replace(PLAIN, recompute=True))
        assert "max_tokens" in advised(
            replace(PLAIN, recompute=True, max_tokens=8192), SMALL, gpu=False
        )
