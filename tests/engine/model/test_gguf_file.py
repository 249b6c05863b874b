"""Reading a GGUF file without llama.cpp, and the fingerprint of its weights."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.base.errors import ModelFileError
from engine.model.adapter_files import base_fingerprint
from engine.model.gguf_file import BF16, F16, F32, read_gguf
from tests.engine.model.tiny import finish, write_sliding


def written(path: Path, **tensors: np.ndarray) -> Path:
    """A file with values of every kind, and tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("a.text", "naïve ✓")
    writer.add_bool("a.truth", True)
    writer.add_float32("a.small", 0.5)
    writer.add_float64("a.large", 1e300)
    writer.add_int8("a.tiny", -3)
    writer.add_uint64("a.huge", 2**63)
    writer.add_array("a.words", ["one", "", "three ✓"])
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_array("a.truths", [True, False])
    writer.add_uint32("a.last", 7)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    finish(writer)
    return path


class TestReading:
    def test_values(self, tmp_path: Path) -> None:
        """Every kind of value is read; arrays of any length are skipped, and the values behind them are found."""
        found = read_gguf(written(tmp_path / "a.gguf")).values
        assert {key: value for key, value in found.items() if key.startswith("a.")} == {
            "a.text": "naïve ✓",
            "a.truth": True,
            "a.small": 0.5,
            "a.large": 1e300,
            "a.tiny": -3,
            "a.huge": 2**63,
            "a.last": 7,
        }

    def test_tensors(self, tmp_path: Path) -> None:
        """Shapes are in GGUF's order; vectors of 32 and 16 bits are read exactly."""
        values = np.linspace(-2, 2, 5, dtype=np.float32)
        path = written(
            tmp_path / "a.gguf", wide=values, half=values.astype(np.float16), matrix=np.zeros((3, 4), np.float32)
        )  # fmt: skip
        found = read_gguf(path)
        assert found.tensors["matrix"].shape == (4, 3)
        assert [found.tensors[name].kind for name in ("wide", "half")] == [F32, F16]
        for name in ("wide", "half"):
            vector = found.vector(name)
            assert vector is not None
            assert (vector == values).all()

    def test_agrees_with_the_package(self, tmp_path: Path) -> None:
        """Names, shapes and vectors of a whole model equal what the `gguf` package reads."""
        path = write_sliding(tmp_path / "tiny.gguf")
        found = read_gguf(path)
        theirs = {one.name: one for one in gguf.GGUFReader(path).tensors}
        assert {name: info.shape for name, info in found.tensors.items()} == {
            name: tuple(map(int, one.shape)) for name, one in theirs.items()
        }
        for name in ("blk.5.post_attention_norm.weight", "token_embd.weight"):
            vector = found.vector(name)
            assert vector is not None
            assert (vector == theirs[name].data.reshape(-1)).all()

    @pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04 something else"])
    def test_other_files(self, tmp_path: Path, content: bytes) -> None:
        """A file with another beginning than GGUF's is refused by name."""
        path = tmp_path / "a.gguf"
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"a\.gguf is not a GGUF file"):
            read_gguf(path)

    def test_part_of_a_model(self, tmp_path: Path) -> None:
        """One of several files of a model is refused, with how to join them."""
        writer = gguf.GGUFWriter(tmp_path / "m-00001-of-00002.gguf", "llama")
        writer.add_uint16("split.count", 2)
        writer.add_tensor("first_norm.weight", np.full(3, 1, np.float32))
        finish(writer)
        with pytest.raises(ModelFileError, match="one of several files") as caught:
            read_gguf(tmp_path / "m-00001-of-00002.gguf")
        assert "llama-gguf-split --merge" in caught.value.hint


class TestFingerprint:
    def test_precision_of_norms(self, tmp_path: Path) -> None:
        """Norms rounded to BF16 have the fingerprint of those in F32; other norms do not."""
        norms = np.random.default_rng(5).normal(1, 0.2, 64).astype(np.float32)
        bits = norms.view(np.uint32)
        nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        files = {
            "f32": norms,
            "rounded": (nearest.astype(np.uint32) << 16).view(np.float32),
            "other": norms * np.float32(1.01),
        }
        found = {
            name: base_fingerprint(read_gguf(written(tmp_path / f"{name}.gguf", **{"output_norm.weight": values})))
            for name, values in files.items()
        }  # fmt: skip
        assert found["f32"] == found["rounded"] != found["other"]

        writer = gguf.GGUFWriter(tmp_path / "bf16.gguf", "llama")
        data = nearest.view(np.uint8)
        writer.add_tensor("output_norm.weight", data, raw_dtype=gguf.GGMLQuantizationType.BF16)
        finish(writer)
        file = read_gguf(tmp_path / "bf16.gguf")
        assert file.tensors["output_norm.weight"].kind == BF16
        assert base_fingerprint(file) == found["f32"]
