"""The protocol between the program and its model process: frames in MessagePack that cross a pipe, each preceded by
its length.

The first frame of the process is `Hello`. Each `Ask` is answered by any number of `Working` frames, then by exactly one
of `Answer`, `Failure` and `CancelDone`, all with the number of the `Ask`. `Cancel` requests `CancelDone`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar, get_args, get_origin

import msgspec
import numpy as np

LENGTH_BYTES = 8
"""Number of bytes, most significant first, that give the length of a frame."""

MAX_FRAME_BYTES = 1 << 40
"""Largest plausible length of a frame. A larger one shows that something else was written into the pipe."""

AnswerT = TypeVar("AnswerT", covariant=True)
"""Type of the answer to a request."""


class Request(msgspec.Struct, Generic[AnswerT], frozen=True):
    """A request to a model; the type argument is the type of the answer.

    Attributes:
        needs_model: Whether a model must be loaded to answer it.
    """

    needs_model: ClassVar[bool] = True


class Hello(msgspec.Struct, tag=True):
    """The first frame of the process, sent when it is ready."""


class Ask(msgspec.Struct, tag=True):
    """A request on its way to the process.

    Attributes:
        number: Number of the request, which all frames about it repeat.
        kind: Name of the class of the request.
        request: The request, encoded.
    """

    number: int
    kind: str
    request: msgspec.Raw


class Cancel(msgspec.Struct, tag=True):
    """Tells the process to end a request."""

    number: int


class Working(msgspec.Struct, tag=True):
    """The progress of a request.

    Attributes:
        number: Number of the request.
        done: Count of what is done; the kind of request says what is counted.
        note: What is being done where there is nothing to count; else "".
    """

    number: int
    done: int
    note: str = ""


class Answer(msgspec.Struct, tag=True):
    """The answer to a request, encoded."""

    number: int
    value: msgspec.Raw


class Failure(msgspec.Struct, tag=True):
    """The reason why a request cannot be answered.

    Attributes:
        number: Number of the request.
        kind: Name of the class of the error.
        message: What went wrong.
        hint: What the user can do; "" for nothing.
    """

    number: int
    kind: str
    message: str
    hint: str


class CancelDone(msgspec.Struct, tag=True):
    """The last frame about a request that was cancelled."""

    number: int


Frame = Hello | Ask | Cancel | Working | Answer | Failure | CancelDone
"""A message between this program and the model process, in either direction."""

_FRAME_DECODER = msgspec.msgpack.Decoder(Frame)
"""Decodes a frame, whose tag says which of the classes it is."""


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Writes one frame and flushes.

    Raises:
        OSError: The other side has ended.
    """
    data = msgspec.msgpack.encode(frame)
    stream.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    stream.flush()


def read_frame(stream: BinaryIO) -> Frame | None:
    """Returns the next frame; None if the stream ends before the end of a frame.

    Raises:
        ValueError: The bytes are not a frame.
    """
    length_bytes = stream.read(LENGTH_BYTES)
    if len(length_bytes) < LENGTH_BYTES:
        return None
    length = int.from_bytes(length_bytes, "big")
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"{length_bytes!r} is not the beginning of a frame")
    data = stream.read(length)
    return _FRAME_DECODER.decode(data) if len(data) == length else None


def answer_type(request: type[Request[Any]]) -> Any:
    """Returns the type of the answers to a kind of request."""
    (base,) = request.__orig_bases__  # type: ignore[attr-defined]
    (answer,) = get_args(base)
    return answer


def encode(value: Any) -> msgspec.Raw:
    """Returns an encoded request or answer.

    Raises:
        UnicodeEncodeError: A text has half a surrogate pair.
    """
    return msgspec.Raw(msgspec.msgpack.encode(value, enc_hook=_encode_path_or_array))


def decode(kind: Any, data: msgspec.Raw) -> Any:
    """Returns a decoded request or answer; floats and arrays are bit for bit what was encoded.

    Args:
        kind: Type of the value: a type that msgspec knows, a path, an array of float32, or a composition of these.

    Raises:
        ValueError: The data are of another type.
    """
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_decode_path_or_array)


def _encode_path_or_array(value: Any) -> Any:
    """Returns the encodable form of a value of a type that msgspec does not know.

    Raises:
        NotImplementedError: The type is neither a path nor one of numpy.
    """
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray):
        return value.shape, np.ascontiguousarray(value, dtype="<f4").tobytes()
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} cannot cross the pipe")


def _decode_path_or_array(kind: Any, value: Any) -> Any:
    """Returns the value of a type that msgspec does not know, from its encodable form.

    Raises:
        NotImplementedError: The type is neither a path nor an array.
    """
    if kind is Path:
        return Path(value)
    if get_origin(kind) is np.ndarray:
        shape, data = value
        return np.frombuffer(data, dtype="<f4").reshape(shape).astype(np.float32)
    raise NotImplementedError(f"{kind} cannot cross the pipe")
