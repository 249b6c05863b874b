"""JSON laid out for reading. Pure.

Numbers stay as they were written, keys keep their order and their repetitions; letters that stood as escapes
are shown as letters.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

ONE_LINE = 60
"""A list or object of at most this many characters, without one in it that is longer, stays on one line."""

LONGEST = 100_000
"""Characters of a text that is still parsed; a longer one is shown unchanged."""

INDENT = 2
DEEPEST = 40
"""Levels of lists and objects in one another; deeper ones are shown unchanged."""


class _Written(str):
    """A number or constant as it was written."""


class _Pairs(list[tuple[str, Any]]):
    """An object with repeated keys kept."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=_Written, parse_int=_Written, parse_constant=_Written
)


def pretty_json(text: str) -> str | None:
    """The text laid out, or None when it is not a JSON list or object, or too long or too deep."""
    stripped = text.strip()
    if len(text) > LONGEST or stripped[:1] not in ("{", "["):
        return None
    try:
        lines = _lines(_DECODER.decode(stripped), 0)
    except (ValueError, RecursionError):
        return None
    return "\n".join(" " * (INDENT * depth) + line for depth, line in lines)


_Lines = list[tuple[int, str]]


def _lines(value: Any, level: int) -> _Lines:
    """Depth and text of each line; raises ValueError when it goes too deep."""
    if level > DEEPEST:
        raise ValueError("too deep")
    if isinstance(value, _Pairs):
        parts = []
        for key, inner in value:
            part = _lines(inner, level + 1)
            part[0] = (0, f"{_string(key)}: {part[0][1]}")
            parts.append(part)
        return _bracketed("{", parts, "}")
    if isinstance(value, list):
        return _bracketed("[", [_lines(inner, level + 1) for inner in value], "]")
    if isinstance(value, str) and not isinstance(value, _Written):
        return [(0, _string(value))]
    return [(0, _constant(value))]


def _bracketed(opening: str, parts: list[_Lines], closing: str) -> _Lines:
    if all(len(part) == 1 for part in parts):
        line = opening + ", ".join(part[0][1] for part in parts) + closing
        if len(line) <= ONE_LINE:
            return [(0, line)]
    lines = [(0, opening)]
    for number, part in enumerate(parts, 1):
        lines += [(depth + 1, text) for depth, text in part]
        if number < len(parts):
            depth, text = lines[-1]
            lines[-1] = (depth, text + ",")
    return [*lines, (0, closing)]


_string: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode


def _constant(value: Any) -> str:
    return {True: "true", False: "false", None: "null"}.get(value, str(value))
