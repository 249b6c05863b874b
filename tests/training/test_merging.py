"""Merging an adapter into the weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import ModelFileError
from engine.model.adapter_files import MAX_MERGED_COPIES, AdapterOrigin, merge
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.llamacpp.files import quantize
from engine.model.llamacpp.model import LlamaModel
from engine.model.process.log_probs import PrefixQuestion, continuation_log_probs
from engine.model.process.process import ModelProcess
from tests.training.tiny_bases import tiny_model, with_adapter, write_gguf
from training.gguf_adapter import convert, fingerprint_of


def log_probabilities(weights: Path, adapter: Path | None = None) -> list[float]:
    """Log-probabilities of some texts after others."""
    model = LlamaModel(weights, LoadOptions(context=128), lambda: False)
    model.use_adapter(adapter)
    after = [model.tokenize(text) for text in ("a", "b", "\n")]
    questions = [
        PrefixQuestion(model.tokenize(text), after) for text in ("TURN 1", "It is done", "?")
    ]
    found = continuation_log_probs(model, questions)
    model.close()
    return [log_p for values in found for log_p in values]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A tiny base and an adapter for it, as GGUF files."""
    model = tiny_model("llama")
    base = write_gguf(model, tmp_path / "base.gguf")
    origin = AdapterOrigin(base_fingerprint=fingerprint_of(model))
    with_adapter(model, tmp_path / "adapter")
    convert(tmp_path / "adapter", model.config, tmp_path / "adapter.gguf", origin)
    return base, tmp_path / "adapter.gguf"


class TestMerged:
    def test_it_reads_as_the_adapter_beside_the_weights(
        self, pair: tuple[Path, Path], tmp_path: Path
    ) -> None:
        """Merged weights have the probabilities of base and adapter, but for rounding; those of the base differ."""
        base, adapter = pair
        process = ModelProcess(tmp_path / "model.log")
        merged = tmp_path / "cache" / "merged.gguf"
        try:
            process.load(base, LoadOptions(context=128), adapter, merged)
        finally:
            process.close()

        inside = log_probabilities(merged)
        assert inside == pytest.approx(log_probabilities(base, adapter), abs=5e-3)
        assert inside != pytest.approx(log_probabilities(base), abs=1e-2)

    @pytest.mark.parametrize(("kind", "step"), [("f16", 2**-11), ("bf16", 2**-8)])
    def test_sixteen_bits(
        self, pair: tuple[Path, Path], tmp_path: Path, kind: str, step: float
    ) -> None:
        """Merged into the tuned formats, every number is that of F32 rounded to the format."""
        base, adapter = pair
        quantize(base, tmp_path / "narrow.gguf", kind, 1)
        folder = tmp_path / "cache"
        merge(tmp_path / "narrow.gguf", adapter, folder / "merged.gguf")
        merge(base, adapter, folder / "exact.gguf")
        narrow = read_gguf(tmp_path / "narrow.gguf")
        merged, exact = read_gguf(folder / "merged.gguf"), read_gguf(folder / "exact.gguf")
        changed = 0
        for name in exact.tensors:
            wanted, found, before = (one.vector(name) for one in (exact, merged, narrow))
            assert wanted is not None
            assert found is not None
            assert found == pytest.approx(wanted, rel=3 * step, abs=3 * step * abs(wanted).max())
            changed += bool((found != before).any())
        assert changed

    def test_few_copies_are_kept(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        """The copies used last are kept; no incomplete file is left."""
        folder = tmp_path / "cache"
        for number in range(MAX_MERGED_COPIES + 2):
            merge(*pair, folder / f"{number}.gguf")

        assert sorted(path.name for path in folder.iterdir()) == [
            f"{number}.gguf" for number in range(2, MAX_MERGED_COPIES + 2)
        ]

    def test_another_base_is_refused(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        """An adapter for other weights is refused."""
        other = write_gguf(tiny_model("llama", seed=8), tmp_path / "other.gguf")

        with pytest.raises(ModelFileError, match="is not an adapter for"):
            merge(other, pair[1], tmp_path / "out.gguf")
        assert not (tmp_path / "out.gguf").exists()
