"""The stages that import conversations from files, and that look for their languages and for personal data.

An import is resumed by importing again: stored conversations are recognized by a hash of their messages, so a second
import of the same files changes nothing. A file that was read to its end and did not change since is not parsed again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from engine import formats
from engine.base import folders
from engine.base.conversation import without_surrogates
from engine.base.errors import Cancelled, FormatError
from engine.base.number_format import counted
from engine.conversations.records import CheckCounts
from engine.conversations.shared_text import NOTHING_SHARED, ROLES, SharedText
from engine.conversations.tables import facets, imports, shared_text
from engine.conversations.text_checks import LANGUAGE_SAMPLE_CHARACTERS, Kind, kinds, language
from engine.formats.file_names import folder_in_words, logs_in
from engine.formats.input_kinds import SKIPPED
from engine.formats.inputs import Tail, open_inputs, open_tail
from engine.formats.opening.source import Bounds
from engine.formats.records import MOST_LOST, Input, Parsed, Rejected, SourceReport
from engine.formats.registry import mapping_folder
from engine.jobs.contract import CpuStage, Progress, Stage
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import id_pages

_WAL_SUFFIX = "-wal"
"""Ending of the file in which SQLite has what is not in the database file yet."""

STDIN = "-"
"""Path that stands for the standard input."""

BATCH_RECORDS = 500
"""Most records of one transaction."""

BATCH_BYTES = 4 << 20
"""Number of bytes of records at which a transaction ends."""

BATCH_SECONDS = 0.25
"""Seconds of reading at which a transaction ends."""

CHECK_BATCH_CONVERSATIONS = 200
"""Conversations of one transaction of `CheckStage`."""


def digest_of(label: str, settings: str, companion_files: Sequence[str] = ()) -> bytes | None:
    """Returns the SHA-256 over the files of a source and over all that determines how it is read; None if it is no
    file on disk.

    Args:
        label: Of the source: the path, and what is in an archive or a database after `: `.
        settings: The settings of the import.
        companion_files: Labels of other files from which its conversations have a part.
    """
    path = label
    while not os.path.exists(path) and ": " in path:
        path = path.rpartition(": ")[0]
    if not os.path.isfile(path):
        return None
    digest = hashlib.sha256(
        f"{settings}\n{_reader_fingerprint()}\n".encode("utf-8", "surrogateescape")
    )
    for part in (path, path + _WAL_SUFFIX, *companion_files):
        if os.path.isfile(part):
            with open(part, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()


def _reader_fingerprint() -> str:
    """Returns a text that changes when records are read otherwise: by another program, or by other mappings."""
    own_mappings = [
        (file.name, file.stat().st_mtime_ns) for file in sorted(mapping_folder().glob("*.toml"))
    ]
    return repr((own_mappings, _program_fingerprint()))


@cache
def _program_fingerprint() -> tuple[object, ...]:
    """Returns the version of the program, and the files of its own formats."""
    return folders.version(), tuple(_program_files())


def _program_files() -> Iterator[tuple[str, int]]:
    """Yields name and time of change, in nanoseconds, of each file of the formats."""
    for folder in formats.__path__:
        for file in sorted(Path(folder).rglob("*")):
            if file.suffix in (".py", ".toml"):
                yield file.name, file.stat().st_mtime_ns


class ImportStage(Stage):
    """Imports paths in the order given; `-` is `stdin`.

    A record that is not a conversation goes to the quarantine. An input that cannot be opened is named in the summary;
    the run fails only if no input could be opened.

    The attributes below are counted while it runs.

    Attributes:
        read: Number of records read so far: new + grew + changed + duplicate + unchanged + quarantined.
        new: Number of conversations that were not stored before.
        duplicate: Number of records with the messages of another one.
        unchanged: Number of records that were stored before: "already here".
        grew: Number of conversations that came with further messages; the text before is an earlier state of them.
        changed: Number of conversations of an id that its source had before, with other messages.
        judged: Number of conversations that had a verdict on the text that was replaced.
        quarantined: Number of records that could not be read, including those that were in the quarantine already.
        leaks: Number of marks of the end that are hidden from the model.
        sources: What was read from each input so far, in order.
        refused: Why inputs were not opened.
    """

    name = "import"

    def __init__(
        self,
        project: Project,
        paths: Sequence[str],
        *,
        format: str | None = None,
        stdin: BinaryIO | None = None,
        replace: bool = False,
        tails: Sequence[Tail] = (),
        without: Collection[str] = (),
        only_forward: bool = False,
        most_unpacked: int | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            project: The project to import into.
            paths: Files and folders to read; `-` for the standard input.
            format: Name of the format; None to detect it for each input.
            stdin: The standard input; needed where `paths` names it.
            replace: Conversations that changed take the place of the stored ones; otherwise both are kept.
            tails: Lines at the end of what was read before, which are read after the paths.
            without: Files of folders that are not read.
            only_forward: An earlier text of a conversation is passed over, for logs that grow and are read again.
            most_unpacked: Number of bytes to which any file may unpack; None for the usual limit.
        """
        self._project = project
        self._most_unpacked = most_unpacked
        self._paths = tuple(paths)
        self._tails = tuple(tails)
        self._without = without
        self._format = format
        self._stdin = stdin
        self._replace = replace
        self._only_forward = only_forward
        self._interrupted = threading.Event()
        self._bounds = _unpacking_bounds(most_unpacked, self._interrupted)
        self._total = _total_bytes(self._paths, self._tails)
        self._first_contents = folder_in_words(self._paths[0]) if self._paths else ""
        self._bytes_before = 0  # of the inputs that were read to their end
        self._opened_count = 0
        self.refused: list[FormatError] = []
        self._shared = NOTHING_SHARED
        self._source_ids: set[int] = set()
        self.read = 0
        self.new = 0
        self.grew = 0
        self.changed = 0
        self.judged = 0
        self.duplicate = 0
        self.unchanged = 0
        self.quarantined = 0
        self.leaks = 0
        self.sources: list[SourceReport] = []

    @property
    def title(self) -> str:
        """The name of the run on screens and in progress lines, with what the first folder or archive has."""
        labels = self._labels
        first = os.path.basename(labels[0].rstrip("/")) if labels[0] != STDIN else "stdin"
        more = len(labels) - 1
        about = f" ({self._first_contents})" if self._first_contents else ""
        return f"Importing {first}{about}" + (f" and {more} more" if more else "")

    @property
    def _labels(self) -> list[str]:
        """Labels of all inputs, as the person named them."""
        return [*self._paths, *(tail.label for tail in self._tails)]

    @property
    def unit(self) -> str:
        """`bytes` on disk, or `records` if the size is unknown."""
        return "records" if self._total is None else "bytes"

    @property
    def params(self) -> Mapping[str, Any]:
        """What was asked for: paths, format, whether texts are replaced, and the limit to which files may unpack, if it
        is another than the usual one."""
        parameters: dict[str, Any] = {
            "paths": self._labels,
            "format": self._format,
            "replace": self._replace,
        }
        if self._most_unpacked is not None:
            parameters["most_unpacked"] = self._most_unpacked
        return parameters

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """Size of the inputs, and versions of the software that read them."""
        return {
            "bytes": self._total,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Imports batch by batch; each is one transaction, with the run's counter.

        Raises:
            FormatError: No input could be opened.
            Cancelled: `interrupt` was called.
        """
        for path in self._paths:
            try:
                opened = open_inputs(
                    [path],
                    format=self._format,
                    stdin=self._stdin,
                    together=[other for other in self._paths if other != STDIN],
                    without=self._without,
                    bounds=self._bounds,
                )
                for source in opened:
                    yield from self._import(source, run_id)
            except FormatError as error:
                self.refused.append(error)
        for tail in self._tails:
            yield from self._import(open_tail(tail, self._bounds), run_id, whole=False)
        if self.refused and not self._opened_count:
            raise self.refused[0]
        yield from self._find_shared_text()

    def interrupt(self) -> None:
        """Stops before the next record; the current batch is dropped."""
        self._interrupted.set()

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = (
            f"Read {self.read:,}: {self.new:,} new, {self.grew:,} grew, {self.changed:,} changed,"
            f" {self.unchanged:,} already here, {self.duplicate:,} duplicate,"
            f" {self.quarantined:,} quarantined"
        )
        if self.changed and self._replace:
            text += "; changed ones replaced the stored ones, whose texts are kept"
        elif self.changed:
            text += "; changed ones are kept beside the stored ones (--replace replaces them)"
        if self.judged:
            text += f"; {self.judged:,} had a verdict on the earlier text"
        if self.sources:
            formats = sorted({source.detection.format for source in self.sources} - {SKIPPED})
            text += f"; format {', '.join(formats)}"
        if self._shared:
            texts = counted(len(self._shared.shown), "text")
            text += f"; {texts} that many share left out of lists and goals"
        if self.leaks:
            text += f"; {counted(self.leaks, 'mark')} of the end hidden from the model"
        for source in self.sources:
            if source.account.lies_aside:
                text += f"; most sentences of {source.label} are in no message"
            if source.account.share("nowhere") > MOST_LOST:
                lost = source.account.share("nowhere")
                text += f"; {lost:.1%} of the text of {source.label} was not read"
        for error in self.refused:
            text += f"; not read: {error.message.rstrip('.')}"
        return text + "."

    def _import(self, source: Input, run_id: int, *, whole: bool = True) -> Iterator[Progress]:
        """Imports one input batch by batch; one that did not change since it was read is passed over."""
        detection = source.detection
        self._opened_count += 1
        label = without_surrogates(source.label)
        report = SourceReport(label, detection)
        self.sources.append(report)
        source_id = self._project.write(
            lambda conn: imports.put_source(
                conn, _absolute_path_or_label(source.label), label, detection.format, detection.why
            )
        )
        self._source_ids.add(source_id)
        with self._project.reading() as conn:
            companions = [_absolute_path_or_label(path) for path in source.companion_files]
            companion_ids = imports.source_ids(conn, companions)
        settings = repr(self._settings)
        digest = digest_of(source.label, settings, source.companion_files) if whole else None
        if digest is not None:
            with self._project.reading() as conn:
                before = imports.report_if_unchanged(conn, source_id, digest)
            if before is not None:
                yield self._pass_over(source, run_id, SourceReport.from_json(before))
                return
        broke_off = False
        for batch in self._batches(source):
            for record in batch:
                report.count(record)
                # Formats end with such a record where the input breaks off: it stands for no line.
                broke_off |= record.line is None and not record.raw
            yield self._commit(source, source_id, companion_ids, run_id, batch)
        self._bytes_before += source.size or 0
        if digest is not None and not broke_off:
            text = report.to_json()
            self._project.write(lambda conn: imports.put_report(conn, source_id, digest, text))

    @property
    def _settings(self) -> tuple[str | None, bool, int]:
        """The settings on which it depends what is read of a file."""
        return self._format, self._replace, self._bounds.unpacked

    def _pass_over(self, source: Input, run_id: int, report: SourceReport) -> Progress:
        """Counts a source that did not change since it was read to its end."""
        report.label = self.sources[-1].label
        self.sources[-1] = report
        self._bytes_before += source.size or 0
        self.read += report.conversations + report.rejected
        self.unchanged += report.conversations
        self.quarantined += report.rejected
        done = self._done
        self._project.write(lambda conn: runs.count(conn, run_id, done, self._total))
        return Progress(done, self._total, f"{self.read:,} records")

    def _find_shared_text(self) -> Iterator[Progress]:
        """Looks for text that many conversations share, which depends on all of them; if another is found than before,
        takes the openings of all of them anew."""
        with self._project.reading() as conn:
            before = shared_text.stored(conn)
            if shared_text.is_current(conn):
                return
        yield self._progress_of_search()
        with self._project.reading() as conn:
            shared = shared_text.find(conn)
            pages = [] if shared.digest == before.digest else list(id_pages(conn))
        for page in pages:
            if self._interrupted.is_set():
                raise Cancelled("The import was cancelled.")
            self._project.write(partial(shared_text.renew_openings, ids=page, shared=shared))
            yield self._progress_of_search()
        self._project.write(lambda conn: shared_text.put(conn, shared))
        self._shared = shared

    @property
    def _done(self) -> int:
        """Bytes of the inputs that were read to their end, or records read where the size is unknown; see `unit`."""
        return self.read if self._total is None else self._bytes_before

    def _progress_of_search(self) -> Progress:
        """Returns the progress while shared text is looked for."""
        return Progress(self._done, self._total, "looking for text that many share")

    def _batches(self, source: Input) -> Iterator[list[Parsed | Rejected]]:
        """Yields the records of an input in batches; two records of one id are never in the same batch."""
        batch: list[Parsed | Rejected] = []
        ids: set[str] = set()
        size = 0
        began = time.monotonic()
        for record in source.records():
            if self._interrupted.is_set():
                raise Cancelled("The import was cancelled.")
            if isinstance(record, Parsed):
                if record.conversation.external_id in ids:  # it goes on with one of this batch
                    # `began` stays: the time that passed counts for the next batch too, so that it ends no later.
                    yield batch
                    batch, size = [], 0
                    ids.clear()
                ids.add(record.conversation.external_id)
            batch.append(record)
            size += len(record.raw)
            if (
                len(batch) >= BATCH_RECORDS
                or size >= BATCH_BYTES
                or time.monotonic() - began >= BATCH_SECONDS
            ):
                yield batch
                batch = []
                ids.clear()
                size = 0
                began = time.monotonic()
        yield batch  # also an empty one: the bytes of a source without records count as read

    def _commit(
        self,
        source: Input,
        source_id: int,
        companion_ids: Collection[int],
        run_id: int,
        batch: list[Parsed | Rejected],
    ) -> Progress:
        """Stores a batch with its counter in one transaction, and returns the progress."""
        parsed = [record for record in batch if isinstance(record, Parsed)]
        rejected = [record for record in batch if isinstance(record, Rejected)]
        read = self.read + len(batch)
        done = read if self._total is None else self._bytes_before + source.position()

        def store(conn: sqlite3.Connection) -> imports.BatchCounts:
            """Stores the batch; returns its counts."""
            added = imports.add_records(
                conn,
                source_id,
                parsed,
                replace=self._replace,
                beside=self._source_ids,
                parts=companion_ids,
                only_forward=self._only_forward,
            )
            imports.put_rejected(conn, source_id, rejected)
            runs.count(conn, run_id, done, self._total)
            return added

        added = self._project.write(store)
        self.read = read
        self.new += added.new
        self.duplicate += added.duplicate
        self.unchanged += added.unchanged
        self.grew += added.grew
        self.changed += added.changed
        self.judged += added.judged
        self.leaks += added.leaks
        self.quarantined += len(rejected)
        return Progress(done, self._total, f"{self.read:,} records")


def _unpacking_bounds(most_unpacked: int | None, interrupted: threading.Event) -> Bounds:
    """Returns the bounds of what files may unpack to.

    Args:
        most_unpacked: Number of bytes; None for the usual limit, which `Bounds` has.
        interrupted: Set when the import is cancelled.
    """
    if most_unpacked is None:
        return Bounds(is_cancelled=interrupted.is_set)
    return Bounds(most_unpacked, interrupted.is_set)


def _total_bytes(paths: Sequence[str], tails: Sequence[Tail]) -> int | None:
    """Returns the size of all inputs on disk, in bytes; None if one of them has no size."""
    total = sum(len(tail.lines) for tail in tails)
    for path in paths:
        if path == STDIN:
            return None
        if os.path.isdir(path):
            total += sum(map(_file_size, logs_in(path)[0]))
        elif os.path.exists(path) and not os.path.isfile(path):
            return None
        else:
            total += _file_size(path)
    return total


def _file_size(path: str) -> int:
    """Returns the size of a file in bytes; 0 if there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _absolute_path_or_label(label: str) -> str:
    """Returns the absolute path of a source, or its label if it is not a file."""
    return without_surrogates(os.path.realpath(label) if os.path.exists(label) else label)


class CheckStage(CpuStage):
    """Looks at every conversation that was not looked at in its present text.

    Attributes:
        languages: Number of conversations by language; None for those where it is not clear.
        personal: Number of conversations with each kind of personal data.
    """

    name = "check"
    title = "Looking for languages and personal data"

    def __init__(self, project: Project) -> None:
        """Looks at nothing yet."""
        super().__init__(project)
        self.languages: Counter[str | None] = Counter()
        self.personal: Counter[Kind] = Counter()

    @property
    def params(self) -> Mapping[str, Any]:
        """Empty: nothing can be chosen."""
        return {}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Commits what was found batch by batch.

        Raises:
            Cancelled: `interrupt` was called.
        """
        with self._project.reading() as conn:
            ids = facets.unchecked_ids(conn)
            shared = shared_text.stored(conn)
        look_at = partial(self._look_at_batch, shared=shared)
        yield from self._run_batches(
            run_id, ids, CHECK_BATCH_CONVERSATIONS, look_at, facets.put_checks
        )

    def summary(self) -> str:
        """Returns what was found, in one sentence."""
        languages = {code or "": count for code, count in self.languages.items()}
        personal = {str(kind): count for kind, count in self.personal.items()}
        return CheckCounts(languages, personal).in_words()

    def as_json(self) -> dict[str, Any]:
        """Returns the counts as JSON values."""
        return {
            "languages": {code or "unknown": count for code, count in self.languages.items()},
            "personal": dict(self.personal),
        }

    def _look_at_batch(
        self, conn: sqlite3.Connection, batch: Sequence[int], shared: SharedText
    ) -> list[facets.Found]:
        """Returns what is found in the texts of conversations."""
        return [self._look_at(conn, key, shared) for key in batch]

    def _look_at(self, conn: sqlite3.Connection, key: int, shared: SharedText) -> facets.Found:
        """Returns what is found in the text of a conversation, and counts it.

        Raises:
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()  # whether the run was cancelled
        rows = facets.checked_texts(conn, key)
        personal = frozenset(
            kind for _, content, calls in rows for kind in kinds(content) | kinds(calls)
        )
        spoken_texts = [
            (role, shared.without(role, content)) for role, content, _ in rows if role in ROLES
        ]
        # What the user writes decides; where that is not clear, all that is said.
        code = _language([text for role, text in spoken_texts if role == "user"]) or _language(
            [text for _, text in spoken_texts]
        )
        self.languages[code] += 1
        self.personal.update(personal)
        return key, code, personal


def _language(texts: list[str]) -> str | None:
    """Returns the language of texts, by the beginning of them; None where it is not clear."""
    joined, index = "", 0
    while len(joined) < LANGUAGE_SAMPLE_CHARACTERS and index < len(texts):
        joined += texts[index][:LANGUAGE_SAMPLE_CHARACTERS] + "\n"
        index += 1
    return language(joined)
