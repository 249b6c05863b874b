"""The memory formulas of training, and the settings that are chosen by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.errors import UsageError
from engine.training.config import TrainConfig
from engine.training.presets import (
    GIB,
    ROOM,
    Shape,
    advice,
    fitted,
    longest_log,
    memory_of,
    with_settings,
)

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
        """Recomputation reduces activations and four bits reduce weights; neither changes another part."""
        base = memory_of(LARGE, PLAIN, 2048, 40, gpu=GPU)
        again = memory_of(LARGE, replace(PLAIN, recompute=True), 2048, 40, gpu=GPU)
        four = memory_of(LARGE, replace(PLAIN, four_bit=True), 2048, 40, gpu=GPU)

        assert again.activations < base.activations / 5
        assert four.weights < base.weights / 2
        assert replace(again, activations=0) == replace(base, activations=0)
        assert replace(four, weights=0) == replace(base, weights=0)


class TestFitted:
    @pytest.mark.parametrize(
        ("gigabytes", "tokens"), [(None, 2048), (15, 2048), (24, 4096), (141, 8192)]
    )
    def test_the_machine_chooses(self, gigabytes: int | None, tokens: int) -> None:
        """Longer logs are read on larger GPUs."""
        assert longest_log(None if gigabytes is None else gigabytes * 10**9) == tokens

    @pytest.mark.parametrize("shape", [SMALL, LARGE])
    @pytest.mark.parametrize("gigabytes", [16, 80])
    def test_it_fits_the_memory(self, gigabytes: int, shape: Shape) -> None:
        """On a GPU with 16 GB and more both a small and an 8B base fit with what is chosen."""
        memory = gigabytes * GIB
        config = fitted(PLAIN, shape, memory, 100_000, 100, gpu=GPU)

        assert memory_of(shape, config, 100_000, 100, gpu=GPU).total <= ROOM * memory

    def test_what_a_person_chose_stays(self) -> None:
        """Settings that a person chose do not change."""
        asked = replace(PLAIN, batch=6, rows=3, max_tokens=512)
        chosen = ("batch", "rows", "max_tokens")
        config = fitted(asked, SMALL, 80 * GIB, 2_000, 40, gpu=GPU, chosen=chosen)

        assert (config.batch, config.rows, config.max_tokens) == (6, 3, 512)

    def test_advice_names_what_takes_most(self) -> None:
        """The advice names what takes most memory: activations, rows, long logs, or the weights."""

        def advised(config: TrainConfig, shape: Shape = LARGE, gpu: bool = True) -> str:
            return advice(config, memory_of(shape, config, 8_192, 40, gpu=gpu), gpu=gpu)

        many = replace(PLAIN, rows=8, max_tokens=8192)
        assert "recompute" in advised(many)
        assert "rows" in advised(replace(many, recompute=True))
        assert "four_bit" in advised(replace(PLAIN, recompute=True))
        assert "smaller base" in advised(replace(PLAIN, recompute=True, four_bit=True))
        assert "max_tokens" in advised(
            replace(PLAIN, recompute=True, max_tokens=8192), SMALL, gpu=False
        )


class TestSettings:
    def test_typed_values(self) -> None:
        """Numbers, switches and names are parsed by the type of their field."""
        found = with_settings(
            PLAIN, {"rank": "32", "learning_rate": "5e-4", "recompute": "yes", "precision": "f32"}
        )

        assert (found.rank, found.learning_rate, found.recompute, found.precision) == (
            32,
            5e-4,
            True,
            "f32",
        )

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ranks", "3"), ("rank", "many"), ("rank", "0"), ("recompute", "perhaps"), ("epochs", "nan"),
            ("precision", "f8"), ("rows", "0"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_is_refused(self, name: str, value: str) -> None:
        """An unknown field, or an invalid value, is an error that names it."""
        with pytest.raises(UsageError, match=name):
            with_settings(PLAIN, {name: value})
