"""What crosses the pipe between the program and its model process: one JSON object a line, both ways.

A request is `{"id": n, "type": NAME, "request": {...}}`, where NAME is a class of `engine.model.process.requests` and
the object has its fields. Its answers carry the same id: any number of `progress`, then exactly one of `result`,
`error` or `cancelled`. `{"type": "cancel", "id": n}` asks for the latter.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from engine.model.process.requests import Request
from engine.trees.record import TreeRecord, record, restore
from engine.trees.tree import Tree

VERSION = 2
Frame = dict[str, Any]
PLAIN = (Any, bool, int, float, str, NoneType)
"""Types that JSON gives back as they were; Python writes floats so that they are read back bit for bit."""


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Writes one frame and flushes. Its values may be whatever `decode` can read."""
    line = json.dumps(frame, separators=(",", ":"), default=_encode)
    stream.write(line.encode("ascii") + b"\n")
    stream.flush()


def read_frame(stream: BinaryIO) -> Frame | None:
    """Reads one frame as JSON values; None at the end of the stream."""
    line = stream.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def answer_type(request: type[Request[Any]]) -> Any:
    """The type of the answers to a kind of request."""
    (base,) = request.__orig_bases__  # type: ignore[attr-defined]
    return get_args(base)[0]


def _encode(value: Any) -> Any:
    """What `json` writes in place of a value that it does not know."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value, dtype="<f4").tobytes()
        return {"shape": value.shape, "data": base64.b64encode(data).decode("ascii")}
    if isinstance(value, Tree):
        return record(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot cross the pipe")


def decode(kind: Any, value: Any) -> Any:
    """JSON values as a value of the type that they were written from.

    Args:
        kind: A plain type, a dataclass of such types, a list, tuple, sequence or mapping of them, one of them or None,
            a path, a tree, or an array of float32.
    """
    origin, args = get_origin(kind), get_args(kind)
    if value is None or kind in PLAIN or origin in (Literal, dict):
        return value
    if origin in (Union, UnionType):
        (kind,) = (one for one in args if one is not NoneType)
        return decode(kind, value)
    if origin is tuple and args[-1] is not Ellipsis:
        return tuple(decode(one, item) for one, item in zip(args, value, strict=True))
    if origin in (list, tuple, Sequence):
        make = tuple if origin is tuple else list
        return make(value) if args[0] in PLAIN else make(decode(args[0], item) for item in value)
    if origin is np.ndarray:
        data = base64.b64decode(value["data"])
        return np.frombuffer(data, dtype="<f4").reshape(value["shape"]).astype(np.float32)
    if kind is Path:
        return Path(value)
    if kind is Tree:
        return restore(decode(TreeRecord, value))
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: decode(hints[name], item) for name, item in value.items()})
    return value


_hints = cache(get_type_hints)
