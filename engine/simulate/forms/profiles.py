"""Who fills a form: a description that the model plays, and the answers that this person would give."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from engine.errors import UsageError
from engine.simulate.forms.form import Path

FACTS = 10
"""Facts that a simulated user is reminded of for one question, at most."""

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Profile:
    """One person.

    Attributes:
        description: As in `Imagine you are ...`.
        answers: By form: labels, nested as in the form, down to the answer: a text or a list of options; the empty
            text where this person would leave the field empty.
    """

    name: str
    description: str
    answers: Mapping[str, Mapping[str, Any]]

    def of_form(self, form: str) -> dict[Path, str | list[str]]:
        """The answers of one form by path; empty where the profile says nothing about it."""
        return dict(_flat(self.answers.get(form, {}), ()))


def known_profiles() -> tuple[Profile, ...]:
    """The ten profiles that come along, by name."""
    folder = resources.files("engine.simulate.forms") / "people"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        _read(file.name.removesuffix(".json"), json.loads(file.read_text("utf-8")))
        for file in files
        if file.name.endswith(".json")
    )


def profiles_of_file(path: str, text: str) -> tuple[Profile, ...]:
    """Profiles that a person brings: a JSON list of descriptions or of `{"description", "answers"}`.

    Raises:
        UsageError: The text is none, or holds no profile.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}.") from None
    if not isinstance(value, list) or not value:
        raise UsageError(f"{path} is no list of profiles.")
    return tuple(_read(str(number), one) for number, one in enumerate(value, 1))


def facts_for(question: str, answers: Mapping[Path, str | Sequence[str]]) -> list[str]:
    """The facts that a question seems to be about, as lines, in order of the form.

    A fact counts by the words that its label shares with the question, rare words more. The same rule holds whoever
    asks: no user learns what a module means to ask for. Where no word is shared, the first facts are taken.
    """
    labels = {
        path: " / ".join(one for one in path if not _NUMBER.fullmatch(one)) for path in answers
    }
    words = {path: set(_WORD.findall(label.casefold())) for path, label in labels.items()}
    spread = Counter(word for found in words.values() for word in found)
    asked = set(_WORD.findall(question.casefold()))
    weights = {
        path: sum(math.log(1 + len(answers) / spread[word]) for word in sorted(found & asked))
        for path, found in words.items()
    }
    best = sorted(answers, key=lambda path: -weights[path])[:FACTS]
    if best and weights[best[0]]:
        best = [path for path in best if weights[path] * 3 >= weights[best[0]]]
    return [f"{labels[path]}: {_said(answers[path])}" for path in answers if path in set(best)]


def _said(answer: str | Sequence[str]) -> str:
    text = answer if isinstance(answer, str) else ", ".join(answer)
    return text or "(none)"


def _flat(node: Mapping[str, Any], above: Path) -> list[tuple[Path, str | list[str]]]:
    found: list[tuple[Path, str | list[str]]] = []
    for label, child in node.items():
        path = (*above, label)
        found += _flat(child, path) if isinstance(child, dict) else [(path, child)]
    return found


def _read(name: str, value: Any) -> Profile:
    if isinstance(value, str):
        return Profile(name, value, {})
    described = value.get("description") if isinstance(value, dict) else None
    answers = value.get("answers", {}) if isinstance(value, dict) else None
    if not isinstance(described, str) or not isinstance(answers, dict):
        raise UsageError(
            f"Profile {name} says nobody.", "Give a text, or an object with `description`."
        )
    for form, known in answers.items():
        if not isinstance(known, dict) or not all(_is_answer(one) for _, one in _flat(known, ())):
            raise UsageError(f"Profile {name}: the answers to `{form}` are no labels and texts.")
    return Profile(name, described, answers)


def _is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str)
