"""The stages that import conversations from files, and that check them for their languages and for personal data.

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
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from engine import formats
from engine.base import folders
from engine.base.conversation import without_surrogates
from engine.base.errors import Cancelled, FormatError
from engine.base.number_format import counted
from engine.base.text import message_safe
from engine.conversations.language import LANGUAGE_SAMPLE_CHARACTERS, detect_language
from engine.conversations.personal_data import Kind, find_kinds
from engine.conversations.records import DEFAULT_IMPORT, CheckCounts, ImportRequest
from engine.conversations.shared_text import NOTHING_SHARED, ROLES, SharedText
from engine.conversations.tables import facets, imports, shared_text, sources
from engine.conversations.tables.facets import CheckResult
from engine.conversations.tables.imports import ImportCounts, ImportRules
from engine.formats.file_names import folder_in_words, logs_in
from engine.formats.inputs import Tail, open_inputs, open_tail
from engine.formats.opening.source import Bounds
from engine.formats.records import MOST_LOST, SKIPPED, Input, Parsed, Rejected, SourceReport
from engine.formats.registry import mapping_folder
from engine.jobs.contract import CpuStage, Progress, Stage
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import id_pages

STDIN = "-"
"""Path that stands for the standard input."""

BATCH_RECORDS = 500

BATCH_BYTES = 4 << 20
"""Number of bytes of records at which a transaction ends."""

BATCH_SECONDS = 0.25
"""Seconds of reading at which a transaction ends."""

CHECK_BATCH_CONVERSATIONS = 200

_WAL_SUFFIX = "-wal"
"""Ending of the file in which SQLite has what is not in the database file yet."""


# Importing


class ImportStage(Stage):
    """Imports paths in the order given, then tails; the path `-` is the standard input.

    A record that is not a conversation goes to the quarantine. An input that cannot be opened is named in the summary;
    the run fails only if no input could be opened. A *tail* is lines that came to the end of a log since it was read.

    Attributes:
        counts: What became of the records so far.
        refused: Why inputs were not opened.
        sources: What was read from each input so far, in order.
    """

    name = "import"

    def __init__(
        self,
        project: Project,
        paths: Sequence[str],
        request: ImportRequest = DEFAULT_IMPORT,
        *,
        stdin: BinaryIO | None = None,
        tails: Sequence[Tail] = (),
        without: Collection[str] = (),
        only_forward: bool = False,
    ) -> None:
        """Reads nothing yet.

        Args:
            project: The project to import into.
            paths: Files and folders to read; `-` for the standard input.
            request: How they are read.
            stdin: The standard input; needed where `paths` names it.
            tails: Lines at the end of what was read before, which are read after the paths.
            without: Files that are not read where a folder of `paths` has them.
            only_forward: An earlier text of a conversation is passed over, for logs that grow and are read again.
        """
        self._project = project
        self._paths = tuple(paths)
        self._request = request
        self._stdin = stdin
        self._tails = tuple(tails)
        self._without = without
        self._only_forward = only_forward
        self._interrupted = threading.Event()
        self._bounds = Bounds(is_cancelled=self._interrupted.is_set)
        if request.most_unpacked is not None:
            self._bounds = replace(self._bounds, unpacked=request.most_unpacked)
        self._total = _total_bytes(self._paths, self._tails)
        self._first_contents = folder_in_words(self._paths[0]) if self._paths else ""
        self._bytes_before = 0  # of the inputs that were read to their end
        self._shared = NOTHING_SHARED
        self._source_ids: set[int] = set()
        self.counts = ImportCounts()
        self.refused: list[FormatError] = []
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
        """What a person asked for: paths, format, whether texts are replaced, and the limit to which files may unpack,
        if it is another than the usual one."""
        parameters: dict[str, Any] = {
            "paths": self._labels,
            "format": self._request.format,
            "replace": self._request.replace,
        }
        if self._request.most_unpacked is not None:
            parameters["most_unpacked"] = self._request.most_unpacked
        return parameters

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """Size of the inputs in bytes, None if it is not known, and versions of the software that reads them."""
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
                    format=self._request.format,
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
        if self.refused and not self.sources:
            raise self.refused[0]
        yield from self._find_shared_text()

    def interrupt(self) -> None:
        """Stops before the next record; the current batch is dropped."""
        self._interrupted.set()

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        counts = self.counts
        text = (
            f"Read {counts.read:,}: {counts.new:,} new, {counts.grew:,} grew,"
            f" {counts.changed:,} changed, {counts.unchanged:,} already here,"
            f" {counts.duplicate:,} duplicate, {counts.quarantined:,} quarantined"
        )
        if counts.changed and self._request.replace:
            text += "; changed ones replaced the stored ones, whose texts are kept"
        elif counts.changed:
            text += "; changed ones are kept beside the stored ones (--replace replaces them)"
        if counts.judged:
            text += f"; {counts.judged:,} had a verdict on the earlier text"
        if names := {source.detection.format for source in self.sources} - {SKIPPED}:
            text += f"; format {', '.join(sorted(names))}"
        if self._shared:
            texts = counted(len(self._shared.shown), "text")
            text += f"; {texts} that many share left out of lists and goals"
        if counts.leaks:
            text += f"; {counted(counts.leaks, 'mark')} of the end hidden from the model"
        for source in self.sources:
            if source.account.lies_aside:
                text += f"; most sentences of {source.label} are in no message"
            if (lost := source.account.share("nowhere")) > MOST_LOST:
                text += f"; {lost:.1%} of the text of {source.label} was not read"
        for error in self.refused:
            text += f"; not read: {error.message.rstrip('.')}"
        return message_safe(text + ".")

    def _import(self, source: Input, run_id: int, *, whole: bool = True) -> Iterator[Progress]:
        """Imports one input batch by batch; one that did not change since it was read to its end is passed over.

        Args:
            whole: Whether it is read from its beginning, so that it can be passed over later.
        """
        detection = source.detection
        label = without_surrogates(source.label)
        report = SourceReport(label, detection)
        self.sources.append(report)
        place = _absolute_path_or_label(source.label)
        source_id = self._project.write(
            lambda conn: sources.put_source(conn, place, label, detection.format, detection.why)
        )
        self._source_ids.add(source_id)
        settings = repr((self._request.format, self._request.replace, self._bounds.unpacked))
        digest = digest_of(source.label, settings, source.companion_files) if whole else None
        companions = [_absolute_path_or_label(path) for path in source.companion_files]
        with self._project.reading() as conn:
            companion_ids = sources.ids_at(conn, companions)
            earlier = None if digest is None else sources.report_of(conn, source_id, digest)
        if earlier is not None:
            yield self._pass_over(source, run_id, SourceReport.from_json(earlier))
            return
        rules = ImportRules(
            self._request.replace,
            read_sources=self._source_ids,
            part_sources=companion_ids,
            only_forward=self._only_forward,
        )
        broke_off = False
        rejected: set[bytes] = set()
        for batch in self._batches(source):
            for record in batch:
                report.count(record)
                if isinstance(record, Rejected):
                    rejected.add(sources.rejected_digest(source_id, record))
                # Formats end with such a record where the input breaks off: it stands for no line.
                broke_off |= record.line is None and not record.raw
            yield self._commit(source, source_id, rules, run_id, batch)
        self._bytes_before += source.size or 0
        if digest is not None and not broke_off:
            text = report.to_json()

            def end(conn: sqlite3.Connection) -> None:
                """Stores what was read, and takes from the quarantine what is read now."""
                sources.put_report(conn, source_id, digest, text)
                sources.keep_rejected(conn, source_id, rejected)

            self._project.write(end)

    def _pass_over(self, source: Input, run_id: int, report: SourceReport) -> Progress:
        """Counts the records of a source that did not change since it was read to its end, by its report of then."""
        report.label = self.sources[-1].label
        self.sources[-1] = report
        self._bytes_before += source.size or 0
        self.counts.unchanged += report.conversations
        self.counts.quarantined += report.rejected
        done = self._done
        self._project.write(lambda conn: runs.count(conn, run_id, done, self._total))
        return Progress(done, self._total, f"{self.counts.read:,} records")

    def _find_shared_text(self) -> Iterator[Progress]:
        """Looks for text that many conversations share, unless none came since it was looked for; if another text is
        found than before, computes the openings of all conversations anew.

        Raises:
            Cancelled: `interrupt` was called.
        """
        with self._project.reading() as conn:
            before = shared_text.stored(conn)
            if shared_text.is_current(conn):
                return
        progress = Progress(self._done, self._total, "looking for text that many share")
        yield progress
        with self._project.reading() as conn:
            shared = shared_text.find(conn)
            pages = [] if shared.digest == before.digest else list(id_pages(conn))
        for page in pages:
            self._raise_if_cancelled()
            self._project.write(partial(shared_text.renew_openings, ids=page, shared=shared))
            yield progress
        self._project.write(lambda conn: shared_text.put(conn, shared))
        self._shared = shared

    def _raise_if_cancelled(self) -> None:
        """Raises Cancelled after `interrupt`."""
        if self._interrupted.is_set():
            raise Cancelled("The import was cancelled.")

    @property
    def _done(self) -> int:
        """Bytes of the inputs that were read to their end, or records read where the size is unknown; see `unit`."""
        return self.counts.read if self._total is None else self._bytes_before

    def _batches(self, source: Input) -> Iterator[list[Parsed | Rejected]]:
        """Yields the records of an input in batches; two records of one id are never in the same batch."""
        batch: list[Parsed | Rejected] = []
        ids: set[str] = set()
        size = 0
        began = time.monotonic()
        for record in source.records():
            self._raise_if_cancelled()
            if isinstance(record, Parsed):
                if record.conversation.external_id in ids:  # it goes on with one of this batch
                    # `began` stays: the time that passed counts for the next batch too, so that it ends no later.
                    yield batch
                    batch, ids, size = [], set(), 0
                ids.add(record.conversation.external_id)
            batch.append(record)
            size += len(record.raw)
            if (
                len(batch) >= BATCH_RECORDS
                or size >= BATCH_BYTES
                or time.monotonic() - began >= BATCH_SECONDS
            ):
                yield batch
                batch, ids, size, began = [], set(), 0, time.monotonic()
        yield batch  # also an empty one: the bytes of a source without records count as read

    def _commit(
        self,
        source: Input,
        source_id: int,
        rules: ImportRules,
        run_id: int,
        batch: list[Parsed | Rejected],
    ) -> Progress:
        """Stores a batch with its counter in one transaction, and returns the progress."""
        parsed = [record for record in batch if isinstance(record, Parsed)]
        rejected = [record for record in batch if isinstance(record, Rejected)]
        read = self.counts.read + len(batch)
        done = read if self._total is None else self._bytes_before + source.position()

        def store(conn: sqlite3.Connection) -> ImportCounts:
            """Stores the batch; returns what became of its conversations."""
            counts = imports.add_records(conn, source_id, parsed, rules)
            sources.put_rejected(conn, source_id, rejected)
            runs.count(conn, run_id, done, self._total)
            return counts

        self.counts.add(self._project.write(store))
        self.counts.quarantined += len(rejected)
        return Progress(done, self._total, f"{read:,} records")


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


# Whether a source must be read again


def digest_of(label: str, settings: str, companion_files: Sequence[str] = ()) -> bytes | None:
    """Returns the SHA-256 over the files of a source and over all that determines how it is read; None if it is no
    file on disk.

    Args:
        label: Label of the source: the path, and after `: ` the part of an archive or of a database.
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
    """Returns a text that changes with all that reads records: the program, and the mapping files of the person."""
    mapping_files = [
        (file.name, file.stat().st_mtime_ns) for file in sorted(mapping_folder().glob("*.toml"))
    ]
    return repr((mapping_files, _program_fingerprint()))


@cache
def _program_fingerprint() -> tuple[object, ...]:
    """Returns the version of the program, and name and time of change, in nanoseconds, of each file of its formats."""
    files = [file for folder in formats.__path__ for file in sorted(Path(folder).rglob("*"))]
    return folders.version(), tuple(
        (file.name, file.stat().st_mtime_ns) for file in files if file.suffix in (".py", ".toml")
    )


# Checking for languages and personal data


class CheckStage(CpuStage):
    """Checks every conversation that was not checked in its present text.

    Attributes:
        languages: Number of conversations by language; None for those where it is not clear.
        personal: Number of conversations with each kind of personal data.
    """

    name = "check"
    title = "Looking for languages and personal data"

    def __init__(self, project: Project) -> None:
        """Reads nothing yet."""
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

        def check(conn: sqlite3.Connection, batch: Sequence[int]) -> list[CheckResult]:
            """Returns what is found in the texts of conversations."""
            return [self._check_conversation(conn, key, shared) for key in batch]

        yield from self._run_batches(
            run_id, ids, CHECK_BATCH_CONVERSATIONS, check, facets.put_checks
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

    def _check_conversation(
        self, conn: sqlite3.Connection, conversation_id: int, shared: SharedText
    ) -> CheckResult:
        """Returns what is found in the text of a conversation, and counts it.

        Raises:
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        rows = facets.checked_texts(conn, conversation_id)
        personal = frozenset(
            kind for _, content, calls in rows for kind in find_kinds(content) | find_kinds(calls)
        )
        spoken_texts = [
            (role, shared.without(role, content)) for role, content, _ in rows if role in ROLES
        ]
        # What the user writes decides; where that is not clear, all that is said.
        code = _language([text for role, text in spoken_texts if role == "user"])
        code = code or _language([text for _, text in spoken_texts])
        self.languages[code] += 1
        self.personal.update(personal)
        return CheckResult(conversation_id, code, personal)


def _language(texts: list[str]) -> str | None:
    """Returns the language of texts, by the beginning of them; None where it is not clear."""
    joined = ""
    for text in texts:
        if len(joined) >= LANGUAGE_SAMPLE_CHARACTERS:
            break
        joined += text[:LANGUAGE_SAMPLE_CHARACTERS] + "\n"
    return detect_language(joined)
