"""What a GGUF file says of itself, read without llama.cpp: its values, and where its tensors lie.

The `gguf` package reads the same, but takes seconds for the vocabulary of a small model, which nobody here asks for:
arrays are passed over.
"""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelFileError

Value = int | float | bool | str

F32, F16, BF16 = 0, 1, 30
"""llama.cpp's numbers of the formats that `GgufFile.vector` reads."""

_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a file.

    Attributes:
        shape: Sizes as GGUF has them, the fastest running one first.
        kind: llama.cpp's number of its format.
        file: Where it lies: one of several files where a model is split.
        offset: Its first byte in the file.
    """

    shape: tuple[int, ...]
    kind: int
    file: Path
    offset: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """Values and tensors of a model or an adapter.

    Attributes:
        values: Metadata by key, without arrays.
        tensors: Tensors by name, those of all parts of a split model.
    """

    path: Path
    values: dict[str, Value]
    tensors: dict[str, TensorInfo]

    def text(self, key: str) -> str:
        """A value that should be text; empty where it is not there."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """A value that should be a whole number; None where it is not there or is an array."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def vector(self, name: str) -> NDArray[np.float32] | None:
        """A tensor in F32, flat; None where it is kept in a format of fewer bits than 16.

        Raises:
            ModelFileError: The file ends before the tensor does.
        """
        info = self.tensors[name]
        count = int(np.prod(info.shape, dtype=np.int64))
        if info.kind not in (F32, F16, BF16):
            return None
        width = 4 if info.kind == F32 else 2
        with info.file.open("rb") as file:
            file.seek(info.offset)
            data = file.read(count * width)
        if len(data) < count * width:
            raise ModelFileError(f"{info.file.name} ends before its tensors do.", _DAMAGED)
        if info.kind == BF16:
            return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        return np.frombuffer(data, "<f4" if info.kind == F32 else "<f2").astype(np.float32)


_DAMAGED = "The file is damaged; get it again."


def read_gguf(path: Path) -> GgufFile:
    """Reads the values and the list of tensors of a file, and of its other parts where it is the first of several.

    Raises:
        ModelFileError: A file is missing, is no GGUF file, or is damaged.
    """
    values, tensors = _read_one(path)
    found = _SPLIT.search(path.name)
    if found and values.get("split.count") == int(found[2]):
        stem = path.name[: found.start()]
        for number in range(int(found[1]) + 1, int(found[2]) + 1):
            part = path.with_name(f"{stem}-{number:05}-of-{found[2]}.gguf")
            tensors.update(_read_one(part)[1])
    return GgufFile(path, values, tensors)


def _read_one(path: Path) -> tuple[dict[str, Value], dict[str, TensorInfo]]:
    try:
        with path.open("rb") as file:
            head = file.read(8)
            if head[:4] != b"GGUF" or not 2 <= int.from_bytes(head[4:8], "little") <= 3:
                raise ModelFileError(
                    f"{path.name} is not a GGUF file.",
                    "Convert the model to GGUF, or name another file.",
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Cursor(data, 8).contents(path)
    except OSError as error:
        raise ModelFileError(
            f"The model file {path} cannot be read: {error.strerror}.",
            "`workbench models list` shows the models that can be used.",
        ) from error
    except (struct.error, UnicodeDecodeError, KeyError, IndexError) as error:
        raise ModelFileError(f"{path.name} is a damaged GGUF file.", _DAMAGED) from error


class _Cursor:
    """Reads one after another what the head of a GGUF file holds; each read past the end is a `struct.error`."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data, self._at = data, at

    def contents(self, path: Path) -> tuple[dict[str, Value], dict[str, TensorInfo]]:
        tensors, pairs = self._take("Q"), self._take("Q")
        values: dict[str, Value] = {}
        for _ in range(int(pairs)):
            key = self._string()
            value = self._value(int(self._take("I")))
            if value is not None:
                values[key] = value
        found = []
        for _ in range(int(tensors)):
            name = self._string()
            sizes = [int(self._take("Q")) for _ in range(int(self._take("I")))]
            found.append((name, tuple(sizes), int(self._take("I")), int(self._take("Q"))))
        alignment = int(values.get("general.alignment", _ALIGNMENT))
        start = -(-self._at // alignment) * alignment
        return values, {
            name: TensorInfo(shape, kind, path, start + offset)
            for name, shape, kind, offset in found
        }

    def _take(self, code: str) -> int | float | bool:
        (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
        self._at += struct.calcsize(f"<{code}")
        number: int | float | bool = value
        return number

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise struct.error("past the end")
        self._at += size

    def _string(self) -> str:
        size = int(self._take("Q"))
        start = self._at
        self._skip(size)
        return self._data[start : self._at].decode("utf-8")

    def _value(self, kind: int) -> Value | None:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._take(_SCALARS[kind])
        inner, count = int(self._take("I")), int(self._take("Q"))
        if inner == _STRING:
            for _ in range(count):
                self._skip(int(self._take("Q")))
        else:
            # An array of arrays is a KeyError: the format has them, no writer makes them.
            self._skip(count * struct.calcsize(f"<{_SCALARS[inner]}"))
        return None
