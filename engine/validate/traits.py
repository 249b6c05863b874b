"""The profile of the user of a conversation: fields with their answers, whatever the schema.

Three ways of saying it are read. Simulated users: `profile_mapped`, closed answers in English and Chinese, or else
`preference`, numbered lines of free words. Real people: `profile`, closed answers in Chinese.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

FIELDS = {
    "Gender": "gender",
    "Age": "age",
    "Occupation": "occupation",
    "Personality": "personality",
    "Daily Interests and Hobbies": "daily_interests",
    "Travel Habits": "travel_habits",
    "Dining Preferences": "dining_preferences",
    "Spending Habits": "spending_habits",
    "Other Aspects": "other_aspects",
}
"""The fields, each with its name in the profiles of real people."""
SINGLE = ("Gender", "Age", "Occupation")
"""Fields with one answer; the others have any number."""
AGES = (25, 35, 45, 55)
"""Where a new group of ages begins."""

Traits = Mapping[str, frozenset[str]]
"""By field, the answers."""
Names = Mapping[str, Mapping[str, str]]
"""By field, Chinese answers to English ones."""

_LINE = re.compile(r"\s*\d+\.\s*([^:：]+)[:：]\s*(.*)")
_AND = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+")


def names_in(truths: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The Chinese answers that profiles in both languages have, with their English ones."""
    found: dict[str, dict[str, str]] = {}
    for truth in truths:
        mapped = truth.get("profile_mapped")
        for field, said in mapped.items() if isinstance(mapped, Mapping) else ():
            for one in said if isinstance(said, list) else [said]:
                if isinstance(one, Mapping) and {"en", "zh"} <= set(one):
                    found.setdefault(str(field), {})[str(one["zh"])] = str(one["en"])
    return found


def traits_of(truth: Mapping[str, Any], names: Names) -> dict[str, frozenset[str]]:
    """The answers of a person in English, by field; fields of which nothing is known are absent.

    Args:
        names: For answers in Chinese; one that is not there stays as it is.
    """
    mapped, profile = truth.get("profile_mapped"), truth.get("profile")
    if isinstance(mapped, Mapping):
        said = {field: _words(mapped.get(field)) for field in FIELDS}
    elif isinstance(profile, Mapping):
        said = {
            field: [names.get(field, {}).get(word, word) for word in _words(profile.get(name))]
            for field, name in FIELDS.items()
        }
    else:
        said = _lines(truth.get("preference"))
    found = {field: frozenset(_tidy(field, words)) for field, words in said.items()}
    return {field: words for field, words in found.items() if words}


def person_of(truth: Mapping[str, Any]) -> str:
    """The same text for conversations of the same person, as far as profiles tell people apart."""
    profile = truth.get("profile")
    if isinstance(profile, Mapping):
        kept: Any = {key: value for key, value in profile.items() if key != "complete_tid"}
    else:
        kept = [truth.get("preference"), truth.get("profile_mapped")]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def age_group(age: int) -> str:
    """`25 to 34`."""
    if age < AGES[0]:
        return f"under {AGES[0]}"
    at = max(start for start in AGES if start <= age)
    return f"{at} and over" if at == AGES[-1] else f"{at} to {AGES[AGES.index(at) + 1] - 1}"


def _words(said: Any) -> list[str]:
    """Answers in English where both languages are there, else as they are."""
    parts = said if isinstance(said, list) else [] if said is None else [said]
    return [str(one.get("en", "")) if isinstance(one, Mapping) else str(one) for one in parts]


def _lines(text: Any) -> dict[str, list[str]]:
    """Free words, taken apart at commas and `and` where a field has many answers."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines() if isinstance(text, str) else ():
        matched = _LINE.match(line)
        if matched and matched[1].strip() in FIELDS:
            field, words = matched[1].strip(), matched[2].strip()
            found[field] = [words] if field in SINGLE else _AND.split(words.lower())
    return found


def _tidy(field: str, words: Iterable[str]) -> list[str]:
    kept = [word.strip() for word in words if word.strip()]
    if field == "Age":
        return [age_group(int(word)) for word in kept if word.isdecimal()]
    return [word.capitalize() if field in SINGLE else word for word in kept]
