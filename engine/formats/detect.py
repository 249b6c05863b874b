"""Reads the records of what is in a file, and detects how they are framed and which format they have, by content.

A *content* is a file or what an archive or a database has in it. A *frame* is a record with its bytes, and the
*framing* is how records follow each other: a line each, the elements of a JSON list, rows of a table and so on. Records
may be *wrapped*: they are a list within an object. *Slices* are parts of one JSON object that is too large to hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from engine.base.errors import FormatError, TooMuch, UnknownFormat
from engine.formats.accounting import strings
from engine.formats.json_values import FAULTS, json_text, kind_of, reason_of_fault
from engine.formats.mappings.arranging import split_records
from engine.formats.messages.normalize import looks_like_message, looks_like_messages
from engine.formats.opening import tables, text_turns
from engine.formats.opening.containers import Content
from engine.formats.opening.framing import Frame, Framing, lines, server_events, too_large
from engine.formats.opening.json_records import Slices, Values
from engine.formats.opening.source import LEAST_OF_RECORD, RAISED, Source
from engine.formats.paths import Path, json_within, read_path
from engine.formats.records import Detection, Parsed, Reader
from engine.formats.registry import (
    all_readers,
    is_whole_record,
    parse_record,
    reader_named,
    recognition,
)

# Which reader fits records best

_LEAST_SPOKEN = 1 / 3
"""Share of the text that the preferred reader must take for what was said; below it the others are tried too."""

_CLEARLY_MORE = 3
"""How many times the share of the preferred reader another reader must take for what was said, to be taken in its
place."""

_READERS_OF_ENTRIES = ("conversation_rows", "message_lines")
"""Names of readers for which the entries of a list within a record look like records."""


class Choice(NamedTuple):
    """A reader of some records, and in words why it was chosen."""

    reader: Reader
    why: str


def choose_reader(values: list[Any], looked_at: int) -> Choice | None:
    """Returns the reader that reads the values best; None if no reader recognizes any.

    The reader that recognizes most values is taken, of equals the first in the order of preference. If messages get
    little of the text with it, the others that recognize a value are tried too. If no reader recognizes a value,
    records are looked for in the lists and objects within it.

    Args:
        looked_at: How many records were looked at, for the reason.
    """
    candidates: list[tuple[int, Reader, str]] = []
    for reader in all_readers():
        reasons = [why for value in values if (why := recognition(reader, value)) is not None]
        if reasons:
            candidates.append((len(reasons), reader, reasons[0]))
    if not candidates:
        wrapped = next(filter(None, map(_wrapped_reader, values)), None)
        # with several records, a list of messages or questions inside one is that record's conversation, no wrapper
        reads_entries = wrapped is not None and wrapped.reader.name in _READERS_OF_ENTRIES
        return None if reads_entries and len(values) > 1 else wrapped
    candidates.sort(key=lambda candidate: -candidate[0])
    count, reader, why = candidates[0]
    share = _spoken_share(reader, values) if len(candidates) > 1 else 1.0
    if share < _LEAST_SPOKEN:
        for other_count, other, other_why in candidates[1:]:
            other_share = _spoken_share(other, values)
            if other_share > _CLEARLY_MORE * share:
                count, reader, why, share = other_count, other, other_why, other_share
    if count < looked_at:
        why += f" (seen in {count} of the first {looked_at})"
    return Choice(reader, why)


def _spoken_share(reader: Reader, values: list[Any]) -> float:
    """Returns how much of the text of records a reader takes for what was said or called, 0 to 1.

    A text that comes again counts once; a message that is JSON as a whole does not, as its reader did not look into it.
    """
    frames = [Frame(number, b"", value) for number, value in enumerate(values, 1)]
    spoken: set[str] = set()
    for frame in _arranged(reader, iter(frames)):
        parsed = None if frame.reason is not None else parse_record(reader, frame, "")
        for message in parsed.conversation.messages if isinstance(parsed, Parsed) else ():
            if json_within(message.content) is message.content or message.role == "tool":
                spoken.add(message.content)
            spoken.add(message.reasoning or "")
            spoken.update(call.arguments for call in message.tool_calls)
    return sum(map(len, spoken)) / (sum(map(len, strings(values))) or 1)


def reader_of_odd_record(value: Any, file_reader: Reader) -> Reader | None:
    """Returns a reader for a record of another shape than its file's; None if the file's reader recognizes it, or if no
    reader does that takes one record as one conversation."""
    if not isinstance(value, dict | list) or recognition(file_reader, value) is not None:
        return None
    readers = (reader for reader in all_readers() if reader.arrange is None)
    return next((reader for reader in readers if recognition(reader, value) is not None), None)


def _arranged(reader: Reader, frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields records as a reader arranges them; if the program fails at one, the last frame has the fault as reason."""
    try:
        yield from frames if reader.arrange is None else reader.arrange(frames)
    except FAULTS as fault:
        yield Frame(None, b"", None, f"the rest was not read: {reason_of_fault(fault)}")


# Records within records

_MOST_KEYS_LOOKED_INTO = 20
"""Number of first keys of an object under which wrapped records are looked for."""

_ENTRIES_LOOKED_AT = 3
"""Number of first entries of a list that are looked at to see whether they are records within a record; the very first
may be something else."""

_LEAST_WRAPPED = 0.5
"""Share of the JSON of an object that must be records within it; with less the object is something else."""


def _wrapped_reader(value: Any) -> Choice | None:
    """Returns a reader of the records that are most of a value; None if no records are."""
    wrapped = _wrapped_records(value)
    if wrapped is None:
        return None
    path, reader, why = wrapped
    return Choice(_unwrapping_reader(reader, read_path(path)), f"in `{path}` {why}")


def _wrapped_records(value: Any) -> tuple[str, Reader, str] | None:
    """Returns the path of the records that are most of a value, their reader, and the reason; also of records that are
    within the entries of a list, each in an object of its own."""
    least = _LEAST_WRAPPED * len(json_text(value))
    large = [
        (path, inner)
        for path, inner in _lists_in(value)
        if inner and len(json_text(inner)) >= least
    ]
    for path, inner in large:
        entries = inner[:_ENTRIES_LOOKED_AT]
        for reader in all_readers():
            reasons = list(filter(None, (recognition(reader, entry) for entry in entries)))
            # one field of an object may look like a record by chance, so half of its first objects must
            looks_like_plain_fields = path.endswith("{}") and 2 * len(reasons) < len(entries)
            if reasons and not looks_like_plain_fields:
                return path, reader, reasons[0]
    for path, inner in large:
        if path.endswith("[]") and (wrapped := _wrapped_records(inner[0])) is not None:
            inner_path, reader, why = wrapped
            return f"{path}.{inner_path}", reader, why
    return None


def _lists_in(value: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yields what may be records within an object, as lists with their paths: its lists, each object in it, and all
    objects in it together; then the same of these objects, however deep.

    Of `{"data": {"rows": [1, 2]}}` the paths are `{}`, `"data"` and `"data"."rows"[]`.
    """
    if not isinstance(value, dict):
        return
    entries = [entry for entry in value.values() if isinstance(entry, dict)]
    if entries and len(entries) == len(value):
        yield "{}", entries
    for key, entry in list(value.items())[:_MOST_KEYS_LOOKED_INTO]:
        if '"' in key:
            continue
        name = f'"{key}"'
        if isinstance(entry, list):
            yield f"{name}[]", entry
        elif isinstance(entry, dict):
            yield name, [entry]
            for path, inner in _lists_in(entry):
                yield f"{name}.{path}" if path != "{}" else f"{name}{{}}", inner
    if len(value) > len(entries) > 1:
        yield "{}", entries


def _unwrapping_reader(reader: Reader, path: Path) -> Reader:
    """Returns a reader that takes its records from a path within each record.

    A frame that is split from a larger record has that as `outer`, whose `value` is what lies beside the list. This is
    put on the first frame that comes out, as `beside`: the reader may make one frame of several.
    """

    def arrange(frames: Iterable[Frame]) -> Iterator[Frame]:
        """Yields the records at the path, arranged as the reader wants them."""
        beside: list[Any] = []  # of the larger records that no frame has come out of yet
        inner_frames = _split_and_note(path, frames, beside)
        for frame in inner_frames if reader.arrange is None else reader.arrange(inner_frames):
            if beside and frame.reason is None:
                frame = frame._replace(beside=beside[0] if len(beside) == 1 else [*beside])
                beside.clear()
            yield frame

    def recognize(value: Any) -> str | None:
        """Returns in words why one of the first records at the path looks like the format; None if none does."""
        inner_records = (match.value for match in islice(path.find(value), _ENTRIES_LOOKED_AT))
        return next(filter(None, map(reader.recognize, inner_records)), None)

    return replace(reader, recognize=recognize, arrange=arrange)


def _split_and_note(path: Path, frames: Iterable[Frame], beside: list[Any]) -> Iterator[Frame]:
    """Yields the records at a path; adds what lies beside those of a larger record to `beside` as its first comes."""
    for frame in split_records((path,), frames):
        outer = frame.outer
        if outer is not None and outer.first:
            beside.extend([] if outer.value is None else [outer.value])
            frame = frame._replace(outer=outer._replace(first=False))
        yield frame


# The records of a content

RECORDS_LOOKED_AT = 20
"""Number of records by which a format is detected."""

BYTES_LOOKED_AT = 1 << 20
"""Number of bytes by which a format and the framing are detected."""

RECORDS_TRIED = 1_000
"""Number of records of a file on which a mapping is tried."""

BYTES_TRIED = 8 << 20
"""Number of bytes of a file on which a mapping is tried."""

_MAX_KEYS_SHOWN = 8
"""Most keys of a record that an error names."""

_MAX_KEY_CHARACTERS = 40
"""Most characters of a key that an error names."""

Join = Callable[[Iterator[Frame]], Iterator[Frame]]
"""Changes the records of a file, as by joining them with those of other files."""


class Records:
    """The records of one content, and their format once it is known.

    Attributes:
        reader: The reader of the format.
        detection: The format, and why.
        first: The first record that can be read; None if none can.
    """

    def __init__(
        self,
        content: Content,
        suffix: str,
        format_name: str | None,
        are_lines: bool = False,
    ) -> None:
        """Looks at the beginning of a file, and takes the reader of its format.

        Args:
            suffix: Suffix of the file's name without that of a compression; used only if the content does not decide.
            format_name: The format that the user chose; None to detect it.
            are_lines: Whether each line is a record, without a look at how they are framed.

        Raises:
            TooMuch: A limit is reached before the first record.
            UnknownFormat: No reader knows the records, and a mapping could read them.
            FormatError: There is nothing in the file that could be mapped.
            OSError: The content cannot be read.
        """
        self._content = content
        self._are_lines = are_lines
        self._source = content.source()
        self._framing: Framing = "lines"
        self.first: Any = None
        try:
            self.reader, self.detection = self._examine(suffix, format_name)
        finally:
            if not content.read_once:
                self.close()

    @property
    def position(self) -> int:
        """Number of bytes read so far; 0 for rows."""
        return self._source.position if self._source else 0

    def frames(self, join: Join | None = None) -> Iterator[Frame]:
        """Yields the records from the beginning, as the reader arranges them.

        Args:
            join: Changes the records before they are arranged.

        Raises:
            OSError: The content cannot be opened again.
        """
        reader = self.reader
        if not self._content.read_once:
            self._source = self._content.source()
        frames = _read_frames(self._content, self._source, self._framing, reader)
        if join is not None:
            frames = join(frames)
        yield from _arranged(reader, frames)

    def close(self) -> None:
        """Closes what was opened."""
        if self._source is not None:
            self._source.close()

    def _examine(self, suffix: str, format_name: str | None) -> tuple[Reader, Detection]:
        """Returns the reader of the format and why it was chosen; sets the framing and the first record.

        Raises:
            TooMuch: A limit is reached before the first record.
            UnknownFormat: No reader knows the records, and a mapping could read them.
            FormatError: There is nothing in the file that could be mapped.
        """
        if self._source is not None and not self._are_lines:
            self._framing = _framing_of(self._source, suffix)
        sample = self._first_records()
        if self._framing == "slices" and not _holds_several_records(sample, format_name):
            self._framing = "values"
            sample = self._first_records()
        values = [frame.value for frame in sample if frame.reason is None]
        if self._framing == "list" and values and _is_one_conversation(values, format_name):
            self._framing, values = "values", [values]
        self.first = values[0] if values else None
        if format_name is not None:
            detection = Detection(format_name, "it was chosen for this import")
            return reader_named(format_name), detection
        if not values and (limit := _limit_reason(sample)):
            raise TooMuch(f"{self._content.label} cannot be read: {limit}.")
        choice = choose_reader(values, len(sample))
        if choice is None:
            what = _describe_content(values, sample)
            if not any(values):  # no fields that could be mapped
                raise FormatError(
                    f"{self._content.label} holds no conversations: {what}.",
                    "Check that it is the file you meant, and that it is whole.",
                )
            raise UnknownFormat(
                f"{self._content.label} holds no conversations in a known format: {what}.",
                self._content.label,
            )
        reader, why = choice
        if self._source is not None and self._source.guessed_encoding:
            why += f"; the text is not UTF-8 and was read as {self._source.guessed_encoding}"
        return reader, Detection(reader.name, why)

    def _first_records(self) -> list[Frame]:
        """Returns the first records, as they are framed, and goes back to the beginning."""
        if self._source is not None:
            self._source.mark_beginning()
        frames = _read_frames(self._content, self._source, self._framing, None)
        sample = _first_frames(frames, RECORDS_LOOKED_AT, BYTES_LOOKED_AT)
        if self._source is not None:
            while self._source.is_look_cut_off and sample and sample[-1].reason:
                sample.pop()  # its end was not looked at
            self._source.rewind()
        return sample


def _holds_several_records(sample: list[Frame], format_name: str | None) -> bool:
    """Returns whether the records lie in a list of the object whose slices are the sample; else the slices are parts of
    one."""
    if format_name is not None:
        reader = reader_named(format_name)
    else:
        choice = choose_reader([frame.value for frame in sample if frame.reason is None], 1)
        if choice is None:
            return False
        reader = choice.reader
    return reader.arrange is not None and len([*islice(_arranged(reader, sample[:1]), 2)]) > 1


def _is_one_conversation(values: list[Any], format_name: str | None) -> bool:
    """Returns whether a list with these first elements is one conversation, a bare list of messages."""
    if format_name is not None:
        return format_name == "messages" and isinstance(values[0], dict)
    message = next(filter(looks_like_message, values[:2]), None)
    return looks_like_messages(values) and not is_whole_record(message)


def _limit_reason(sample: list[Frame]) -> str | None:
    """Returns the reason of a record that ended the reading or was too large; None without one."""
    reasons = (frame.reason for frame in sample if frame.reason)
    return next(
        (reason for reason in reasons if RAISED in reason or reason.startswith(too_large())), None
    )


def _describe_content(values: list[Any], sample: list[Frame]) -> str:
    """Returns what a file was found to hold instead of conversations, in words.

    Args:
        values: The values of the records in the sample that are JSON.
        sample: The first records of the file.
    """
    if not sample:
        return "it has no records"
    if not values:
        return sample[0].reason or "nothing in it is JSON"
    first = values[0]
    if not isinstance(first, dict):
        return f"its first record is {kind_of(first)}"
    if not first:
        return "its first record is an empty object"
    shown_keys = list(first)[:_MAX_KEYS_SHOWN]
    keys = ", ".join(f"`{key[:_MAX_KEY_CHARACTERS]}`" for key in shown_keys)
    return f"its records have {keys}"


def sample_of(content: Content, suffix: str) -> list[Frame]:
    """Returns the first records of a content of any format, as many as a mapping is tried on.

    Raises:
        OSError: It cannot be opened.
    """
    with closing(all_records(content, suffix)) as records:
        return _first_frames(records, RECORDS_TRIED, BYTES_TRIED)


def all_records(content: Content, suffix: str) -> Generator[Frame]:
    """Returns all records of a content of any format, as they are framed.

    Raises:
        OSError: It cannot be opened.
    """
    source = content.source()
    framing: Framing = "lines"
    try:
        if source is not None:
            framing = _framing_of(source, suffix)
        yield from _read_frames(content, source, framing, None)
    finally:
        if source is not None:
            source.close()


# How records are framed

_OPENING = (b"{", b"[")
"""First bytes of JSON objects and lists."""


def _framing_of(source: Source, suffix: str) -> Framing:
    """Returns how the records are framed; the source is read from its beginning afterwards."""
    head = source.peek(BYTES_LOOKED_AT)
    framing = _detect_framing(head, suffix)
    if framing == "values" and len(head) >= BYTES_LOOKED_AT:
        source.mark_beginning()
        framing = "slices" if Slices(source).is_needed() else framing
        source.rewind()
    return framing


def _detect_framing(head: bytes, suffix: str) -> Framing:
    """Returns how the records are framed.

    Text that does not begin as JSON is a table if its lines have equally many cells, or text if it has turns.
    JSON Lines: the first line is complete JSON and more lines follow, or most lines are closed objects or lists (then
    the first record is broken). Otherwise the input is one JSON document.
    """
    rows = [row.strip() for row in islice(_filled_lines(head), RECORDS_LOOKED_AT + 1)]
    if not rows:
        return "lines"
    first = rows[0]
    if any(row.startswith((b"data: {", b"data:{")) for row in rows[:3]):
        return "events"
    if first[:1] == b"[" and first[1:2].isdigit() and text_turns.style_of(head):
        return "text"  # a line begins with its time
    first_is_json = first[:1] in _OPENING and _is_json(first)
    if first_is_json and len(rows) > 1 and (first[:1] == b"{" or rows[1][:1] in _OPENING):
        return "lines"
    closed_count = sum(row[:1] in _OPENING and row[-1:] in (b"}", b"]") for row in rows)
    if len(rows) > 1 and 2 * closed_count > len(rows):
        return "lines"
    if first[:1] not in _OPENING:
        if suffix not in (".csv", ".tsv") and text_turns.style_of(head):
            return "text"
        return "table" if tables.delimiter_of(head) else "lines"
    is_spread_out = first.strip(b"[{ \t") == b"" and len(rows) > 1
    if suffix in (".jsonl", ".ndjson") and not is_spread_out and any(map(_is_json, rows)):
        return "list" if len(rows) == 1 and first[:1] == b"[" else "lines"
    return "list" if first[:1] == b"[" else "values"


def _filled_lines(head: bytes) -> Iterator[bytes]:
    """Yields the lines of the beginning of a file that are not empty."""
    position = 0
    while position < len(head):
        end = head.find(b"\n", position)
        end = len(head) if end < 0 else end
        if row := head[position:end].strip():
            yield row
        position = end + 1


def _is_json(row: bytes) -> bool:
    """Returns whether a line is complete JSON."""
    try:
        json.loads(row)
    except (ValueError, RecursionError):
        return False
    return True


def _read_frames(
    content: Content, source: Source | None, framing: Framing, reader: Reader | None
) -> Iterator[Frame]:
    """Yields the records as they are framed; after a broken one the reader, if known, recognizes the next."""
    if source is None:
        assert content.rows is not None
        yield from content.rows()
        return
    for frame in _frames_of_source(source, framing, reader):
        yield frame
        missing_bytes = LEAST_OF_RECORD - len(frame.raw)  # those it has are counted as they come
        if missing_bytes > 0 and not source.count.add(missing_bytes, source.position):
            yield Frame(None, b"", None, source.count.bounds.too_much)
            return


def _frames_of_source(source: Source, framing: Framing, reader: Reader | None) -> Iterator[Frame]:
    """Returns the frames of a source by their framing.

    Args:
        reader: The reader of the format, which tells where a record begins after a broken one; None if it is not known.
    """
    if framing == "table":
        return tables.csv_rows(source)
    if framing == "text":
        return text_turns.text_records(source)
    if framing == "lines":
        return lines(source)
    if framing == "events":
        return server_events(source)
    if framing == "slices":
        return iter(Slices(source))

    def is_record(value: Any) -> bool:
        """Returns whether a value is a record of the format, or of any format if it is not known.

        A message alone may be a part of the record that is broken.
        """
        if reader is None:
            return is_whole_record(value)
        return recognition(reader, value) is not None

    return iter(Values(source, framing == "list", is_record))


def _first_frames(frames: Iterator[Frame], most: int, most_bytes: int) -> list[Frame]:
    """Returns the first frames, up to a number of them or of their bytes."""
    sample: list[Frame] = []
    size = 0
    for frame in frames:
        sample.append(frame)
        size += len(frame.raw)
        if len(sample) == most or size > most_bytes:
            break
    return sample
