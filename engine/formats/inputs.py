"""Opens files, folders, archives and standard input; each file with records in it is one `Input`."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from engine.errors import FormatError
from engine.formats.containers import Content, contents
from engine.formats.detect import Records, sample_of
from engine.formats.framing import KEPT_OF_OVERSIZED, Frame
from engine.formats.readers import reader_named
from engine.formats.single import parse
from engine.records.imports import Detection, Input, Parsed, Rejected

STANDARD_INPUT = "standard input"
UNKNOWN = "unknown"
SKIPPED = "skipped"

_PROSE = frozenset((".txt", ".md", ".log"))
"""Endings of texts of any kind; in a folder, one that has no turns is no log."""

LOG_SUFFIXES = _PROSE.union(
    (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".db", ".sqlite", ".sqlite3"),
    (".vtt", ".traj", ".eval", ".zip", ".tar", ".tgz"),
)
"""Endings of the files of a folder that are looked into; a file that is named is looked into whatever its name."""

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_MOST_NAMED = 3


def open_inputs(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    stdin: BinaryIO | None = None,
    all_branches: bool = False,
) -> Iterator[Input]:
    """Opens files, folders and `-` (standard input) in the given order; the files of a folder are sorted.

    A file that is named in `paths` and fits no format is an error. One found in a folder or an archive becomes an input
    of the format `unknown` with one rejected record, so that the others are still imported. Conversations without an id
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
    opener = _Opener(format, all_branches)
    plan: list[Iterator[Input] | list[Input]] = []
    for given in paths:
        path = os.fspath(given)
        if path == "-":
            plan.append([opener.stream(STANDARD_INPUT, "stdin", stdin or sys.stdin.buffer)])
        elif os.path.isdir(path):
            plan.append(opener.folder(path))
        else:
            plan.append(opener.named(path))
    return (opened for inputs in plan for opened in inputs)


def sample_records(path: str | os.PathLike[str]) -> list[Frame]:
    """Returns the first records of a file of any format, at least one; of an archive, those of its first file.

    Raises:
        FormatError: It cannot be opened, or nothing in it can be read.
    """
    try:
        first = contents(os.fspath(path), _stem(Path(path).name))[0]
        records = sample_of(first, _suffix(first.label))
    except OSError as error:
        raise _cannot_open(os.fspath(path), error) from None
    readable = [frame for frame in records if frame.reason is None]
    if not readable:
        reason = records[0].reason if records else "it is empty"
        raise FormatError(f"Nothing in {path} can be read: {reason}.", "Check the file.")
    return readable


class _Opener:
    """Opens paths with the options of one call of `open_inputs`."""

    def __init__(self, format: str | None, all_branches: bool) -> None:
        self._format = format
        self._all_branches = all_branches

    def named(self, path: str) -> list[Input]:
        """Opens a file that the person named; of an archive or a database all that is in it."""
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                return [self.stream(path, _stem(Path(path).name), open(path, "rb"))]
            found = contents(path, _stem(Path(path).name))
            if len(found) == 1:
                return [self._opened(found[0])]
        except FileNotFoundError:
            raise FormatError(f"There is no file or folder {path}.", "Check the path.") from None
        except OSError as error:
            raise _cannot_open(path, error) from None
        opened = self._all_opened(found)
        if all(isinstance(one, _Unreadable) for one in opened):
            raise FormatError(
                f"Nothing in {path} holds conversations in a known format."
                f" {opened[0].detection.why}",
                "Say where the messages are with `workbench import --map`.",
            )
        return opened

    def stream(self, label: str, name: str, stream: BinaryIO) -> Input:
        """Opens a stream, which can be read once."""
        return self._opened(Content(label, name, None, stream=lambda: stream, once=True))

    def folder(self, folder: str) -> Iterator[Input]:
        """Opens the files of a folder one after the other; at last, those that were passed over are named.

        Raises:
            FormatError: At the call: there is no file that may be a log.
        """
        wanted, others = logs_in(folder)
        if not wanted:
            raise FormatError(
                f"The folder {folder} holds no conversations.",
                f"Files ending in {', '.join(sorted(LOG_SUFFIXES))} are read, also compressed.",
            )
        return self._files(folder, wanted, others)

    def _files(self, folder: str, wanted: list[str], others: list[str]) -> Iterator[Input]:
        for path in wanted:
            name = _stem(Path(os.path.relpath(path, folder)).as_posix())
            try:
                found = self._all_opened(contents(path, name))
            except (FormatError, OSError) as error:
                found = [_Unreadable(Content(path, name, None), _reason(path, error))]
            if _suffix(path) in _PROSE and isinstance(found[0], _Unreadable):
                others.append(path)
            else:
                yield from found
        if others:
            yield _PassedOver(folder, others)

    def _all_opened(self, found: list[Content]) -> list[Input]:
        """Opens contents; one that fits no format becomes an input with a rejected record. Of the tables of a database
        that fit none, only the names are told, since they are not what a person meant."""
        opened: list[Input] = []
        passed: list[str] = []
        for content in found:
            try:
                opened.append(self._opened(content))
            except (FormatError, OSError) as error:
                if content.rows is not None and len(found) > 1:
                    passed.append(content.label)
                else:
                    opened.append(_Unreadable(content, _reason(content.label, error)))
        if not opened:
            reason = f"None of its {len(passed)} tables holds conversations in a known format."
            return [_Unreadable(found[0], reason)]
        if passed:
            opened.append(_PassedOver(found[0].label.split(": ")[0], passed))
        return opened

    def _opened(self, content: Content) -> Input:
        suffix = _suffix(content.label)
        return _Conversations(content, Records(content, suffix, self._format, self._all_branches))


def logs_in(folder: str) -> tuple[list[str], list[str]]:
    """The files of a folder and of the folders in it, sorted: those that may be logs by their names, and the others."""
    files = sorted(
        os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names
    )
    logs = [file for file in files if _suffix(file) in LOG_SUFFIXES and not _is_hidden(file)]
    return logs, sorted(set(files).difference(logs))


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")


def _suffix(name: str) -> str:
    lower = name.lower()
    for ending in _COMPRESSED:
        lower = lower.removesuffix(ending)
    return Path(lower).suffix


def _stem(name: str) -> str:
    """A file's name without its endings."""
    base = name
    for ending in _COMPRESSED:
        base = base[: -len(ending)] if base.lower().endswith(ending) else base
    return base[: -len(_suffix(base))] if _suffix(base) in LOG_SUFFIXES else base


def _reason(path: str, error: FormatError | OSError) -> str:
    return error.message if isinstance(error, FormatError) else _cannot_open(path, error).message


def _cannot_open(path: str, error: OSError) -> FormatError:
    return FormatError(
        f"{path} cannot be opened: {error.strerror or error}.",
        "Check that you may read it.",
    )


class _Conversations:
    """One input with a known format. A stream can be read once, a file any number of times."""

    def __init__(self, content: Content, records: Records) -> None:
        self._content = content
        self._records = records
        self._name = content.name.encode("utf-8", "replace").decode("utf-8")

    @property
    def label(self) -> str:
        return self._content.label

    @property
    def size(self) -> int | None:
        return self._content.size

    @property
    def detection(self) -> Detection:
        return self._records.detection

    def position(self) -> int:
        return self._records.position

    def records(self) -> Iterator[Parsed | Rejected]:
        ids = _Ids()
        try:
            for frame in self._records.frames():
                if frame.reason is not None:
                    yield Rejected(frame.line, frame.raw, frame.reason)
                else:
                    yield self._record(frame, ids)
        except OSError as error:
            yield Rejected(None, b"", _cannot_open(self.label, error).message)
        finally:
            if not self._content.once:
                self._records.close()

    def _record(self, frame: Frame, ids: _Ids) -> Parsed | Rejected:
        fallback = self._name if frame.line is None else f"{self._name}-{frame.line}"
        found = parse(self._records.reader, frame, fallback)
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
    """An input for something in a folder or an archive that fits no format: one rejected record with the reason."""

    def __init__(self, content: Content, reason: str) -> None:
        self._content = content
        self._reason = reason

    @property
    def label(self) -> str:
        return self._content.label

    @property
    def size(self) -> int | None:
        return self._content.size

    @property
    def detection(self) -> Detection:
        return Detection(UNKNOWN, self._reason)

    def position(self) -> int:
        return self.size or 0

    def records(self) -> Iterator[Parsed | Rejected]:
        beginning = b""
        try:
            if self._content.stream is not None:
                with self._content.stream() as stream:
                    beginning = stream.read(KEPT_OF_OVERSIZED)
        except OSError:
            pass
        yield Rejected(None, beginning, self._reason)


class _PassedOver:
    """An input without records, which names the files of a folder, or the tables of a database, that were not read."""

    def __init__(self, label: str, names: list[str]) -> None:
        self._label = label
        self._names = names

    @property
    def label(self) -> str:
        return self._label

    @property
    def size(self) -> int | None:
        return 0

    @property
    def detection(self) -> Detection:
        some = ", ".join(os.path.basename(name) for name in self._names[:_MOST_NAMED])
        endings = Counter(_suffix(name) or "no ending" for name in self._names)
        more = len(self._names) - _MOST_NAMED
        about = f"{len(self._names):,} were passed over, as they are no logs by their names or columns: {some}"
        if more > 0:
            about += (
                f" and {more:,} more ({', '.join(ending for ending, _ in endings.most_common(5))})"
            )
        return Detection(SKIPPED, about)

    def position(self) -> int:
        return 0

    def records(self) -> Iterator[Parsed | Rejected]:
        return iter(())
