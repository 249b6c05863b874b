"""Whether what was filled is right, where it is known what the person would have said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.simulate.forms.form import Path, fields

ENOUGH_WORDS = 0.75
"""Share of the words of a known answer that a free text must hold."""

_WORD = re.compile(r"\w+")


def right_fields(
    filled: Mapping[str, Any], known: Mapping[Path, str | Sequence[str]]
) -> tuple[int, int]:
    """Fields that are right, and fields that are judged: those with a known answer, unless both leave them empty.

    Upper and lower case and punctuation do not count. A field with options is right with the option, or with exactly
    the options, that the person would choose. A free text is right with all numbers of the known answer and at least
    three quarters of its words; where the person would leave the field empty, with nothing.
    """
    judged = [
        (one, known[one.path])
        for one in fields(filled)
        if one.path in known and (one.filled or _words(_text(known[one.path])))
    ]
    right = sum(_is_right(one.answer, answer, bool(one.options)) for one, answer in judged)
    return right, len(judged)


def _is_right(given: Any, known: str | Sequence[str], of_options: bool) -> bool:
    if isinstance(known, str) and not _words(known):
        return given is None or not _words(_text(given))
    if of_options:
        return _options(given) == _options(known)
    wanted, found = _words(_text(known)), set(_words(_text(given)))
    numbers = [word for word in wanted if any(map(str.isdigit, word))]
    held = sum(word in found for word in wanted)
    return all(word in found for word in numbers) and held >= ENOUGH_WORDS * len(wanted)


def _options(value: Any) -> set[str]:
    chosen = value if isinstance(value, list | tuple) else [value]
    return {" ".join(_words(str(one))) for one in chosen if one is not None}


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
