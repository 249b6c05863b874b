"""Reads the header of a GGUF file without llama.cpp: metadata, and the offsets of the tensors.

The header is checked: no count, size or offset may point outside the file. llama.cpp trusts the headers of untrusted
files too much, so every model is checked here before it is loaded.

The `gguf` package can read headers too, but takes seconds for the vocabulary of a small model. It is not needed here,
so long arrays are skipped.

A file begins with `GGUF`, the version, the number of tensors and that of values. The values follow, each with its key
and type, then for each tensor its name, shape, format and offset, then the data of the tensors. Numbers are
little-endian; a text is its length in bytes as a number of 8 bytes, and the bytes.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import ModelFileError

BLOCKS: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 30: (1, 2), 28: (1, 8),  # F32, F16, BF16, F64
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),  # I8, I16, I32, I64
    2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),  # Q4_0, Q4_1, Q5_0, Q5_1, Q8_0
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),  # Q2_K to Q6_K
    19: (256, 50), 29: (256, 56),  # IQ1_S, IQ1_M
    16: (256, 66), 17: (256, 74), 22: (256, 82),  # IQ2_XXS, IQ2_XS, IQ2_S
    18: (256, 98), 21: (256, 110),  # IQ3_XXS, IQ3_S
    20: (32, 18), 23: (256, 136),  # IQ4_NL, IQ4_XS
    34: (256, 54), 35: (256, 66),  # TQ1_0, TQ2_0
    39: (32, 17), 40: (64, 36), 41: (128, 18),  # MXFP4, NVFP4, Q1_0
}  # fmt: skip
"""llama.cpp's formats by number: numbers in a block, and bytes of a block."""

Value = int | float | bool | str

F32, F16, BF16 = 0, 1, 30
"""llama.cpp's numbers of the formats that `GgufFile.vector` reads."""

EMBEDDING_TENSOR = "token_embd.weight"

_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Type number of a value in the header -> its code in `struct`."""

_STRING, _ARRAY = 8, 9
"""Type numbers of a text and of an array."""

_ALIGNMENT = 32
"""Alignment of tensors in bytes if the header of the file names none."""

_MIN_PAIR_BYTES, _MIN_TENSOR_BYTES = 8 + 4 + 1, 8 + 4 + 4 + 8
"""Bytes that a value and a tensor take in the header, at the least: length of the key, type and one byte; length of the
name, number of dimensions, format and offset."""

_MAX_KEY_BYTES, _MAX_NAME_BYTES, _MAX_DIMENSIONS = 65_535, 63, 4
"""The limits of llama.cpp: bytes of a key and of the name of a tensor, and dimensions of a tensor."""

_MAX_STRINGS = 1 << 24
"""Most elements of one array of texts; the largest vocabularies have a sixteenth of that."""

_LENGTH_BYTES = 8
"""Bytes of the length in front of a text."""

_MAX_LIST_LENGTH = 1_024
"""Longest array that is kept; arrays with a value for each layer are shorter."""

_DAMAGED = "The file is damaged; get it again."
"""Hint about a damaged file."""


class Unsound(ValueError):
    """The header is invalid. The message is a clause that says why, such as `a tensor in it is not aligned`."""


def bytes_of(shape: Sequence[int], kind: int) -> int | None:
    """Returns the bytes of a tensor; None for a format that this program does not know.

    Args:
        shape: Dimensions in the order of GGUF, the fastest one first.
        kind: llama.cpp's number of the format.

    Raises:
        Unsound: A size is 0, or a row is no whole number of blocks.
    """
    if min(shape, default=1) < 1:
        raise Unsound("a tensor in it has no size")
    if kind not in BLOCKS:
        return None
    block_length, block_bytes = BLOCKS[kind]
    row = shape[0] if shape else 1  # the fastest dimension; a scalar has none
    if row % block_length:
        raise Unsound(
            f"a tensor in it has rows of {row:,} numbers, no whole blocks of {block_length}"
        )
    return math.prod(shape) // block_length * block_bytes


def _check_layout(tensors: Iterable[TensorInfo], alignment: int, room: int) -> None:
    """Checks the positions of tensors.

    The size of a tensor in an unknown format is not checked, so that newer files stay readable; llama.cpp refuses
    formats that it does not know.

    Args:
        tensors: The tensors, with offsets from the beginning of the data section.
        room: Bytes of the data section.

    Raises:
        Unsound: The layout is invalid.
    """
    end = 0
    for tensor in sorted(tensors, key=lambda info: info.offset):
        if tensor.offset % alignment:
            raise Unsound("a tensor in it is not aligned")
        if tensor.offset < end:
            raise Unsound("a tensor in it lies over another")
        # A tensor in an unknown format has one byte at the least.
        end = tensor.offset + (bytes_of(tensor.shape, tensor.kind) or 1)
        if end > room:
            raise Unsound(
                f"it ends before its tensors do, {end - max(room, 0):,} bytes are missing"
            )


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a file.

    Attributes:
        shape: Dimensions in the order of GGUF, the fastest one first.
        kind: Number of its format in llama.cpp.
        offset: Position of its first byte in the file.
    """

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """Values and tensors of a model or an adapter.

    Attributes:
        path: Path of the file.
        values: Values of the metadata by key, without arrays.
        tensors: Tensors by name.
        lists: Short arrays of integers by key.
        size: Bytes of the file.
    """

    path: Path
    values: dict[str, Value]
    tensors: dict[str, TensorInfo]
    lists: dict[str, tuple[int, ...]] = field(default_factory=dict)
    size: int = 0

    def text(self, key: str) -> str:
        """Returns the text stored under a key; empty if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Returns the integer stored under a key; None if there is none, or a value of another kind."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def weights(self) -> int:
        """The number of weights of the model."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors.values())

    def vector(self, name: str) -> NDArray[np.float32] | None:
        """Returns a tensor as a flat F32 array, shape (numbers,); None if it is in another format than F32, F16 and
        BF16.

        Raises:
            KeyError: There is no tensor with this name.
            ModelFileError: The file ends before the tensor does.
        """
        info = self.tensors[name]
        count = int(np.prod(info.shape, dtype=np.int64))
        if info.kind not in (F32, F16, BF16):
            return None
        size = count * (4 if info.kind == F32 else 2)
        with self.path.open("rb") as file:
            file.seek(info.offset)
            data = file.read(size)
        if len(data) < size:
            raise ModelFileError(f"{self.path.name} ends before its tensors do.", _DAMAGED)
        if info.kind == BF16:
            # BF16 is the upper half of F32.
            return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        return np.frombuffer(data, "<f4" if info.kind == F32 else "<f2").astype(np.float32)


def read_gguf(path: Path) -> GgufFile:
    """Reads the metadata and the list of tensors of a file, checks both, and returns them.

    Raises:
        ModelFileError: The file is missing, damaged, no GGUF file, or one of several that make a model.
    """
    try:
        with path.open("rb") as file:
            head = file.read(8)
            if head[:4] != b"GGUF" or not 2 <= int.from_bytes(head[4:8], "little") <= 3:
                raise ModelFileError(
                    f"{path.name} is not a GGUF file.",
                    "Convert the model to GGUF, or name another file.",
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                contents = _Cursor(data, 8).contents(path)
    except OSError as error:
        raise ModelFileError(
            f"The model file {path} cannot be read: {error.strerror}.",
            "`workbench models list` shows the models that can be used.",
        ) from error
    except struct.error as error:
        raise ModelFileError(
            f"{path.name} is a damaged GGUF file: it ends within its header.", _DAMAGED
        ) from error
    except (Unsound, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, Unsound) else "a name in it is no text"
        raise ModelFileError(f"{path.name} is a damaged GGUF file: {why}.", _DAMAGED) from error
    if (contents.number("split.count") or 0) > 1:
        raise ModelFileError(
            f"{path.name} is one of several files that make a model.",
            "Join them with `llama-gguf-split --merge FIRST OUT`, and add OUT.",
        )
    return contents


class _Cursor:
    """Reads a GGUF header sequentially; raises `struct.error` past the end and `Unsound` for invalid values."""

    def __init__(self, data: mmap.mmap, position: int) -> None:
        """Begins at a position, in bytes."""
        self._data, self._position = data, position

    def contents(self, path: Path) -> GgufFile:
        """Returns the values and tensors of the header, from the position after the version on.

        Raises:
            Unsound: The header contradicts itself or a limit.
        """
        tensor_count = self._count(_MIN_TENSOR_BYTES, "tensors")
        value_count = self._count(_MIN_PAIR_BYTES, "values")
        values, lists = self._values_and_lists(value_count)
        infos = self._tensors(tensor_count)
        alignment = values.get("general.alignment", _ALIGNMENT)
        # A power of two has a single bit, so one less has no bit in common with it.
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise Unsound("its alignment is no power of two")
        # The data section begins at the next multiple of the alignment.
        start = math.ceil(self._position / alignment) * alignment
        _check_layout(infos.values(), alignment, len(self._data) - start)
        placed = {
            name: TensorInfo(info.shape, info.kind, start + info.offset)
            for name, info in infos.items()
        }
        return GgufFile(path, values, placed, lists, len(self._data))

    def _values_and_lists(self, count: int) -> tuple[dict[str, Value], dict[str, tuple[int, ...]]]:
        """Returns the next `count` pairs of a key and a value: single values, and short arrays of integers, by key.

        Raises:
            Unsound: A key comes twice, or a value contradicts a limit.
        """
        values: dict[str, Value] = {}
        lists: dict[str, tuple[int, ...]] = {}
        for _ in range(count):
            key = self._string(_MAX_KEY_BYTES)
            if key in values or key in lists:
                raise Unsound("it has a value twice")
            value = self._value(self._number("I"))
            if isinstance(value, tuple):
                lists[key] = value
            elif value is not None:
                values[key] = value
        return values, lists

    def _tensors(self, count: int) -> dict[str, TensorInfo]:
        """Returns the next `count` tensors by name, with their offsets from the beginning of the data section.

        Raises:
            Unsound: A name comes twice, or a tensor has too many dimensions.
        """
        infos: dict[str, TensorInfo] = {}
        for _ in range(count):
            name = self._string(_MAX_NAME_BYTES)
            if name in infos:
                raise Unsound("it has a tensor twice")
            dimensions = self._number("I")
            if dimensions > _MAX_DIMENSIONS:
                raise Unsound(f"a tensor in it has {dimensions:,} dimensions")
            shape = tuple(self._number("Q") for _ in range(dimensions))
            infos[name] = TensorInfo(shape, self._number("I"), self._number("Q"))
        return infos

    def _scalar(self, code: str) -> int | float | bool:
        """Returns the next number; `code` is that of its type in `struct`."""
        (value,) = struct.unpack_from(f"<{code}", self._data, self._position)
        self._position += struct.calcsize(f"<{code}")
        number: int | float | bool = value
        return number

    def _number(self, code: str) -> int:
        """Returns the next number as an integer; `code` is that of its type in `struct`."""
        return int(self._scalar(code))

    def _count(self, least: int, what: str) -> int:
        """Returns the next number, a count of things that follow in the header.

        Args:
            least: Bytes that each of them takes at least.
            what: Their name in the error.

        Raises:
            Unsound: The header has no room for so many.
        """
        count = self._number("Q")
        if count > (len(self._data) - self._position) // least:
            raise Unsound(f"it claims {count:,} {what}, more than fit into it")
        return count

    def _skip(self, size: int) -> None:
        """Goes on by a number of bytes."""
        if size > len(self._data) - self._position:
            raise struct.error("past the end")
        self._position += size

    def _string(self, longest: int | None = None) -> str:
        """Returns the next text, of at most `longest` bytes.

        Raises:
            Unsound: The text is longer.
        """
        size = self._number("Q")
        if longest is not None and size > longest:
            raise Unsound(f"a name in it is {size:,} bytes long")
        start = self._position
        self._skip(size)
        return self._data[start : self._position].decode("utf-8")

    def _value(self, kind: int) -> Value | tuple[int, ...] | None:
        """Returns the next value, of a type given by its number; None for an array that was skipped."""
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        return self._scalar(_code_of(kind))

    def _array(self) -> tuple[int, ...] | None:
        """Returns the values of a short array of integers; None for an array that was skipped."""
        inner, count = self._number("I"), self._number("Q")
        if inner == _STRING:
            self._skip_strings(count)
            return None
        code = _code_of(inner)
        start = self._position
        self._skip(count * struct.calcsize(f"<{code}"))
        # Only integers are kept: no floats, doubles and truth values.
        if code in "fd?" or count > _MAX_LIST_LENGTH:
            return None
        return struct.unpack_from(f"<{count}{code}", self._data, start)

    def _skip_strings(self, count: int) -> None:
        """Goes on behind the next texts, `count` of them.

        Raises:
            Unsound: There are too many.
            struct.error: The data end within them.
        """
        if count > _MAX_STRINGS:
            raise Unsound(f"an array in it claims {count:,} words")
        # Local names: a vocabulary has some hundred thousand texts.
        unpack_size, end = struct.Struct("<Q").unpack_from, len(self._data)
        data, position = self._data, self._position
        for _ in range(count):
            (size,) = unpack_size(data, position)
            position += _LENGTH_BYTES + size
            if position > end:
                raise struct.error("past the end")
        self._position = position


def _code_of(kind: int) -> str:
    """Returns the code in `struct` of a type, given by its number. The format allows arrays of arrays, but no known
    writer makes them.

    Raises:
        Unsound: No type has this number.
    """
    try:
        return _SCALARS[kind]
    except KeyError:
        raise Unsound(f"a value in it is of the unknown kind {kind:,}") from None
