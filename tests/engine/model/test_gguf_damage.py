"""Damaged, cut and hostile GGUF files: the header is refused before llama.cpp reads the file."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import ModelFileError
from engine.model.gguf_file import BLOCKS, GgufFile, bytes_of, read_gguf
from engine.model.interface import LoadOptions
from engine.model.llamacpp.model import LlamaModel
from engine.model.memory_plan import estimate, plan_layers
from tests.engine.model.tiny import write_sliding

UINT32, STRING, ARRAY = 4, 8, 9


def text(words: str) -> bytes:
    """A string as GGUF writes it."""
    data = words.encode()
    return struct.pack("<Q", len(data)) + data


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    """One entry of the list of tensors."""
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def head(tensors: int, pairs: int, body: bytes, data: int = 0) -> bytes:
    """A file with these counts in its header, padded to whole blocks, and this many bytes of data."""
    whole = b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + body
    return whole + bytes(-len(whole) % 32) + bytes(data)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that llama.cpp loads."""
    return write_sliding(tmp_path_factory.mktemp("whole") / "tiny.gguf")


@pytest.fixture(scope="module")
def spot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path where damaged files are written, one over the other."""
    return tmp_path_factory.mktemp("damaged") / "hurt.gguf"


def looked_at(path: Path) -> GgufFile | None:
    """The results of everything that reads headers; None where the file is refused with an error that names it."""
    refused = None
    try:
        found = read_gguf(path)
    except ModelFileError as error:
        refused = error
    if refused is not None:
        assert path.name in refused.message
        assert refused.hint
        return None
    for name, info in found.tensors.items():
        size = bytes_of(info.shape, info.kind)
        assert info.offset + (size or 0) <= path.stat().st_size, name
    need = estimate(found)
    assert 0 <= need.weights <= path.stat().st_size * 8
    assert plan_layers(found, 1 << 62).layers <= len(found.tensors) + 1
    return found


class TestAnyDamage:
    @settings(
        max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(draw=st.data())
    def test_changed_bytes(self, whole: Path, spot: Path, draw: st.DataObject) -> None:
        """Whatever bytes of a real header change, it is read or refused by name; no tensor lies outside of the file."""
        hurt = bytearray(whole.read_bytes())
        for _ in range(draw.draw(st.integers(1, 4))):
            at = draw.draw(st.integers(0, 16_000))
            put = draw.draw(
                st.one_of(
                    st.binary(min_size=1, max_size=8),
                    st.sampled_from(
                        [b"\xff" * 8, bytes(8), b"\x00" * 7 + b"\x80", b"\xff\xff\xff\x7f"]
                    ),
                )
            )
            hurt[at : at + len(put)] = put
        spot.write_bytes(hurt)
        looked_at(spot)

    @settings(
        max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(share=st.floats(0, 1, exclude_max=True))
    def test_cut_anywhere(self, whole: Path, spot: Path, share: float) -> None:
        """A cut file is refused wherever it ends, also within the weights."""
        size = whole.stat().st_size
        spot.write_bytes(whole.read_bytes()[: int(share * size)])
        assert looked_at(spot) is None

    def test_an_unknown_format_of_any_size(self, whole: Path, spot: Path) -> None:
        """A tensor that claims an unknown format and a huge size counts no more memory than the file has."""
        hurt = bytearray(whole.read_bytes())
        hurt[7545 : 7545 + 8] = b"\x00\x00\x00\x00\x00\x00\x01\x0f"
        spot.write_bytes(hurt)
        assert looked_at(spot) is not None


SIZE = struct.pack("<Q", 2**63)
HARMS = {
    "many tensors": (head(2**62, 0, b""), "claims 4,611,686,018,427,387,904 tensors"),
    "many values": (head(0, 2**40, b"", 1 << 16), "claims 1,099,511,627,776 values"),
    "long key": (head(0, 1, struct.pack("<Q", 2**50), 64), "bytes long"),
    "long name": (head(1, 0, tensor("n" * 64, (1,), 0, 0), 64), "bytes long"),
    "long text": (head(0, 1, text("a") + struct.pack("<I", STRING) + SIZE, 64), "ends within its header"),
    "long array": (head(0, 1, text("a") + struct.pack("<II", ARRAY, UINT32) + SIZE, 64), "ends within"),
    "many words": (head(0, 1, text("a") + struct.pack("<II", ARRAY, STRING) + SIZE, 64), "words"),
    "array of arrays": (head(0, 1, text("a") + struct.pack("<IIQ", ARRAY, ARRAY, 1), 64), "unknown kind 9"),
    "unknown kind": (head(0, 1, text("a") + struct.pack("<I", 77), 64), "unknown kind 77"),
    "no text": (head(0, 1, struct.pack("<Q", 2) + b"\xff\xfe" + bytes(64)), "no text"),
    "twice a value": (head(0, 2, 2 * (text("a") + struct.pack("<II", UINT32, 7)), 64), "it has a value twice"),
    "twice a tensor": (head(2, 0, 2 * tensor("t", (8,), 0, 0), 64), "it has a tensor twice"),
    "alignment": (head(0, 1, text("general.alignment") + struct.pack("<II", UINT32, 0), 64), "power of two"),
    "alignment of text": (head(0, 1, text("general.alignment") + struct.pack("<I", STRING) + text("x"), 64), "two"),
    "five dimensions": (head(1, 0, tensor("t", (1,) * 5, 0, 0), 64), "5 dimensions"),
    "no size": (head(1, 0, tensor("t", (8, 0), 0, 0), 64), "no size"),
    "absurd size": (head(1, 0, tensor("t", (2**40, 2**40, 2**40), 0, 0), 64), "ends before its tensors do"),
    "beyond the end": (head(1, 0, tensor("t", (8,), 0, 2**40), 64), "ends before its tensors do"),
    "not aligned": (head(1, 0, tensor("t", (8,), 0, 8), 64), "not aligned"),
    "one over another": (head(2, 0, tensor("t", (16,), 0, 0) + tensor("u", (8,), 0, 32), 128), "lies over"),
    "half a block": (head(1, 0, tensor("t", (33,), 2, 0), 64), "no whole blocks"),
    "no data": (head(1, 0, tensor("t", (8,), 0, 0)), "32 bytes are missing"),
}  # fmt: skip


class TestHarm:
    @pytest.mark.parametrize(("content", "why"), HARMS.values(), ids=HARMS.keys())
    def test_is_refused_with_the_reason(self, content: bytes, why: str, tmp_path: Path) -> None:
        """An impossible header is refused with the reason, at once and without allocating its claimed size."""
        path = tmp_path / "harm.gguf"
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=why) as caught:
            read_gguf(path)
        assert caught.value.message.startswith("harm.gguf is a damaged GGUF file: ")

    def test_llama_cpp_never_sees_it(self, whole: Path, tmp_path: Path) -> None:
        """A file that ends within its weights is refused before llama.cpp is called, and the error says what is
        missing.
        """
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole.read_bytes()[:-1000])
        with pytest.raises(ModelFileError, match="it ends before its tensors do"):
            LlamaModel(path, LoadOptions(), lambda: False)


def test_formats_are_those_of_the_package() -> None:
    """Block sizes and bytes equal those of the `gguf` package, for every format that files are written in."""
    import gguf

    theirs = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert {kind: theirs[kind] for kind in BLOCKS} == BLOCKS
    assert theirs.keys() - BLOCKS.keys() == {
        9,
        15,
    }  # what llama.cpp computes with, and never writes
