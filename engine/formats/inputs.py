"""Opens files, folders and standard input, each as one `Input`."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from engine.errors import FormatError
from engine.formats.detect import examine, frames, sampled
from engine.formats.framing import KEPT_OF_OVERSIZED, Frame, Framing
from engine.formats.reader import Reader
from engine.formats.readers import reader_named
from engine.formats.single import parse
from engine.formats.source import Source
from engine.records.imports import Detection, Input, Parsed, Rejected

SUFFIXES = (".json", ".jsonl", ".ndjson")
STANDARD_INPUT = "standard input"
UNKNOWN = "unknown"


def open_inputs(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    stdin: BinaryIO | None = None,
    all_branches: bool = False,
) -> Iterator[Input]:
    """Opens files, folders and `-` (standard input) in the given order; the files of a folder are sorted.

    A file that is named in `paths` and fits no format is an error. One found in a folder becomes an input of the format
    `unknown` with one rejected record, so that the others are still imported. Conversations without an id
    are named after their file with its path inside the folder, because several folders may have a `1.json`.

    Args:
        format: Name of a format; None to detect it for each input.
        stdin: Stream to read for `-`; None: the standard input of the process.
        all_branches: Whether each branch of a tree of messages is a conversation, and not only the current one.

    Raises:
        FormatError: At the call: a path or format does not exist, a folder has no conversations, or a named file cannot
            be opened or fits no format.
    """
    if format is not None:
        reader_named(format)
    plan: list[_Conversations | _Member] = []
    for given in paths:
        path = os.fspath(given)
        if path == "-":
            plan.append(_stream(STANDARD_INPUT, stdin or sys.stdin.buffer, format, all_branches))
        elif os.path.isdir(path):
            plan.extend(_Member(file, os.path.relpath(file, path)) for file in _files_in(path))
        else:
            plan.append(_named(path, format, all_branches))
    return _opened(plan, format, all_branches)


def sample_records(path: str | os.PathLike[str]) -> list[Frame]:
    """Returns the first records of a file of any format, at least one if it holds any.

    Raises:
        FormatError: It cannot be opened, or nothing in it can be read.
    """
    try:
        with open(path, "rb") as file:
            records = sampled(Source(file), _suffix(os.fspath(path)))
    except OSError as error:
        raise _cannot_open(os.fspath(path), error) from None
    readable = [frame for frame in records if frame.reason is None]
    if not readable:
        reason = records[0].reason if records else "it is empty"
        raise FormatError(f"Nothing in {path} can be read: {reason}.", "Check the file.")
    return readable


class _Member(NamedTuple):
    """A file found in a folder: its path, and its path inside the folder."""

    path: str
    name: str


def _opened(
    plan: list[_Conversations | _Member], format: str | None, all_branches: bool
) -> Iterator[Input]:
    for entry in plan:
        yield _found(entry, format, all_branches) if isinstance(entry, _Member) else entry


def _files_in(folder: str) -> list[str]:
    found = [
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if _suffix(name) in SUFFIXES
    ]
    if not found:
        raise FormatError(
            f"The folder {folder} holds no conversations.",
            f"Files ending in {', '.join(SUFFIXES)} are read, each also with .gz.",
        )
    return sorted(found)


def _suffix(name: str) -> str:
    return Path(name.lower().removesuffix(".gz")).suffix


def _stem(name: str) -> str:
    base = name[:-3] if name.lower().endswith(".gz") else name
    return base[: -len(_suffix(base))] if _suffix(base) in SUFFIXES else base


def _named(path: str, format: str | None, all_branches: bool) -> _Conversations:
    try:
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode):
            return _file(path, Path(path).name, format, all_branches)
        return _stream(path, open(path, "rb"), format, all_branches)
    except FileNotFoundError:
        raise FormatError(f"There is no file or folder {path}.", "Check the path.") from None
    except OSError as error:
        raise _cannot_open(path, error) from None


def _cannot_open(path: str, error: OSError) -> FormatError:
    return FormatError(
        f"{path} cannot be opened: {error.strerror or error}.",
        "Check that you may read it.",
    )


def _file(path: str, name: str, format: str | None, all_branches: bool) -> _Conversations:
    with open(path, "rb") as file:
        reader, framing, detection = examine(Source(file), path, _suffix(path), format)
    size = os.path.getsize(path)
    return _Conversations(
        path,
        _stem(name),
        size,
        detection,
        reader,
        framing,
        lambda: Source(open(path, "rb")),
        all_branches,
    )


def _stream(label: str, stream: BinaryIO, format: str | None, all_branches: bool) -> _Conversations:
    source = Source(stream)
    reader, framing, detection = examine(source, label, "", format)
    name = "stdin" if label == STANDARD_INPUT else _stem(Path(label).name)
    return _Conversations(
        label, name, None, detection, reader, framing, lambda: source, all_branches
    )


def _found(file: _Member, format: str | None, all_branches: bool) -> Input:
    """Opens a file of a folder; if it cannot be read as conversations, the input has one rejected record."""
    try:
        return _file(file.path, Path(file.name).as_posix(), format, all_branches)
    except FormatError as error:
        return _Unreadable(file.path, error.message)
    except OSError as error:
        return _Unreadable(file.path, _cannot_open(file.path, error).message)


class _Conversations:
    """One input with a known format. A stream can be read once, a file any number of times."""

    def __init__(
        self,
        label: str,
        name: str,
        size: int | None,
        detection: Detection,
        reader: Reader,
        framing: Framing,
        opened: Callable[[], Source],
        all_branches: bool,
    ) -> None:
        self._label = label
        self._size = size
        self._detection = detection
        self._reader = reader
        self._framing = framing
        self._opened = opened
        self._all_branches = all_branches
        self._source: Source | None = None
        self._name = name.encode("utf-8", "replace").decode("utf-8")

    @property
    def label(self) -> str:
        return self._label

    @property
    def size(self) -> int | None:
        return self._size

    @property
    def detection(self) -> Detection:
        return self._detection

    def position(self) -> int:
        return self._source.position if self._source else 0

    def records(self) -> Iterator[Parsed | Rejected]:
        try:
            self._source = self._opened()
        except OSError as error:
            yield Rejected(None, b"", _cannot_open(self._label, error).message)
            return
        ids = _Ids()
        try:
            for frame in frames(self._source, self._framing, self._reader, self._all_branches):
                if frame.reason is not None:
                    yield Rejected(frame.line, frame.raw, frame.reason)
                else:
                    yield self._record(frame, ids)
        finally:
            if self._size is not None:
                self._source.close()

    def _record(self, frame: Frame, ids: _Ids) -> Parsed | Rejected:
        fallback = self._name if frame.line is None else f"{self._name}-{frame.line}"
        found = parse(self._reader, frame, fallback)
        if isinstance(found, Rejected):
            return found
        free = ids.free(found.conversation.external_id)
        if free == found.conversation.external_id:
            return found
        return replace(found, conversation=replace(found.conversation, external_id=free))


class _Ids:
    """The ids of an input so far. Stores hashes, because there may be millions."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def free(self, wanted: str) -> str:
        """Returns the id, with `#2`, `#3`, ... if it was used before, and records it."""
        name, number = wanted, 1
        while hash(name) in self._taken:
            number += 1
            name = f"{wanted}#{number}"
        self._taken.add(hash(name))
        return name


class _Unreadable:
    """An input for a file of a folder that fits no format: one rejected record with the reason."""

    def __init__(self, path: str, reason: str) -> None:
        self._path = path
        self._reason = reason

    @property
    def label(self) -> str:
        return self._path

    @property
    def size(self) -> int | None:
        return os.path.getsize(self._path) if os.path.exists(self._path) else None

    @property
    def detection(self) -> Detection:
        return Detection(UNKNOWN, self._reason)

    def position(self) -> int:
        return self.size or 0

    def records(self) -> Iterator[Parsed | Rejected]:
        try:
            with open(self._path, "rb") as file:
                beginning = file.read(KEPT_OF_OVERSIZED)
        except OSError:
            beginning = b""
        yield Rejected(None, beginning, self._reason)
