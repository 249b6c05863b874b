"""Profiles and situations of simulated users, in English and in Chinese.

A profile is given twice: in free words, and in a *closed vocabulary*, where each field has some of a list of words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

Language = Literal["en", "zh"]
"""English or Chinese."""

LANGUAGES: tuple[Language, ...] = get_args(Language)
"""The languages that conversations can be in."""


FIELDS = {
    "Gender": "性别",
    "Age": "年龄",
    "Personality": "个性",
    "Occupation": "职业",
    "Daily Interests and Hobbies": "日常兴趣爱好",
    "Travel Habits": "旅行习惯",
    "Dining Preferences": "餐饮喜好",
    "Spending Habits": "消费习惯",
    "Other Aspects": "其他方面",
}
"""The lines of a profile, in order, with their Chinese names."""

TASKS = (
    "travel planning",
    "new travel planning",
    "preparing gifts",
    "recipe planning",
    "skills learning planning",
)
"""What the simulated people plan."""

ADVISED = "new travel planning"
"""The task in which the assistant gets a system message with its role."""

MappedProfile = Mapping[str, Any]
"""A profile in the closed vocabulary: field -> {en, zh}, or a list of those."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A person.

    Attributes:
        id: Id in the bundled file.
        text: Language -> numbered lines such as `1. Gender: Male`.
        mapped: The same profile in the closed vocabulary.
    """

    id: int
    text: Mapping[Language, str]
    mapped: MappedProfile


@dataclass(frozen=True, slots=True)
class Situation:
    """A task description addressed to the simulated person ("You want to ..."), with the task of `TASKS`; `text` by
    language."""

    id: int
    task: str
    text: Mapping[Language, str]


@cache
def vocabulary() -> Mapping[str, Mapping[str, str]]:
    """Returns the allowed answers of each field but `Age`, English -> Chinese, as in RecLLMSim (Apache-2.0)."""
    words: dict[str, dict[str, str]] = _data("vocabulary.json")
    return words


@cache
def profiles() -> Sequence[Profile]:
    """Returns the bundled profiles."""
    return [_profile(record) for record in _data("profiles.json")]


@cache
def situations() -> Sequence[Situation]:
    """Returns the bundled situations; some for each task."""
    return [
        Situation(record["id"], record["task"], {"en": record["en"], "zh": record["zh"]})
        for record in _data("situations.json")
    ]


def _profile(record: Mapping[str, Any]) -> Profile:
    """Reads a profile from its record, in both languages.

    Args:
        record: `id`, `gender` and `age`; under `mapped` the English words of the vocabulary by field, one or a list;
            under `en` and `zh` the free words by English field.
    """
    gender, age = str(record["gender"]), str(record["age"])
    words = {"Gender": gender, **record["mapped"]}
    mapped: dict[str, Any] = {}
    for field in FIELDS:
        if field == "Age":
            mapped[field] = {"en": age, "zh": age}
        elif isinstance(words[field], str):
            mapped[field] = _in_both_languages(field, words[field])
        else:
            mapped[field] = [_in_both_languages(field, word) for word in words[field]]
    english = {"Gender": gender, "Age": age, **record["en"]}
    chinese = {"Gender": mapped["Gender"]["zh"], "Age": age, **record["zh"]}
    text: dict[Language, str] = {
        "en": "\n".join(
            f"{number}. {name}: {english[name]}" for number, name in enumerate(FIELDS, 1)
        ),
        "zh": "\n".join(
            f"{number}. {zh}：{chinese[en]}" for number, (en, zh) in enumerate(FIELDS.items(), 1)
        ),
    }
    return Profile(int(record["id"]), text, mapped)


def _in_both_languages(field: str, english: str) -> dict[str, str]:
    """Returns a word of the vocabulary in both languages."""
    return {"en": english, "zh": vocabulary()[field][english]}


def _data(name: str) -> Any:
    """Returns the parsed JSON of a file in this folder."""
    # Imported here: the command line needs only the names of the tasks, and starts faster without it.
    from importlib import resources

    return json.loads((resources.files(__package__) / name).read_text("utf-8"))
