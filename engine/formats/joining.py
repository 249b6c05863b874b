"""Joins what lies in several files: batch answers with their requests, threads that run over several days, and a run's
files with its transcript.

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

_REQUEST_KEYS = ("body", "params")
"""Keys of the request in a record of a batch, of OpenAI and of Anthropic."""

_ANSWER_KEYS = ("response", "result")
"""Keys of the answer in a record of a batch, of OpenAI and of Anthropic."""


class JoinCandidate(NamedTuple):
    """A file that may hold a part of the records of another file.

    Attributes:
        label: Its path, and the name within an archive.
        frames: Reads its records; may raise OSError and FormatError.
    """

    label: str
    frames: Callable[[], Iterator[Frame]]


def is_request(record: Any) -> bool:
    """Returns whether a record is a request of a batch without its answer."""
    return _is_part(record, _REQUEST_KEYS) and not _is_part(record, _ANSWER_KEYS)


def is_answer(record: Any) -> bool:
    """Returns whether a record is an answer of a batch without its request."""
    return _is_part(record, _ANSWER_KEYS) and not _is_part(record, _REQUEST_KEYS)


def _is_part(record: Any, names: tuple[str, ...]) -> bool:
    """Returns whether a record belongs to a batch, and has an object under one of these keys."""
    if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
        return False
    return any(isinstance(record.get(name), dict) for name in names)


def _is_error(answer: dict[str, Any]) -> bool:
    """Returns whether OpenAI answered a request of a batch with an error only."""
    response = answer.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    return isinstance(body, dict) and bool(body.get("error")) and not body.get("output")


class _StoredRequest(NamedTuple):
    """A request of a batch: the label of its file, and its bytes."""

    label: str
    raw: bytes


class Batches:
    """Joins the requests and answers of batches that lie in different files of an import."""

    def __init__(self, files: Sequence[tuple[JoinCandidate, bool]]) -> None:
        """Reads nothing yet.

        Args:
            files: The files in which it looks, each with whether its own records are imported too.
        """
        self._files = files
        self._requests: dict[str, _StoredRequest] | None = None  # by id; None until read
        self._answered_ids: set[str] = set()
        self._batch_files: list[str] = []

    @property
    def files(self) -> list[str]:
        """The labels of the files that hold requests or answers."""
        self._read_requests()
        return self._batch_files

    def note(self, record: dict[str, Any]) -> str:
        """Returns what the reason of a detection adds on the join of a file with this record; may be empty."""
        self._read_requests()
        if is_answer(record):
            request = self._read_requests().get(record["custom_id"])
            if request is not None:
                return f"; joined with the requests in {request.label} by `custom_id`"
            return (
                "; the requests are missing, so that only answers are read: import their file too, or put it"
                " into the same folder"
            )
        return "; requests with an answer are read with it" if self._answered_ids else ""

    def _read_requests(self) -> dict[str, _StoredRequest]:
        """Returns all requests by their ids, and reads the files at the first call.

        The requests stay in memory, since the answers come in another order.
        """
        if self._requests is not None:
            return self._requests
        self._requests = {}
        for file, imported in self._files:
            answered: set[str] = set()
            has_text = False
            for number, frame in enumerate(_readable_records(file)):
                if number == 0 and (is_request(frame.value) or is_answer(frame.value)):
                    self._batch_files.append(file.label)
                if is_request(frame.value):
                    self._requests.setdefault(
                        frame.value["custom_id"], _StoredRequest(file.label, frame.raw)
                    )
                elif is_answer(frame.value):
                    answered.add(frame.value["custom_id"])
                    has_text = has_text or not _is_error(frame.value)
                elif number == 0:
                    break  # it is no file of a batch
            if imported and has_text:  # a file of errors is no log, so its requests are read alone
                self._answered_ids |= answered
        self._answered_ids &= self._requests.keys()
        return self._requests

    def joined(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yields each answer with its request, each request without an answer, and all other records as they are.

        A request that has an answer is not yielded where it lies itself.
        """
        requests = self._read_requests()
        for frame in frames:
            if is_request(frame.value):
                if frame.value["custom_id"] not in self._answered_ids:
                    yield frame
            elif is_answer(frame.value) and (stored := requests.get(frame.value["custom_id"])):
                yield frame._replace(
                    raw=stored.raw.rstrip() + b"\n" + frame.raw,
                    value={**load(stored.raw, "line"), **frame.value},
                )
            else:
                yield frame


class Threads:
    """Joins the records of a thread that lie in several files of a folder."""

    def __init__(self, files: Sequence[JoinCandidate], thread_of: Callable[[Any], str]) -> None:
        self._files = files
        self._thread_of = thread_of
        self._first_file: dict[str, str] = {}  # by thread
        self._later_records: dict[str, list[Frame]] = {}  # by thread, those of its other files

    @property
    def files(self) -> list[str]:
        """The labels of the files that are read together."""
        return [file.label for file in self._files]

    def joined(self, label: str, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yields the records of the threads that begin in a file, those in other files last.

        Records of threads that begin in another file are left out; records of no thread stay.
        """
        self._sort_records()
        own_threads: Counter[str] = Counter()
        for frame in frames:
            thread = "" if frame.reason else self._thread_of(frame.value)
            if not thread or self._first_file.get(thread, label) == label:
                own_threads[thread] += 1
                yield frame
        for thread in own_threads:
            if thread:
                yield from self._later_records.get(thread, ())

    def _sort_records(self) -> None:
        """Reads the files at the first call, and notes in which file each thread begins."""
        if self._first_file:
            return
        for file in self._files:
            for frame in _readable_records(file):
                if thread := self._thread_of(frame.value):
                    first = self._first_file.setdefault(thread, file.label)
                    if first != file.label:
                        self._later_records.setdefault(thread, []).append(frame)


def name_in(label: str) -> tuple[str, str]:
    """Returns the folder and the file name of a label, which may lie in an archive: `runs.zip: 1/config.json`."""
    ends = [label.rfind(mark) + len(mark) for mark in ("/", os.sep, ": ") if mark in label]
    cut = max(ends, default=0)
    return label[:cut], label[cut:]


def with_companions(files: Sequence[JoinCandidate], frames: Iterator[Frame]) -> Iterator[Frame]:
    """Yields the records of a file with the values of its companion files, the files beside it.

    The bytes of those follow its own bytes.
    """
    values: dict[str, Any] = {}
    raw = b""
    for file in files:
        frames_read = list(_readable_records(file))
        if frames_read:
            _, name = name_in(file.label)
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


def _readable_records(file: JoinCandidate) -> Iterator[Frame]:
    """Yields the records of a file that can be read; none if it cannot be opened."""
    try:
        for frame in file.frames():
            if frame.reason is None:
                yield frame
    except (FormatError, OSError, BadRecord):
        return
