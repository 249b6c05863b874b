"""What crosses the pipe between the program and its model process: frames of MessagePack, each after its length.

The process greets with `Hello`. Each `Ask` is answered by any number of `Working`, then by exactly one of `Answer`,
`Failure` and `Stopped`, all with its number; `Cancel` asks for the latter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar, get_args, get_origin

import msgspec
import numpy as np

VERSION = 3
LENGTH_BYTES = 8
LONGEST = 1 << 40
"""Bytes of a frame, far above any; the length is larger where something else was written into the pipe."""

AnswerT = TypeVar("AnswerT", covariant=True)


class Request(msgspec.Struct, Generic[AnswerT], frozen=True):
    """Something asked of a model; the type argument is the type of the answer.

    Attributes:
        needs_model: Whether a model has to be loaded for it.
    """

    needs_model: ClassVar[bool] = True


class Hello(msgspec.Struct, tag=True):
    """The first frame of the process, sent when it is ready."""

    version: int


class Ask(msgspec.Struct, tag=True):
    """A request.

    Attributes:
        number: Says which request the answers belong to.
        kind: Name of the class of the request.
        request: The request, encoded.
    """

    number: int
    kind: str
    request: msgspec.Raw


class Cancel(msgspec.Struct, tag=True):
    """Asks that a request be ended."""

    number: int


class Working(msgspec.Struct, tag=True):
    """The progress of a request: a count of what is done, and what is being done where there is nothing to count."""

    number: int
    done: int
    note: str = ""


class Answer(msgspec.Struct, tag=True):
    """The answer to a request, encoded."""

    number: int
    value: msgspec.Raw


class Failure(msgspec.Struct, tag=True):
    """Why a request cannot be answered: the name of an error, its message and its hint."""

    number: int
    kind: str
    message: str
    hint: str


class Stopped(msgspec.Struct, tag=True):
    """Says that a request was cancelled."""

    number: int


Frame = Hello | Ask | Cancel | Working | Answer | Failure | Stopped


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Writes one frame and flushes; raises OSError if the other side is gone."""
    data = msgspec.msgpack.encode(frame)
    stream.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    stream.flush()


def read_frame(stream: BinaryIO) -> Frame | None:
    """Reads one frame.

    Returns:
        The frame; None at the end of the stream, also within a frame.

    Raises:
        ValueError: It is no frame.
    """
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    if length > LONGEST:
        raise ValueError(f"{head!r} is not the beginning of a frame")
    data = stream.read(length)
    return _frames.decode(data) if len(data) == length else None


_frames = msgspec.msgpack.Decoder(Frame)


def answer_type(request: type[Request[Any]]) -> Any:
    """Returns the type of the answers to a kind of request."""
    (base,) = request.__orig_bases__  # type: ignore[attr-defined]
    return get_args(base)[0]


def encode(value: Any) -> msgspec.Raw:
    """Encodes a request or an answer.

    Raises:
        UnicodeEncodeError: A text has half a surrogate pair.
    """
    return msgspec.Raw(msgspec.msgpack.encode(value, enc_hook=_encode_other))


def decode(kind: Any, data: msgspec.Raw) -> Any:
    """Decodes a request or an answer, bit for bit what was encoded.

    Args:
        kind: Its type: whatever msgspec knows, a path, an array of float32, or made of these.

    Raises:
        ValueError: The data are of another type.
    """
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_decode_other)


def _encode_other(value: Any) -> Any:
    """Returns what stands for a value of a type that msgspec does not know."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray):
        return value.shape, np.ascontiguousarray(value, dtype="<f4").tobytes()
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} cannot cross the pipe")


def _decode_other(kind: Any, value: Any) -> Any:
    """Returns the value of a type that msgspec does not know."""
    if kind is Path:
        return Path(value)
    if get_origin(kind) is np.ndarray:
        shape, data = value
        return np.frombuffer(data, dtype="<f4").reshape(shape).astype(np.float32)
    raise NotImplementedError(f"{kind} cannot cross the pipe")
