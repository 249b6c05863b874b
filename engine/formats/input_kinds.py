"""What a path turns out to be: an input with conversations, one that cannot be read, or files that were passed over.

The answers of a batch are joined with their requests, which lie in another file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from engine.base.conversation import without_surrogates
from engine.base.errors import FormatError
from engine.formats.detect import Join, Records, reader_of_odd_record
from engine.formats.file_names import suffix
from engine.formats.json_values import BadRecord, object_or_empty
from engine.formats.opening.containers import Content, cannot_open
from engine.formats.opening.framing import KEPT_OF_OVERSIZED, Frame, load
from engine.formats.records import SKIPPED, UNKNOWN, Detection, Input, Parsed, Rejected
from engine.formats.registry import parse_record

# Kinds of inputs


class ConversationFile(Input):
    """One input with a known format. A stream can be read once, a file any number of times.

    A record of another shape than the input's is read by the reader that knows it, unless the person chose the format.
    """

    def __init__(
        self,
        content: Content,
        records: Records,
        *,
        chosen: bool,
        join: Join | None = None,
        companion_files: Sequence[str] = (),
        note: str = "",
        line_offset: int = 0,
        keeps_ids: bool = False,
    ) -> None:
        """Makes the input of a file whose format is known; reads nothing yet.

        Args:
            content: The bytes of the file, with its name and size.
            records: The records in these bytes, with the reader of the format.
            chosen: Whether the person chose the format.
            join: Adds to its records what lies in other files.
            companion_files: Paths of all files that are read together with this one, itself perhaps among them.
            note: What is added to the reason of the detection.
            line_offset: Number of lines before the first record, as of the end of a file that grows.
            keeps_ids: Whether a record with the id of an earlier one keeps it, as it is the same conversation.
        """
        detection = replace(records.detection, why=records.detection.why + note)
        other_files = tuple(path for path in companion_files if path != content.label)
        super().__init__(content.label, content.size, detection, other_files)
        self._content = content
        self._line_offset, self._keeps_ids = line_offset, keeps_ids
        self._join = join
        self._chosen = chosen
        self._records = records
        self._name = without_surrogates(content.name)

    def position(self) -> int:
        """Returns the number of bytes of `size` that were read so far; of an archive's member in proportion."""
        content, position = self._content, self._records.position
        if content.length is None or content.size is None:
            return position
        return min(content.size, position * content.size // max(1, content.length))

    def records(self) -> Iterator[Parsed | Rejected]:
        """Yields the records, each with an id that none before has, unless ids are kept (`keeps_ids`); a failure of the
        disk as a `Rejected`."""
        ids = _UniqueIds()
        try:
            for frame in self._records.frames(self._join):
                yield self._record(frame, ids)
        except OSError as error:
            yield Rejected(None, b"", cannot_open(self.label, error).message)
        finally:
            if not self._content.read_once:
                self._records.close()

    def _record(self, frame: Frame, ids: _UniqueIds) -> Parsed | Rejected:
        """Returns what a frame is read as; with an id that none before has, unless ids are kept."""
        if self._line_offset and frame.number is not None:
            frame = frame._replace(number=frame.number + self._line_offset)
        fallback = self._name if frame.number is None else f"{self._name}-{frame.number}"
        parsed: Parsed | Rejected
        if frame.reason is not None:
            parsed = Rejected(frame.number, frame.raw, frame.reason)
        else:
            parsed = parse_record(self._records.reader, frame, fallback)
        if isinstance(parsed, Rejected) and not self._chosen:
            reader = reader_of_odd_record(frame.value, self._records.reader)
            if reader is not None:
                second_try = parse_record(reader, frame._replace(reason=None), fallback)
                parsed = second_try if isinstance(second_try, Parsed) else parsed
        if isinstance(parsed, Rejected) or self._keeps_ids:
            return parsed
        unique_id = ids.make_unique(parsed.conversation.external_id)
        if unique_id == parsed.conversation.external_id:
            return parsed
        return replace(parsed, conversation=replace(parsed.conversation, external_id=unique_id))


class _UniqueIds:
    """The ids of an input so far. Stores hashes, because there may be millions."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._last: dict[int, int] = {}  # the last number of an id that was used again

    def make_unique(self, external_id: str) -> str:
        """Returns the id, with `#2`, `#3`, ... if it was used before, and records it."""
        name = external_id
        if hash(external_id) in self._taken:
            number = self._last.get(hash(external_id), 1)
            while hash(name) in self._taken:
                number += 1
                name = f"{external_id}#{number}"
            self._last[hash(external_id)] = number
        self._taken.add(hash(name))
        return name


class UnreadableFile(Input):
    """An input for a file in a folder or an archive that fits no format: one rejected record with the reason."""

    def __init__(self, content: Content, reason: str) -> None:
        super().__init__(content.label, content.size, Detection(UNKNOWN, reason))
        self._content = content

    def records(self) -> Iterator[Parsed | Rejected]:
        """Yields the beginning of the bytes as a rejected record."""
        beginning = b""
        try:
            if self._content.stream is not None:
                with self._content.stream() as stream:
                    beginning = stream.read(KEPT_OF_OVERSIZED)
        except OSError:
            pass
        yield Rejected(None, beginning, self.detection.why)


_MAX_NAMES_SHOWN = 3
"""Number of skipped files that are named; the others are counted."""

_MAX_ENDINGS_SHOWN = 5
"""Most endings of skipped files that are named, the most frequent first."""


class SkippedFiles(Input):
    """An input without records: the files in a folder or an archive that hold no conversations.

    Attributes:
        names: Paths of these files.
    """

    def __init__(self, label: str, names: list[str], size: int) -> None:
        """Makes the input, with the number, some names and the endings of the files in words.

        Args:
            label: Path of the folder or archive.
            names: Paths of the files.
            size: Size of those of them that were looked into, in bytes.
        """
        shown_names = ", ".join(os.path.basename(name) for name in names[:_MAX_NAMES_SHOWN])
        files = "1 file holds" if len(names) == 1 else f"{len(names):,} files hold"
        why = f"{files} no conversations: {shown_names}"
        if len(names) > _MAX_NAMES_SHOWN:
            counts = Counter(suffix(name) or "no ending" for name in names)
            endings = ", ".join(ending for ending, _ in counts.most_common(_MAX_ENDINGS_SHOWN))
            why += f" and {len(names) - _MAX_NAMES_SHOWN:,} more ({endings})"
        super().__init__(label, size, Detection(SKIPPED, why))
        self.names = names


# Requests and answers of batches

_REQUEST_KEYS = ("body", "params")
"""Keys of the request in a record of a batch, of OpenAI and of Anthropic."""

_ANSWER_KEYS = ("response", "result")
"""Keys of the answer in a record of a batch, of OpenAI and of Anthropic."""


def is_request(record: Any) -> bool:
    """Returns whether a record is a request of a batch without its answer."""
    return _is_of_batch_with(record, _REQUEST_KEYS) and not _is_of_batch_with(record, _ANSWER_KEYS)


def is_answer(record: Any) -> bool:
    """Returns whether a record is an answer of a batch without its request."""
    return _is_of_batch_with(record, _ANSWER_KEYS) and not _is_of_batch_with(record, _REQUEST_KEYS)


def _is_of_batch_with(record: Any, names: tuple[str, ...]) -> bool:
    """Returns whether a record belongs to a batch, and has an object under one of these keys."""
    if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
        return False
    return any(isinstance(record.get(name), dict) for name in names)


def _is_error(answer: dict[str, Any]) -> bool:
    """Returns whether OpenAI answered a request of a batch with an error only."""
    body = object_or_empty(object_or_empty(answer.get("response")).get("body"))
    return bool(body.get("error")) and not body.get("output")


class JoinCandidate(NamedTuple):
    """A file that may hold requests or answers of a batch.

    Attributes:
        label: Its path, and the name within an archive.
        frames: Reads its records; may raise OSError and FormatError.
    """

    label: str
    frames: Callable[[], Iterator[Frame]]


class _StoredRequest(NamedTuple):
    """A request of a batch.

    Attributes:
        label: Path of the file that it is in, and the name within an archive.
        raw: Its bytes.
    """

    label: str
    raw: bytes


class Batches:
    """Joins the requests and answers of batches that lie in different files of an import.

    An answer (OpenAI, Anthropic) has the `custom_id` of its request, which lies in another file. Where several batches
    have the same id, an answer belongs to the request in its folder.
    """

    def __init__(self, files: Sequence[JoinCandidate], folder: str) -> None:
        """Reads nothing yet.

        Args:
            folder: The folder of the files that are joined with others.
        """
        self._files, self._folder = files, folder
        self._requests: dict[str, list[_StoredRequest]] | None = None  # by id; None until read
        self._answer_folders: dict[str, set[str]] = {}  # by id
        self._batch_files: list[str] = []

    @property
    def files(self) -> list[str]:
        """The labels of the files that hold requests or answers."""
        self._read_requests()
        return self._batch_files

    def note(self, record: dict[str, Any]) -> str:
        """Returns what the reason of a detection adds on the join of a file with this record; may be empty."""
        requests = self._read_requests()
        if is_answer(record):
            request = self._request_of(record["custom_id"], self._folder)
            if request is not None:
                return f"; joined with the requests in {request.label} by `custom_id`"
            if record["custom_id"] in requests:
                return (
                    "; several requests have the same `custom_id`, so that only answers are read: give each batch a"
                    " folder of its own"
                )
            return "; the requests are missing, so that only answers are read: import both files at once"
        has_answers = bool(self._answer_folders.keys() & requests.keys())
        return "; requests with an answer are read with it" if has_answers else ""

    def _request_of(self, custom_id: str, folder: str) -> _StoredRequest | None:
        """Returns the request of an answer in a folder; None where there is none, or nobody knows which it is."""
        requests = self._read_requests().get(custom_id, [])
        in_folder = [request for request in requests if os.path.dirname(request.label) == folder]
        requests = in_folder or requests
        return requests[0] if len({request.raw.strip() for request in requests}) == 1 else None

    def _is_answered(self, custom_id: str, raw: bytes) -> bool:
        """Returns whether an answer belongs to a request, of which `raw` are the bytes."""
        folders = self._answer_folders.get(custom_id, ())
        owners = (self._request_of(custom_id, folder) for folder in folders)
        return any(owner is not None and owner.raw.strip() == raw.strip() for owner in owners)

    def _read_requests(self) -> dict[str, list[_StoredRequest]]:
        """Returns all requests by their ids, and reads the files at the first call.

        The requests stay in memory, since the answers come in another order.
        """
        if self._requests is None:
            self._requests = {}
            for file in self._files:
                self._read_file(file, self._requests)
        return self._requests

    def _read_file(self, file: JoinCandidate, requests: dict[str, list[_StoredRequest]]) -> None:
        """Adds the requests of a file to those before, and notes the ids that the file answers.

        It is read no further if its first record is no part of a batch. A file of errors alone is no log, so the ids
        in it are not noted, and their requests are read without answers.
        """
        answered_ids: set[str] = set()
        has_real_answer = False
        for number, frame in enumerate(_readable_records(file)):
            record = frame.value
            if is_request(record):
                request = _StoredRequest(file.label, frame.raw)
                requests.setdefault(record["custom_id"], []).append(request)
            elif is_answer(record):
                answered_ids.add(record["custom_id"])
                has_real_answer = has_real_answer or not _is_error(record)
            elif number == 0:
                return
            if number == 0:
                self._batch_files.append(file.label)
        if has_real_answer:
            for custom_id in answered_ids:
                folder = os.path.dirname(file.label)
                self._answer_folders.setdefault(custom_id, set()).add(folder)

    def join(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yields each answer with its request, each request without an answer, and all other records as they are.

        A request that has an answer is not yielded where it lies itself.
        """
        for frame in frames:
            if is_request(frame.value):
                if not self._is_answered(frame.value["custom_id"], frame.raw):
                    yield frame
            elif is_answer(frame.value) and (
                stored := self._request_of(frame.value["custom_id"], self._folder)
            ):
                yield frame._replace(
                    raw=stored.raw.rstrip() + b"\n" + frame.raw,
                    value={**load(stored.raw, "line"), **frame.value},
                )
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
