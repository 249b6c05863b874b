"""Joins what lies in several files: answers of a batch with their requests, threads that run over several days, and the
files of a run with its transcript.

An answer of a batch (OpenAI, Anthropic) has the `custom_id` of its request, which lies in another file. A thread
belongs to the first file that has one of its messages.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from engine.base.errors import FormatError
from engine.formats.json_values import BadRecord
from engine.formats.opening.framing import Frame, load
from engine.formats.records import COMPANIONS

_REQUESTS = ("body", "params")
_ANSWERS = ("response", "result")


class JoinCandidate(NamedTuple):
    """A file that may have a part of the records of another.

    Attributes:
        label: Its path, and the name within an archive.
        frames: Reads its records; may raise OSError and FormatError.
    """

    label: str
    frames: Callable[[], Iterator[Frame]]


def is_request(record: Any) -> bool:
    """Whether a record is a request of a batch without its answer."""
    return _is_part(record, _REQUESTS) and not _is_part(record, _ANSWERS)


def is_answer(record: Any) -> bool:
    """Whether a record is an answer of a batch without its request."""
    return _is_part(record, _ANSWERS) and not _is_part(record, _REQUESTS)


def _is_part(record: Any, names: tuple[str, ...]) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
        return False
    return any(isinstance(record.get(name), dict) for name in names)


def _is_error(answer: dict[str, Any]) -> bool:
    """Whether OpenAI answered a request of a batch with an error only."""
    response = answer.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    return isinstance(body, dict) and bool(body.get("error")) and not body.get("output")


class Batches:
    """The requests and answers of the files that an import may join."""

    def __init__(self, files: Sequence[tuple[JoinCandidate, bool]]) -> None:
        """Reads nothing yet.

        Args:
            files: The files in which it looks, each with whether its own records are imported too.
        """
        self._files = files
        self._requests: dict[str, tuple[str, bytes]] | None = None
        self._answered: set[str] = set()
        self._parts: list[str] = []

    @property
    def files(self) -> list[str]:
        """The files that hold requests or answers."""
        self._look()
        return self._parts

    def note(self, record: dict[str, Any]) -> str:
        """What the reason of a detection says of the join of a file with this record."""
        self._look()
        if is_answer(record):
            request = self._look().get(record["custom_id"])
            if request is not None:
                return f"; joined with the requests in {request[0]} by `custom_id`"
            return (
                "; the requests are missing, so that only answers are read: import their file too, or put it"
                " into the same folder"
            )
        return "; requests with an answer are read with it" if self._answered else ""

    def request_of(self, answer: dict[str, Any]) -> tuple[bytes, dict[str, Any]] | None:
        """The bytes and the value of the request of an answer; None if no file has it."""
        request = self._look().get(answer["custom_id"])
        return None if request is None else (request[1], load(request[1], "line"))

    def is_answered(self, request: dict[str, Any]) -> bool:
        """Whether the answer of a request is imported too, from another file."""
        self._look()
        return request["custom_id"] in self._answered

    def _look(self) -> dict[str, tuple[str, bytes]]:
        """The files and bytes of all requests by their ids; they are in memory, since answers come in another order."""
        if self._requests is not None:
            return self._requests
        self._requests = {}
        for file, imported in self._files:
            answered: set[str] = set()
            has_text = False
            for number, frame in enumerate(_readable(file)):
                if number == 0 and (is_request(frame.value) or is_answer(frame.value)):
                    self._parts.append(file.label)
                if is_request(frame.value):
                    self._requests.setdefault(frame.value["custom_id"], (file.label, frame.raw))
                elif is_answer(frame.value):
                    answered.add(frame.value["custom_id"])
                    has_text = has_text or not _is_error(frame.value)
                elif number == 0:
                    break  # no file of a batch
            if imported and has_text:  # a file of errors is no log, so its requests are read alone
                self._answered |= answered
        self._answered &= self._requests.keys()
        return self._requests

    def joined(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yields answers with their requests, and requests without an answer; requests with one are read there."""
        for frame in frames:
            if is_request(frame.value):
                if not self.is_answered(frame.value):
                    yield frame
            elif is_answer(frame.value) and (found := self.request_of(frame.value)) is not None:
                raw, request = found
                yield frame._replace(
                    raw=raw.rstrip() + b"\n" + frame.raw, value={**request, **frame.value}
                )
            else:
                yield frame


class Threads:
    """The records of a folder's files that belong to a thread with messages in several of them."""

    def __init__(self, files: Sequence[JoinCandidate], thread_of: Callable[[Any], str]) -> None:
        self._files = files
        self._thread_of = thread_of
        self._first: dict[str, str] = {}
        self._later: dict[str, list[Frame]] = {}

    @property
    def files(self) -> list[str]:
        """The files that are read together."""
        return [file.label for file in self._files]

    def joined(self, label: str, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yields the records of a file without those of threads that begin in another, and with the records of other
        files that belong to its own threads."""
        self._look()
        own: Counter[str] = Counter()
        for frame in frames:
            thread = "" if frame.reason else self._thread_of(frame.value)
            if not thread or self._first.get(thread, label) == label:
                own[thread] += 1
                yield frame
        for thread in own:
            if thread:
                yield from self._later.get(thread, ())

    def _look(self) -> None:
        if self._first:
            return
        for file in self._files:
            for frame in _readable(file):
                if thread := self._thread_of(frame.value):
                    first = self._first.setdefault(thread, file.label)
                    if first != file.label:
                        self._later.setdefault(thread, []).append(frame)


def name_in(label: str) -> tuple[str, str]:
    """Splits a label into the folder, also of an archive (`runs.zip: 1/config.json`), and the name of the file."""
    ends = [label.rfind(mark) + len(mark) for mark in ("/", os.sep, ": ") if mark in label]
    cut = max(ends, default=0)
    return label[:cut], label[cut:]


def with_companions(files: Sequence[JoinCandidate], frames: Iterator[Frame]) -> Iterator[Frame]:
    """Yields the records of a file with the values of the files beside it; the bytes of these follow its own."""
    values: dict[str, Any] = {}
    raw = b""
    for file in files:
        frames_read = list(_readable(file))
        if frames_read:
            name = name_in(file.label)[1]
            values[name] = (
                [frame_read.value for frame_read in frames_read]
                if len(frames_read) > 1
                else frames_read[0].value
            )
            raw += b"".join(b"\n" + frame_read.raw for frame_read in frames_read)
    for frame in frames:
        if isinstance(frame.value, dict) and values:
            value = {**frame.value, COMPANIONS: values}
            yield frame._replace(raw=frame.raw.rstrip() + raw, value=value)
        else:
            yield frame


def _readable(file: JoinCandidate) -> Iterator[Frame]:
    """The records of a file that can be read; none if it cannot be opened."""
    try:
        for frame in file.frames():
            if frame.reason is None:
                yield frame
    except (FormatError, OSError, BadRecord):
        return
