"""Parses values in Java and JavaScript source text by the declared type of a parameter.

A text that is not a literal of its type (`5` for a `long`, which is written `5L`) stays text, so that it equals no
number. Without a declared type, the form of the literal gives the type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from engine.simulate.sharded.tasks.calls import NotCalls, split

_DIGITS = r"-?\d{1,300}"  # Python reads no number of more than 4,300 digits
_INTEGER = re.compile(_DIGITS)
_LONG = re.compile(rf"({_DIGITS})[lL]")
_BIG = re.compile(rf"({_DIGITS})n")
_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_FLOAT = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[fF]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f"}
_WORDS = {"true": True, "false": False}
_NEW = r"new\s+[\w.]+(?:<.*?>)?\s*"
_COPIED = re.compile(rf"{_NEW}\(\s*((?:Arrays|List|Set|Map)\s*\..*)\)", re.DOTALL)
_LISTS = re.compile(
    r"(?:Arrays\s*\.\s*asList|(?:List|Set|Array)\s*\.\s*of)\s*\((?P<of>.*)\)"
    r"|new\s+[\w.<>]+\s*\[\s*\]\s*\{(?P<array>.*)\}"
    r"|\{(?P<braces>[^{].*|)\}"
    r"|\[(?P<brackets>.*)\]"
    r"|new\s+Array\s*\((?P<js>.*)\)",
    re.DOTALL,
)
_FILLED = re.compile(rf"{_NEW}\(\s*\)\s*\{{\s*\{{(?P<body>.*)\}}\s*\}}", re.DOTALL)
_EMPTY = re.compile(rf"{_NEW}\(\s*\)", re.DOTALL)
_ADD = re.compile(r"\s*(?:this\s*\.\s*)?(?:add|push|offer)\s*\((.*)\)\s*", re.DOTALL)
_PUT = re.compile(r"\s*(?:this\s*\.\s*)?put\s*\((.*)\)\s*", re.DOTALL)
_MAP = re.compile(r"Map\s*\.\s*of\s*\((?P<of>.*)\)", re.DOTALL)

_JAVA_LISTS = frozenset({"Array", "ArrayList", "List", "Set", "Queue", "Stack"})
_JAVA_MAPS = frozenset({"HashMap", "Hashtable", "Map"})


def java_value(text: str, kind: str | None, items: str | None = None) -> Any:
    """Returns the value of a Java literal of a declared type (`integer`, `ArrayList`...); the text if it is not one.

    Args:
        items: Declared type of the items of a list; None if not declared.
    """
    text = text.strip()
    match kind:
        case "byte" | "short" | "integer":
            return _number(_INTEGER, text, int)
        case "long":
            return _number(_LONG, text, int)
        case "float":
            return _number(_FLOAT, text, float)
        case "double":
            return _number(_DECIMAL, text, float)
        case "boolean":
            return _WORDS.get(text, text)
        case "char" | "String" | "any":
            return _unquoted(text)
        case None:
            return _java_literal(text)
    if kind in _JAVA_LISTS:
        parts = _list_parts(text)
        return text if parts is None else [java_value(part, items) for part in parts]
    if kind in _JAVA_MAPS:
        return _java_map(text)
    return _unquoted(text)


def javascript_value(text: str, kind: str | None, items: str | None = None) -> Any:
    """Does the same as `java_value` for a declared JavaScript type (`String`, `Bigint`, `array`, `dict`...)."""
    text = text.strip()
    match kind:
        case "integer":
            return _number(_INTEGER, text, int)
        case "float":
            return _number(_DECIMAL, text, float)
        case "Bigint":
            return _number(_BIG, text, int)
        case "Boolean":
            return _WORDS.get(text, text)
        case "array":
            parts = _list_parts(text)
            return text if parts is None else [javascript_value(part, items) for part in parts]
        case "dict":
            return _object(text)
        case None:
            return _javascript_literal(text)
    return _unquoted(text)


def _number(pattern: re.Pattern[str], text: str, make: type[int] | type[float]) -> Any:
    match = pattern.fullmatch(text)
    return make(match.group(match.lastindex or 0)) if match else text


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'`":
        return _ESCAPE.sub(lambda found: _ESCAPED.get(found.group(1), found.group(1)), text[1:-1])
    return text


def _java_literal(text: str) -> Any:
    text = text.strip()
    for kind in ("long", "float", "integer", "double", "boolean"):
        if not isinstance(value := java_value(text, kind), str):
            return value
    if (parts := _list_parts(text)) is not None:
        return [_java_literal(part) for part in parts]
    return _unquoted(text) if isinstance(found := _java_map(text), str) else found


def _javascript_literal(text: str) -> Any:
    text = text.strip()
    for kind in ("integer", "float", "Bigint", "Boolean"):
        if not isinstance(value := javascript_value(text, kind), str):
            return value
    if text.startswith("{"):
        return _object(text)
    if (parts := _list_parts(text)) is not None:
        return [_javascript_literal(part) for part in parts]
    return _unquoted(text)


def _list_parts(text: str) -> list[str] | None:
    """Returns the source texts of the items of a list; None if the text does not build a list."""
    filled = _FILLED.fullmatch(text)
    if filled:
        adds = [_ADD.fullmatch(part) for part in split(filled["body"], ";")]
        return [one[1] for one in adds if one] if all(adds) else None
    listed = _LISTS.fullmatch(_original(text))
    if listed:
        return split(next(group for group in listed.groups() if group is not None))
    return [] if _EMPTY.fullmatch(text) else None


def _original(text: str) -> str:
    """Returns the collection that is copied: `Arrays.asList(...)` of `new ArrayList<>(Arrays.asList(...))`."""
    copied = _COPIED.fullmatch(text)
    return copied.group(1).strip() if copied else text


def _java_map(text: str) -> Any:
    filled, of = _FILLED.fullmatch(text), _MAP.fullmatch(_original(text))
    if filled:
        puts = [_PUT.fullmatch(part) for part in split(filled["body"], ";")]
        if not all(puts):
            return text
        return _pairs([part for one in puts if one for part in split(one[1])], text)
    if of:
        return _pairs(split(of["of"]), text)
    return {} if _EMPTY.fullmatch(text) else text


def _pairs(parts: Sequence[str], text: str) -> Any:
    if len(parts) % 2:
        return text
    values = [_java_literal(part) for part in parts]
    return {str(key): value for key, value in zip(values[::2], values[1::2], strict=True)}


def _object(text: str) -> Any:
    if not (text.startswith("{") and text.endswith("}")):
        return text
    made: dict[str, Any] = {}
    try:
        for part in split(text[1:-1]):
            key, *value = split(part, ":")
            made[_unquoted(key.strip())] = _javascript_literal(":".join(value or [key]))
    except NotCalls:
        return text
    return made
