"""Compares a filled form with the known answers of the user's profile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.form_scores import Count, Path, fields

ENOUGH_WORDS = 0.75
"""Least share of the words of a known answer that a free text must contain."""

_WORD = re.compile(r"\w+")


def right_fields(
    filled: Mapping[str, Any], known: Mapping[Path, str | Sequence[str]]
) -> tuple[Count, Count]:
    """Returns, for required and for optional fields, the number of right fields and of judged fields: fields with a
    known answer, unless both are empty.

    Case and punctuation are ignored. A field with options is right if it has exactly the options of the profile. A free
    text is right if it has all numbers and at least `ENOUGH_WORDS` of the words of the known answer; if that is empty,
    the field must be empty too.
    """
    right: dict[bool, list[bool]] = {True: [], False: []}
    for one in fields(filled):
        answer = known.get(one.path)
        if answer is not None and (one.filled or _words(_text(answer))):
            right[one.required].append(_is_right(one.answer, answer, bool(one.options)))
    required, optional = right[True], right[False]
    return (sum(required), len(required)), (sum(optional), len(optional))


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
