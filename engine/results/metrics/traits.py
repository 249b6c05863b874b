"""Reads the profile of a conversation's user, as fields with answers, from the schemas of RecLLMSim.

Three forms are read. Simulated users: `profile_mapped`, closed answers in English and Chinese, or else
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
"""Lower ends of the age groups."""

Traits = Mapping[str, frozenset[str]]
"""Field -> answers."""
Names = Mapping[str, Mapping[str, str]]
"""Field -> Chinese answer -> English answer."""

_LINE = re.compile(r"\s*\d+\.\s*([^:：]+)[:：]\s*(.*)")
_AND = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+")


def names_in(truths: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Collects the English names of Chinese answers from profiles that have both languages."""
    found: dict[str, dict[str, str]] = {}
    for truth in truths:
        mapped = truth.get("profile_mapped")
        for field, stated in mapped.items() if isinstance(mapped, Mapping) else ():
            for one in stated if isinstance(stated, list) else [stated]:
                if isinstance(one, Mapping) and {"en", "zh"} <= set(one):
                    found.setdefault(str(field), {})[str(one["zh"])] = str(one["en"])
    return found


def traits_of(truth: Mapping[str, Any], names: Names) -> dict[str, frozenset[str]]:
    """Returns a person's answers in English by field; unknown fields are absent.

    Args:
        names: English names of Chinese answers; an answer without one is kept in Chinese.
    """
    mapped, profile = truth.get("profile_mapped"), truth.get("profile")
    if isinstance(mapped, Mapping):
        stated = {field: _words(mapped.get(field)) for field in FIELDS}
    elif isinstance(profile, Mapping):
        stated = {
            field: [names.get(field, {}).get(word, word) for word in _words(profile.get(name))]
            for field, name in FIELDS.items()
        }
    else:
        stated = _lines(truth.get("preference"))
    found = {field: frozenset(_tidy(field, words)) for field, words in stated.items()}
    return {field: words for field, words in found.items() if words}


def person_of(truth: Mapping[str, Any]) -> str:
    """Returns a key of the person, made from the profile; people with equal profiles share it."""
    profile = truth.get("profile")
    if isinstance(profile, Mapping):
        kept: Any = {key: value for key, value in profile.items() if key != "complete_tid"}
    else:
        kept = [truth.get("preference"), truth.get("profile_mapped")]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def age_group(age: int) -> str:
    """Returns the name of the age group: `25 to 34`."""
    if age < AGES[0]:
        return f"under {AGES[0]}"
    at = max(start for start in AGES if start <= age)
    return f"{at} and over" if at == AGES[-1] else f"{at} to {AGES[AGES.index(at) + 1] - 1}"


def _words(stated: Any) -> list[str]:
    """Returns the English answers where both languages are given, else the answers as they are."""
    parts = stated if isinstance(stated, list) else [] if stated is None else [stated]
    return [str(one.get("en", "")) if isinstance(one, Mapping) else str(one) for one in parts]


def _lines(text: Any) -> dict[str, list[str]]:
    """Reads numbered lines as answers by field; splits at commas and `and` in fields with several answers."""
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
