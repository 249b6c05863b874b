"""What the readers need to know of a JSON value: its kind in words, its depth, whether it can be stored, and what is
under its keys. An *object* is a `dict` here, as in JSON."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from engine.base.conversation import without_surrogates

MAX_DEPTH = 200
"""Deepest allowed nesting of a record, well below the limit of Python's JSON encoder."""

json_text = json.JSONEncoder(ensure_ascii=False).encode


class BadRecord(Exception):
    """The record is not a conversation; `reason` is a text for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that a mistake in a reader raises at a record that it does not expect; errors of files and cancelled work are
none of them."""


def reason_of_fault(fault: Exception) -> str:
    """Returns in words that the program failed at a record, with the kind of the fault and its place in the code."""
    *_, (code, line) = traceback.walk_tb(fault.__traceback__)
    place = f"{code.f_globals['__name__']}, line {line}"
    return f"the program failed at it, please report this: {type(fault).__name__} in {place}"


def kind_of(value: Any) -> str:
    """Returns the type of a JSON value in words: `a list`, `text`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"


def as_object(record: Any) -> dict[str, Any]:
    """Returns the record; raises BadRecord if it is not an object."""
    if not isinstance(record, dict):
        raise BadRecord(f"the record is {kind_of(record)}, not an object")
    return record


def object_or_empty(value: Any) -> dict[str, Any]:
    """Returns a value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def list_or_empty(value: Any) -> list[Any]:
    """Returns a value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def as_list(value: Any) -> list[Any]:
    """Returns a list unchanged, and any other value as the only entry of one."""
    return value if isinstance(value, list) else [value]


def objects_in(value: Any) -> list[dict[str, Any]]:
    """Returns the objects in a list; none for any other value."""
    return [entry for entry in list_or_empty(value) if isinstance(entry, dict)]


def without_keys(value: Mapping[str, Any], *keys: str | None) -> dict[str, Any]:
    """Returns the entries of an object that are under other keys than these; None stands for no key."""
    return {key: entry for key, entry in value.items() if key not in keys}


def first_value(value: Any, *keys: str) -> Any:
    """Returns the first entry of an object under one of the keys that is not null; None if there is none, and for a
    value that is no object."""
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in keys if value.get(key) is not None), None)


def first_filled(value: Any, *keys: str) -> Any:
    """Returns the first entry of an object under one of the keys that is neither null nor empty; None if there is none,
    and for a value that is no object."""
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in keys if value.get(key) not in (None, "", {}, [])), None)


def storable(value: Any) -> Any:
    """Returns a JSON value without lone surrogates in texts and keys, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [storable(entry) for entry in value]
    if isinstance(value, dict):
        return {without_surrogates(key): storable(entry) for key, entry in value.items()}
    return value


def is_nested_too_deep(value: Any) -> bool:
    """Returns whether a JSON value is nested deeper than `MAX_DEPTH` levels; works without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            entry
            for parent in level
            for entry in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(entry, dict | list)
        ]
    return depth > MAX_DEPTH
