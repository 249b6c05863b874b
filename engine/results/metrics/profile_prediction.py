"""Prediction of a user's profile from their words, field by field.

A predictor guesses one answer for each field. The guess is right when the person has that answer; in fields with
several answers, when it is one of them. Only answers that at least `FEWEST` training people have, and at least `FEWEST`
have not, may be guessed. A person with none of these has the answer `OTHERS`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.base.interval import Interval

# Profiles as RecLLMSim has them, in three forms. Simulated users: `profile_mapped`, closed answers in English and
# Chinese, or else `preference`, numbered lines of free words. Real people: `profile`, closed answers in Chinese.

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
    english: dict[str, dict[str, str]] = {}
    for truth in truths:
        mapped = truth.get("profile_mapped")
        for name, stated in mapped.items() if isinstance(mapped, Mapping) else ():
            for answer in stated if isinstance(stated, list) else [stated]:
                if isinstance(answer, Mapping) and {"en", "zh"} <= set(answer):
                    english.setdefault(str(name), {})[str(answer["zh"])] = str(answer["en"])
    return english


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


OTHERS = "Others"
"""Stands for all answers that too few people have."""
FEWEST = 5
"""Least number of people with an answer, and without it, for the answer to be a choice."""
FOLDS = 5
DRAWS = 2_000
SEED = 20_240_917

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UserText:
    """The words of one user in one conversation, with the user's profile.

    Attributes:
        person: Key of the person; equal for conversations of the same person.
    """

    text: str
    person: str
    traits: Traits


@dataclass(frozen=True, slots=True)
class Question:
    """A field with its choices; `OTHERS` is the last one."""

    field: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Training and test conversations, as indices."""

    train: tuple[int, ...]
    test: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PredictionRow:
    """How well one predictor predicts one field.

    Attributes:
        way: Name of the predictor.
        answers: Number of choices.
        conversations, people: Number of test conversations, and of the people in them.
        accuracy: Share of conversations with a right guess; 95% interval by resampling people.
        f1: Mean F1 over the answers that occur; None in fields with several answers for a person.
        gain: Accuracy minus that of the first predictor, on the same conversations.
    """

    field: str
    way: str
    answers: int
    conversations: int
    people: int
    accuracy: Interval
    f1: float | None
    gain: Interval


Predictor = Callable[[Split, Sequence[Question]], Sequence[Sequence[str]]]
"""Learns from the training part of a split; returns, for each question, a guess for each test conversation; "" is
none."""


def splits_by_person(people: Sequence[str], folds: int = FOLDS, seed: int = 0) -> list[Split]:
    """Returns cross-validation splits in which every conversation is tested once and no person is in both parts.

    Splitting by conversation would leak: a predictor could recognise a person by their words from their other
    conversations and know every field.
    """
    names = sorted(set(people))
    Random(seed).shuffle(names)
    fold_of = {name: number % folds for number, name in enumerate(names)}
    return [
        Split(
            tuple(at for at, name in enumerate(people) if fold_of[name] != fold),
            tuple(at for at, name in enumerate(people) if fold_of[name] == fold),
        )
        for fold in range(min(folds, len(names)))
    ]


def questions_for(spoken: Sequence[UserText], asked: Sequence[UserText]) -> list[Question]:
    """Returns the fields and answers that a model can be fitted to in `spoken` and occur in `asked`."""
    people = {one.person: one.traits for one in spoken}
    found: list[Question] = []
    for name in FIELDS:
        known = [traits[name] for traits in people.values() if name in traits]
        counts = Counter(answer for answers in known for answer in answers)
        telling = [
            answer
            for answer, count in sorted(counts.items())
            if FEWEST <= count <= len(known) - FEWEST and answer != OTHERS
        ]
        if any(answer in one.traits.get(name, ()) for one in asked for answer in telling):
            found.append(Question(name, (*telling, OTHERS)))
    return found


def answers_to(question: Question, traits: Traits) -> frozenset[str]:
    """Returns the right answers for a person; empty when the field is unknown."""
    answers = traits.get(question.field)
    if answers is None:
        return frozenset()
    return answers & frozenset(question.answers) or frozenset([OTHERS])


def evaluate_predictors(
    spoken: Sequence[UserText],
    splits: Sequence[Split],
    ways: Mapping[str, Predictor],
    questions: Sequence[Question],
) -> list[PredictionRow]:
    """Evaluates predictors on the test parts of the splits.

    Args:
        spoken: The conversations that the splits index.
        ways: Predictors by name; gains are relative to the first.

    Returns:
        A row for each field and predictor.
    """
    tallies = {(one.field, way): _Tally() for one in questions for way in ways}
    for split in splits:
        for way, guess in ways.items():
            for question, answers in zip(questions, guess(split, questions), strict=True):
                tally = tallies[question.field, way]
                for at, one in zip(split.test, answers, strict=True):
                    gold = answers_to(question, spoken[at].traits)
                    if gold:
                        tally.right[at] = one in gold
                        tally.pairs[min(gold), one] += 1
    base = next(iter(ways))
    return [
        _row(one, way, tallies[one.field, way], tallies[one.field, base], spoken)
        for one in questions
        for way in ways
        if tallies[one.field, way].right
    ]


@dataclass(slots=True)
class _Tally:
    """Results by conversation: whether the guess is right, and counts of (right answer, guess) in single-answer
    fields."""

    right: dict[int, bool] = field(default_factory=dict)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)


def _row(
    question: Question, way: str, tally: _Tally, base: _Tally, spoken: Sequence[UserText]
) -> PredictionRow:
    people = sorted({spoken[at].person for at in tally.right})
    row_of = {person: row for row, person in enumerate(people)}
    sums = np.zeros((len(people), 3))
    for at, right in tally.right.items():
        sums[row_of[spoken[at].person]] += right, base.right[at], 1
    even = np.full(len(people), 1 / len(people))
    weights = np.random.default_rng(SEED).multinomial(len(people), even, size=DRAWS)
    drawn = weights @ sums
    right, based, every = sums.sum(axis=0)
    return PredictionRow(
        question.field,
        way,
        len(question.answers),
        len(tally.right),
        len(people),
        _interval(right / every, drawn[:, 0] / drawn[:, 2]),
        _macro_f1(tally.pairs) if question.field in SINGLE else None,
        _interval((right - based) / every, (drawn[:, 0] - drawn[:, 1]) / drawn[:, 2]),
    )


def _interval(seen: float, drawn: Floats) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(seen), float(low), float(high))


def _macro_f1(pairs: Counter[tuple[str, str]]) -> float:
    answers = sorted({one for pair in pairs for one in pair if one})
    return float(np.mean([_f1(pairs, one) for one in answers]))


def _f1(pairs: Counter[tuple[str, str]], one: str) -> float:
    hit = pairs[one, one]
    wrong = sum(n for pair, n in pairs.items() if (pair[0] == one) != (pair[1] == one))
    return 2 * hit / (2 * hit + wrong) if hit + wrong else 0.0
