"""Chooses the reader of records by what they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from engine.formats.json_values import json_text
from engine.formats.mappings.arranging import split
from engine.formats.opening.framing import Frame
from engine.formats.paths import Path, read_path
from engine.formats.reader import Reader
from engine.formats.readers import all_readers

_MOST_LOOKED_INTO = 20
"""Keys of an object in which wrapped records are looked for."""

_LEAST_WRAPPED = 0.5
"""Share of the JSON of an object that its wrapped records must be; the object is something else otherwise."""


def choose_reader(values: list[Any], looked_at: int) -> tuple[Reader, str] | None:
    """Returns the reader that recognises most of the values, and the reason in words; None if none recognises any.

    Of readers that recognise as many, the first in the order of preference is taken. If no reader recognises a value,
    records are looked for in the lists and objects within it.

    Args:
        looked_at: How many records were looked at, for the reason.
    """
    best: tuple[int, Reader, str] | None = None
    for reader in all_readers():
        seen = [why for value in values if (why := reader.recognise(value)) is not None]
        if seen and (best is None or len(seen) > best[0]):
            best = (len(seen), reader, seen[0])
    if best is None:
        wrapped = next(filter(None, map(_wrapped, values)), None)
        # of several objects with a list of questions and answers each is a conversation, not each question
        whole = wrapped is not None and wrapped[0].name == "conversation_rows" and len(values) > 1
        return None if whole else wrapped
    count, reader, why = best
    if count < looked_at:
        why += f" (seen in {count} of the first {looked_at})"
    return reader, why


def reader_of_one(value: Any, own: Reader) -> Reader | None:
    """Returns a reader for a record of another shape than its file's; None if the file's reader recognises it, or if no
    reader does that takes one record as one conversation."""
    if not isinstance(value, dict | list) or own.recognise(value) is not None:
        return None
    return next(
        (
            reader
            for reader in all_readers()
            if reader.arrange is None and reader.recognise(value) is not None
        ),
        None,
    )


def _wrapped(value: Any) -> tuple[Reader, str] | None:
    """A reader of the records that are most of a value, and the reason."""
    least = _LEAST_WRAPPED * len(json_text(value))
    for path, inner in _lists_in(value):
        if not inner or len(json_text(inner)) < least:
            continue
        for reader in all_readers():
            if (why := reader.recognise(inner[0])) is not None:
                where = read_path(path)
                return _unwrapping(reader, where), f"in `{path}` {why}"
    return None


def _unwrapping(reader: Reader, path: Path) -> Reader:
    inner = reader.arrange

    def arrange(frames: Iterable[Frame], all_branches: bool) -> Iterator[Frame]:
        records = split((path,), frames)
        return records if inner is None else inner(records, all_branches)

    def recognise(value: Any) -> str | None:
        found = path.first(value)
        return None if found is None else reader.recognise(found)

    return replace(reader, recognise=recognise, arrange=arrange)


def _lists_in(value: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yields the lists within an object, up to two levels deep, and the values of objects of objects."""
    if not isinstance(value, dict):
        return
    if (entries := list(value.values())) and all(isinstance(entry, dict) for entry in entries):
        yield "{}", entries
    for key, entry in list(value.items())[:_MOST_LOOKED_INTO]:
        if '"' in key:
            continue
        name = f'"{key}"'
        if isinstance(entry, list):
            yield f"{name}[]", entry
        elif isinstance(entry, dict):
            for path, inner in _lists_in(entry):
                yield f"{name}.{path}" if path != "{}" else f"{name}{{}}", inner
