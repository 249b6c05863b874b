"""Opens files, folders, archives and standard input; each file with records in it is one `Input`."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

from engine.base.errors import FormatError, TooMuch, UnknownFormat
from engine.formats.detect import Join, Records, all_records, sample_of
from engine.formats.file_names import LOG_SUFFIXES, logs_in, stem, suffix
from engine.formats.input_kinds import (
    Batches,
    ConversationFile,
    JoinCandidate,
    SkippedFiles,
    UnreadableFile,
    is_answer,
    is_request,
)
from engine.formats.json_values import FAULTS, reason_of_fault
from engine.formats.opening.agent_stores import SessionFolder
from engine.formats.opening.containers import Content, cannot_open, contents
from engine.formats.opening.framing import Frame
from engine.formats.opening.source import Bounds, Expansion, Reading
from engine.formats.records import Input
from engine.formats.registry import reader_named

STANDARD_INPUT = "standard input"
"""Label of what is read from the standard input."""


def open_inputs(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    stdin: BinaryIO | None = None,
    together: Sequence[str] = (),
    without: Collection[str] = (),
    bounds: Bounds | None = None,
) -> Iterator[Input]:
    """Opens files, folders and `-` (standard input) in the given order; the files of a folder are sorted.

    A file that is named in `paths` and fits no format is an error. One found in a folder or an archive becomes an input
    of the format `unknown` with one rejected record, so that the others are still imported. Conversations without an id
    are named after their file with its path inside the folder, because several folders may have a `1.json`.

    Args:
        format: Name of a format; None to detect it for each input.
        stdin: Stream to read for `-`; None: the standard input of the process.
        together: All paths of an import of which `paths` are some; parts of their conversations may lie in the others.
        without: Files of folders that are not opened.
        bounds: What limits and stops reading; None for the usual limits.

    Raises:
        Cancelled: `bounds` says so, also while the records are read.
        NotFound: At the call: there is no such format.
        FormatError: At the call: a path does not exist, a folder has no conversations, or a named file cannot
            be opened or fits no format.
    """
    if format is not None:
        reader_named(format)
    all_paths = [os.fspath(path) for path in (*paths, *together)]
    opener = _Opener(format, all_paths, without, bounds or Bounds())
    plan: list[Iterator[Input] | list[Input]] = []
    for given_path in paths:
        path = os.fspath(given_path)
        if path == "-":
            plan.append([opener.open_stream(STANDARD_INPUT, "stdin", stdin or sys.stdin.buffer)])
        elif os.path.isdir(path):
            plan.append(opener.open_folder(path))
        else:
            plan.append(opener.open_named(path))
    return (opened for inputs in plan for opened in inputs)


def sample_records(path: str | os.PathLike[str]) -> list[Frame]:
    """Returns the first records of a file of any format, at least one; of an archive, those of its first file.

    Raises:
        FormatError: It cannot be opened, or nothing in it can be read.
    """
    try:
        file_contents = contents(os.fspath(path), stem(Path(path).name))
        readable = [content for content in file_contents if content.error is None]
        first = next((content for content in readable if content.kind != "other"), None)
        if first is None:
            raise next(content.error for content in file_contents if content.error is not None)
        records = sample_of(first, suffix(first.label))
    except OSError as error:
        raise cannot_open(os.fspath(path), error) from None
    sample = [frame for frame in records if frame.reason is None]
    if not sample:
        reason = records[0].reason if records else "it is empty"
        raise FormatError(f"Nothing in {path} can be read: {reason}.", "Check the file.")
    return sample


class _Opener:
    """Opens paths with the options of one call of `open_inputs`."""

    def __init__(
        self,
        format: str | None,
        all_paths: Sequence[str],
        without: Collection[str],
        bounds: Bounds,
    ) -> None:
        """Opens nothing yet.

        Args:
            all_paths: All paths that are imported, whose files may belong together.
            without: Files of folders that are not opened.
        """
        self._without = without
        self._bounds = bounds
        self._format = format
        self._all_paths = all_paths
        self._batches: dict[str, Batches] = {}

    def open_named(self, path: str) -> list[Input]:
        """Opens a file that the person named; of an archive or a database all that is in it.

        Raises:
            UnknownFormat: Nothing in the file is in a known format.
            FormatError: There is no such file, or it cannot be read.
        """
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                return [self.open_stream(path, stem(Path(path).name), open(path, "rb"))]
            file_contents = contents(path, stem(Path(path).name), self._bounds)
            if len(file_contents) == 1:
                return [self._open_content(file_contents[0])]
        except FileNotFoundError:
            raise FormatError(f"There is no file or folder {path}.", "Check the path.") from None
        except OSError as error:
            raise cannot_open(path, error) from None
        opened = self._open_contents(path, file_contents)
        if not any(isinstance(source, ConversationFile) for source in opened):
            raise UnknownFormat(
                f"Nothing in {path} holds conversations in a known format."
                f" {opened[0].detection.why}",
                path,
            )
        return opened

    def open_stream(self, label: str, name: str, stream: BinaryIO) -> Input:
        """Opens a stream, which can be read once."""
        expansion = Expansion(None, self._bounds)
        return self._open_content(
            Content(label, name, None, stream=lambda: stream, read_once=True, expansion=expansion)
        )

    def open_folder(self, folder: str) -> Iterator[Input]:
        """Opens the files of a folder one after the other; at last, those that were passed over are named.

        Raises:
            FormatError: At the call: there is no file that may be a log.
        """
        logs, others = logs_in(folder)
        logs = [path for path in logs if path not in self._without]
        if not logs:
            raise FormatError(
                f"The folder {folder} holds no conversations.",
                f"Logs end in {', '.join(sorted(LOG_SUFFIXES))} or are text, also compressed or in archives.",
            )
        return self._open_files(folder, logs, others)

    def _open_files(self, folder: str, logs: list[str], others: list[str]) -> Iterator[Input]:
        """Yields the inputs of a folder, and at last one that names the skipped files."""
        skipped: list[str] = []
        skipped_size = 0
        store = SessionFolder(logs)
        if store.files:
            size_of_pieces = sum(map(os.path.getsize, store.files))
            yield self._stored_sessions(folder, size_of_pieces, store, store.files)
        pieces = set(store.files)
        for path in [path for path in logs if path not in pieces]:
            name = stem(Path(os.path.relpath(path, folder)).as_posix())
            try:
                inputs = self._open_contents(path, contents(path, name, self._bounds))
            except (FormatError, OSError) as error:
                inputs = [self._refused_input(Content(path, name, None), error)]
            for opened in inputs:
                if isinstance(opened, SkippedFiles):
                    skipped += opened.names
                    skipped_size += opened.size or 0
                else:
                    yield opened
        if skipped or others:
            yield SkippedFiles(folder, [*skipped, *others], skipped_size)

    def _stored_sessions(
        self, label: str, size: int, store: SessionFolder, companion_files: list[str]
    ) -> Input:
        """Returns the input of the sessions that lie in pieces in a folder or an archive."""
        expansion = Expansion(size, self._bounds)

        def rows() -> Iterator[Frame]:
            """Yields the sessions, and counts them anew."""
            return store.rows(Reading(expansion, label, size))

        content = Content(label, stem(Path(label).name), size, rows=rows, expansion=expansion)
        try:
            records = Records(content, "", self._format)
        except FormatError as error:
            return self._refused_input(content, error)
        chosen = self._format is not None
        return ConversationFile(content, records, chosen=chosen, companion_files=companion_files)

    def _open_contents(self, path: str, file_contents: list[Content]) -> list[Input]:
        """Opens what is in a file. What fits no format becomes an input with a rejected record; of files that need not
        be logs, and of the other tables of a database, only the names are in an input (`SkippedFiles`)."""
        opened: list[Input] = []
        skipped: list[str] = []
        skipped_size = 0
        streams = {content.name: content.stream for content in file_contents if content.stream}
        store = SessionFolder(list(streams), streams)
        if store.files:
            pieces = [content for content in file_contents if content.name in store.files]
            opened.append(
                self._stored_sessions(path, sum(piece.size or 0 for piece in pieces), store, [])
            )
            file_contents = [content for content in file_contents if content not in pieces]
        for content in file_contents:
            if content.kind == "other":
                skipped.append(content.label)
                skipped_size += content.size or 0
                continue
            try:
                opened.append(self._open_content(content, file_contents))
            except (FormatError, OSError) as error:
                refused = self._refused_input(content, error)
                if isinstance(refused, SkippedFiles):
                    skipped += refused.names
                    skipped_size += refused.size or 0
                else:
                    opened.append(refused)
        return [*opened, SkippedFiles(path, skipped, skipped_size)] if skipped else opened

    def _refused_input(
        self, content: Content, error: FormatError | OSError
    ) -> UnreadableFile | SkippedFiles:
        """Returns the input for a content that fits no format: skipped if it need not be a log, else unreadable."""
        need_not_be_log = content.kind == "table" or (
            content.error is None and suffix(content.label) not in LOG_SUFFIXES
        )
        if need_not_be_log and not isinstance(error, TooMuch):
            return SkippedFiles(content.label, [content.label], content.size or 0)
        if isinstance(error, OSError):
            error = cannot_open(content.label, error)
        return UnreadableFile(content, error.message)

    def _open_content(self, content: Content, file_contents: Sequence[Content] = ()) -> Input:
        """Returns the input of a content, with what joins it with other files."""
        if content.error is not None:
            raise content.error
        try:
            records = Records(content, suffix(content.label), self._format)
        except FAULTS as fault:
            message = f"{content.label} cannot be read: {reason_of_fault(fault)}."
            raise FormatError(message, "Choose its format, or leave it out.") from fault
        join: Join | None = None
        files: Sequence[str] = ()
        note = ""
        if is_answer(records.first) or is_request(records.first):
            batches = self._batches_with(content, file_contents)
            join, files, note = batches.join, batches.files, batches.note(records.first)
        chosen = self._format is not None
        return ConversationFile(
            content, records, chosen=chosen, join=join, companion_files=files, note=note
        )

    @cached_property
    def _imported_files(self) -> list[str]:
        """The paths of all files that are imported, those of folders included, each once."""
        files: list[str] = []
        for path in self._all_paths:
            files += logs_in(path)[0] if os.path.isdir(path) else [path]
        return list(dict.fromkeys(files))

    def _batches_with(self, content: Content, file_contents: Sequence[Content]) -> Batches:
        """Returns the requests and answers in the archive of a content, or in the files that are imported."""
        folder = os.path.dirname(content.label)
        if folder not in self._batches:
            if len(file_contents) > 1:
                files = _join_candidates(file_contents)
            else:
                paths = [
                    path for path in self._imported_files if suffix(path) in (".jsonl", ".ndjson")
                ]
                files = [self._join_candidate(path) for path in paths]
            self._batches[folder] = Batches(files, folder)
        return self._batches[folder]

    def _join_candidate(self, path: str) -> JoinCandidate:
        """Returns a file that may have requests or answers of a batch; of an archive nothing is read."""

        def frames() -> Iterator[Frame]:
            """Yields the records of the file; none if it is no file."""
            if not os.path.isfile(path):
                return
            for content in contents(path, stem(Path(path).name), self._bounds):
                if content.label == path and content.kind == "log" and content.error is None:
                    yield from all_records(content, suffix(path))

        return JoinCandidate(path, frames)


def _join_candidates(file_contents: Sequence[Content]) -> list[JoinCandidate]:
    """Returns what is in an archive, as files that may have requests or answers of a batch."""
    return [
        JoinCandidate(content.label, partial(all_records, content, suffix(content.label)))
        for content in file_contents
        if content.kind == "log" and content.error is None
    ]


@dataclass(frozen=True, slots=True)
class Tail:
    """Whole lines at the end of something that grows. Each is a conversation so far: a later one of the same id goes on
    with it.

    Attributes:
        label: Path, or `standard input`.
        name: After which conversations without an id are named; endings of logs are taken off.
        lines: The whole lines, as bytes.
        before: Number of lines before them.
        format: Name of the format.
        chosen: Whether the person chose the format.
    """

    label: str
    name: str
    lines: bytes
    before: int
    format: str
    chosen: bool


def format_of_lines(label: str, lines: bytes, format: str | None = None) -> str | None:
    """Returns the format of lines of which each is a conversation; None if they fit no format, or if conversations are
    made of several of its lines or files.

    Args:
        lines: The first lines of the input.
        format: The format that the person chose, which is the answer if its records are conversations.

    Raises:
        NotFound: There is no such format.
    """
    content = _content_of_lines(label, label, lines, Bounds())
    if format is not None:
        reader_named(format)
    try:
        records = Records(content, suffix(label), format, are_lines=True)
    except FormatError:
        return None
    reader, first = records.reader, records.first
    if reader.arrange is not None:
        return None
    return None if is_answer(first) or is_request(first) else reader.name


def open_tail(tail: Tail, bounds: Bounds) -> Input:
    """Opens lines at the end of something that grows."""
    content = _content_of_lines(tail.label, tail.name, tail.lines, bounds)
    records = Records(content, suffix(tail.label), tail.format, are_lines=True)
    return ConversationFile(
        content, records, chosen=tail.chosen, line_offset=tail.before, keeps_ids=True
    )


def _content_of_lines(label: str, name: str, lines: bytes, bounds: Bounds) -> Content:
    """Returns lines as a content, under the name without the endings of logs."""
    size = len(lines)
    expansion = Expansion(size, bounds)
    name = stem(Path(name).as_posix())
    return Content(label, name, size, stream=lambda: io.BytesIO(lines), expansion=expansion)
