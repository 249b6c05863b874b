"""Profiles of simulated users: a description for the prompt, and the answers to forms."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from engine.base.errors import UsageError
from engine.base.form_scores import Path

FACTS = 10
"""Most facts in the prompt of a simulated user for one question."""

PAPER_PEOPLE = "paper"
"""Name under which the people of Hakimov et al. are asked for."""

_OF_PAPER = (
    "a banker living in Downtown New York",
    "a fisherman living on the west coast of the USA",
    "a politician and lawmaker",
    "an actress who moved from France to Los Angeles",
    "a beetroot farmer with German roots and an office job",
    "an olympic swimmer",
    "a brain surgeon",
    "a female soccer player",
    "a social media influencer",
    "a university student",
)

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Profile:
    """One person.

    Attributes:
        description: Completes `Imagine you are ...`.
        answers: Answers by form name, nested as in the form. An answer is a text or a list of options; the empty text
            means that this person leaves the field empty.
    """

    name: str
    description: str
    answers: Mapping[str, Mapping[str, Any]]

    def of_form(self, form: str) -> dict[Path, str | list[str]]:
        """Returns the answers to one form by path; {} if the profile has none."""
        return dict(_flat(self.answers.get(form, {}), ()))


def known_profiles() -> tuple[Profile, ...]:
    """Returns the ten bundled profiles, sorted by name."""
    folder = resources.files("engine.simulate.forms") / "people"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        _read(file.name.removesuffix(".json"), json.loads(file.read_text("utf-8")))
        for file in files
        if file.name.endswith(".json")
    )


def people_of_paper() -> tuple[Profile, ...]:
    """Returns the ten people of section 4.4 of Hakimov et al. (2024), who have a description and no answers."""
    return tuple(Profile(str(number), one, {}) for number, one in enumerate(_OF_PAPER, 1))


def profiles_of_file(path: str, text: str) -> tuple[Profile, ...]:
    """Reads profiles from a user's file: a JSON list of descriptions or of `{"description", "answers"}`.

    Raises:
        UsageError: The text is not such a list, or is empty.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}.") from None
    if not isinstance(value, list) or not value:
        raise UsageError(f"{path} is no list of profiles.")
    return tuple(_read(str(number), one) for number, one in enumerate(value, 1))


def facts_for(question: str, answers: Mapping[Path, str | Sequence[str]]) -> list[str]:
    """Returns the facts that a question seems to be about, as `label: answer` lines in order of the form.

    Ranks facts by the words that label and question share; rare words weigh more. If no word is shared, takes the first
    facts. Uses the question alone, so that the user does not know which fields a module asks for.
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
    return [f"{labels[path]}: {_as_text(answers[path])}" for path in answers if path in set(best)]


def _as_text(answer: str | Sequence[str]) -> str:
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
            f"Profile {name} describes nobody.", "Give a text, or an object with `description`."
        )
    for form, known in answers.items():
        if not isinstance(known, dict) or not all(_is_answer(one) for _, one in _flat(known, ())):
            raise UsageError(f"Profile {name}: the answers to `{form}` are no labels and texts.")
    return Profile(name, described, answers)


def _is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str)
