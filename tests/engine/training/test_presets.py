"""The memory formulas of training, and the settings that presets choose by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.errors import UsageError
from engine.training.config import TrainConfig
from engine.training.presets import (
    GIB,
    PRESETS,
    ROOM,
    Shape,
    advice,
    fitted,
    memory_of,
    preset_for,
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
    def test_each_part_grows_with_its_cause(self) -> None:
        """Memory of weights grows with precision, of activations with rows and tokens, of logits with labels, of the
        adapter with its rank.
        """
        base = memory_of(SMALL, PLAIN, 2048, 40, gpu=GPU)

        assert (
            memory_of(SMALL, replace(PLAIN, precision="f32"), 2048, 40, gpu=GPU).weights
            == 2 * base.weights
        )
        assert (
            memory_of(SMALL, replace(PLAIN, rows=2), 2048, 40, gpu=GPU).activations
            == 2 * base.activations
        )
        assert memory_of(SMALL, PLAIN, 1024, 40, gpu=GPU).activations == base.activations // 2
        assert memory_of(SMALL, PLAIN, 9999, 40, gpu=GPU).activations == base.activations
        assert memory_of(SMALL, PLAIN, 2048, 80, gpu=GPU).logits == 2 * base.logits
        assert (
            memory_of(SMALL, replace(PLAIN, rank=32), 2048, 40, gpu=GPU).adapter == 2 * base.adapter
        )

    def test_what_saves_memory_saves_memory(self) -> None:
        """Recomputation reduces activations and four bits reduce weights; neither changes another part."""
        base = memory_of(LARGE, PLAIN, 2048, 40, gpu=GPU)
        again = memory_of(LARGE, replace(PLAIN, recompute=True), 2048, 40, gpu=GPU)
        four = memory_of(LARGE, replace(PLAIN, four_bit=True), 2048, 40, gpu=GPU)

        assert again.activations < base.activations / 5
        assert four.weights < base.weights / 2
        assert replace(again, activations=0) == replace(base, activations=0)
        assert replace(four, weights=0) == replace(base, weights=0)


class TestPresets:
    @pytest.mark.parametrize(
        ("gigabytes", "name"),
        [(None, "cpu"), (4, "cpu"), (8, "8g"), (15, "8g"), (24, "24g"), (141, "80g")],
    )
    def test_the_machine_chooses(self, gigabytes: int | None, name: str) -> None:
        """The largest preset that fits the GPU is chosen; without a GPU, or with a small one, the one for CPU."""
        assert preset_for(None if gigabytes is None else gigabytes * 10**9).name == name

    @pytest.mark.parametrize("shape", [SMALL, LARGE])
    @pytest.mark.parametrize("name", ["16g", "24g", "80g"])
    def test_a_preset_fits_its_memory(self, name: str, shape: Shape) -> None:
        """On 16 GB and more both a small and an 8B base fit with what the preset chooses."""
        preset = PRESETS[name]
        config = fitted(PLAIN, preset, shape, None, 100_000, 100)

        assert memory_of(shape, config, 100_000, 100, gpu=GPU).total <= ROOM * (preset.memory or 0)

    def test_nothing_is_given_up_without_need(self) -> None:
        """A small base on a large GPU keeps its activations, full precision, and the most rows."""
        config = fitted(PLAIN, PRESETS["80g"], SMALL, None, 2_000, 40)

        assert (config.recompute, config.four_bit, config.rows) == (False, False, 8)

    def test_the_cpu_knows_its_memory(self) -> None:
        """Without a GPU a base is never in four bits; on a small machine activations are recomputed."""
        cpu = PRESETS["cpu"]

        assert not fitted(PLAIN, cpu, SMALL, 24 * GIB, 2_000, 40).recompute
        small = fitted(PLAIN, cpu, SMALL, 2 * GIB, 2_000, 40)
        assert (small.recompute, small.four_bit, small.rows) == (True, False, 1)

    def test_what_a_person_chose_stays(self) -> None:
        """A preset does not change settings that a person chose."""
        asked = replace(PLAIN, batch=6, rows=3, max_tokens=512)
        chosen = ("batch", "rows", "max_tokens")
        config = fitted(asked, PRESETS["80g"], SMALL, None, 2_000, 40, chosen)

        assert (config.batch, config.rows, config.max_tokens) == (6, 3, 512)

    def test_advice_names_what_takes_most(self) -> None:
        """The advice names what takes most memory: activations, rows, long logs, or the weights."""
        gpu, cpu = PRESETS["24g"], PRESETS["cpu"]

        def said(config: TrainConfig, preset: object = gpu) -> str:
            shape = SMALL if preset is cpu else LARGE
            return advice(config, memory_of(shape, config, 8_192, 40, gpu=preset is gpu), preset)  # type: ignore[arg-type]

        many = replace(PLAIN, rows=8, max_tokens=8192)
        assert "recompute" in said(many)
        assert "rows" in said(replace(many, recompute=True))
        assert "four_bit" in said(replace(PLAIN, recompute=True))
        assert "smaller base" in said(replace(PLAIN, recompute=True, four_bit=True))
        assert "max_tokens" in said(replace(PLAIN, recompute=True, max_tokens=8192), cpu)


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
