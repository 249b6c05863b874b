"""Detects how the records of an input are framed and which format they have, by content and not by file name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from engine.errors import FormatError
from engine.formats.framing import Frame, Framing, Values, lines
from engine.formats.json_values import kind_of
from engine.formats.normalise import looks_like_message
from engine.formats.reader import Reader
from engine.formats.readers import reader_named, recognised
from engine.formats.recognising import choose_reader
from engine.formats.source import Source
from engine.records.imports import Detection

RECORDS_LOOKED_AT = 20
BYTES_LOOKED_AT = 1 << 20

RECORDS_TRIED = 1_000
BYTES_TRIED = 8 << 20

_OPENING = (b"{", b"[")
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "an SQLite database",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"%PDF": "a PDF file",
    b"\xff\xfe": "text in UTF-16, not UTF-8",
    b"\xfe\xff": "text in UTF-16, not UTF-8",
}


def frames(
    source: Source, framing: Framing, reader: Reader | None = None, all_branches: bool = False
) -> Iterator[Frame]:
    """Yields the records of a source from its beginning, as the reader arranges them.

    Args:
        reader: Reader of the format, if known; after a broken record it recognises where the next one begins.
        all_branches: Whether each branch of a tree of messages is a conversation, and not only the current one.
    """

    def is_record(value: Any) -> bool:
        return recognised(value) if reader is None else reader.recognise(value) is not None

    in_list = framing == "list"
    found = lines(source) if framing == "lines" else iter(Values(source, in_list, is_record))
    return (
        found if reader is None or reader.arrange is None else reader.arrange(found, all_branches)
    )


def examine(
    source: Source, label: str, suffix: str, wanted: str | None
) -> tuple[Reader, Framing, Detection]:
    """Detects framing and format of a source, which is rewound afterwards.

    Args:
        label: Name of the input in messages.
        suffix: Suffix of the file's name without `.gz`; used only if the content does not decide.
        wanted: The format that the user chose; None to detect it.

    Raises:
        FormatError: No format was chosen and none fits.
    """
    source.keep()
    head = _head(source)
    source.rewind()
    framing = _framing(head, suffix)
    source.keep()
    sample = _sample(source, framing)
    source.rewind()
    values = [frame.value for frame in sample if frame.reason is None]
    if framing == "list" and values and _one_conversation(values[0], wanted):
        framing, values = "values", [values]
    if wanted is not None:
        return (
            reader_named(wanted),
            framing,
            Detection(wanted, "the format was chosen with --format"),
        )
    chosen = choose_reader(values, len(sample))
    if chosen is None:
        raise FormatError(
            f"{label} holds no conversations in a known format: {_seen(values, sample, head)}.",
            "Say where its messages are with `workbench import --map`, or name its format with --format.",
        )
    reader, why = chosen
    return reader, framing, Detection(reader.name, why)


def sampled(source: Source, suffix: str) -> list[Frame]:
    """The first records of a source of any format, as many as a mapping is tried on."""
    source.keep()
    head = _head(source)
    source.rewind()
    return _sample(source, _framing(head, suffix), RECORDS_TRIED, BYTES_TRIED)


def _head(source: Source) -> bytes:
    """Returns the first MiB, or less if the input is shorter."""
    pieces: list[bytes] = []
    size = 0
    while size < BYTES_LOOKED_AT and (chunk := source.read()):
        pieces.append(chunk)
        size += len(chunk)
    return b"".join(pieces)


def _framing(head: bytes, suffix: str) -> Framing:
    """Detects how the records are framed.

    JSON Lines: the first line is complete JSON and more lines follow, or most lines are closed objects or lists (then
    the first record is broken). Otherwise the input is one JSON document.
    """
    rows = [row.strip() for row in islice(_rows(head), RECORDS_LOOKED_AT + 1)]
    if not rows:
        return "lines"
    whole = rows[0][:1] in _OPENING and _is_json(rows[0])
    if whole and len(rows) > 1 and (rows[0][:1] == b"{" or rows[1][:1] in _OPENING):
        return "lines"
    closed = sum(row[:1] in _OPENING and row[-1:] in (b"}", b"]") for row in rows)
    if len(rows) > 1 and 2 * closed > len(rows):
        return "lines"
    if rows[0][:1] not in _OPENING:
        return "lines"
    spread_out = rows[0].strip(b"[{ \t") == b"" and len(rows) > 1
    if suffix in (".jsonl", ".ndjson") and not spread_out and any(map(_is_json, rows)):
        return "list" if len(rows) == 1 and rows[0][:1] == b"[" else "lines"
    return "list" if rows[0][:1] == b"[" else "values"


def _rows(head: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(head):
        end = head.find(b"\n", at)
        end = len(head) if end < 0 else end
        if row := head[at:end].strip():
            yield row
        at = end + 1


def _is_json(row: bytes) -> bool:
    try:
        json.loads(row)
    except (ValueError, RecursionError):
        return False
    return True


def _sample(
    source: Source,
    framing: Framing,
    most: int = RECORDS_LOOKED_AT,
    most_bytes: int = BYTES_LOOKED_AT,
) -> list[Frame]:
    sample: list[Frame] = []
    size = 0
    for frame in frames(source, framing):
        sample.append(frame)
        size += len(frame.raw)
        if len(sample) == most or size > most_bytes:
            break
    return sample


def _one_conversation(first: Any, wanted: str | None) -> bool:
    """Whether a list with this first element is one conversation, a bare list of messages."""
    if wanted is None:
        return looks_like_message(first) and not recognised(first)
    return wanted == "messages" and isinstance(first, dict)


def _seen(values: list[Any], sample: list[Frame], head: bytes) -> str:
    if not head.strip():
        return "it is empty"
    for magic, kind in _OTHER_KINDS.items():
        if head.startswith(magic):
            return f"it is {kind}"
    if not values:
        return sample[0].reason or "nothing in it is JSON" if sample else "nothing in it is JSON"
    first = values[0]
    if not isinstance(first, dict):
        return f"its first record is {kind_of(first)}"
    if not first:
        return "its first record is an empty object"
    keys = ", ".join(f"`{key[:40]}`" for key in list(first)[:8])
    return f"its records have {keys}"
