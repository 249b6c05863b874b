"""Whether a conversation gives away who speaks: profile fields predicted from what the user said, field by field.

A field with one answer is one question with several classes. A field with any number of answers is a yes-or-no question
for each answer. Only answers count that tell people apart: enough of the people one learns from have them, and enough
have not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import numpy.typing as npt

from engine.validate.interval import Interval
from engine.validate.traits import FIELDS, SINGLE, Traits

OTHERS = "Others"
"""What an answer is called that too few people have."""
FEWEST = 5
"""People who have an answer, and people who have not, for it to be asked for."""
FOLDS = 5
NEIGHBOURS = 10
DRAWS = 2_000
SEED = 20_240_917

Labels = npt.NDArray[np.str_]
Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one user said in one conversation, and who that is.

    Attributes:
        person: Equal for conversations of the same person.
    """

    text: str
    person: str
    traits: Traits


@dataclass(frozen=True, slots=True)
class Question:
    """A field, and for one with many answers also which of them."""

    field: str
    answer: str | None
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """What is learnt from and what is predicted, as indices."""

    train: tuple[int, ...]
    test: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Identified:
    """How well one way predicts one field.

    Attributes:
        questions: Asked in the field: 1, or one an answer.
        conversations, people: Predicted, and of how many people.
        accuracy: Share of right predictions, over conversations and questions; by resampling people.
        f1: Of classes, averaged, for a field with one answer; of `yes` over all questions for the others.
        gain: Accuracy beyond that of the most frequent answer, on the same conversations.
    """

    field: str
    way: str
    questions: int
    conversations: int
    people: int
    accuracy: Interval
    f1: float
    gain: Interval


Way = Callable[[Split, Sequence[Question]], Sequence[Sequence[str]]]
"""Predicts: for each question, a class for each of the split's test conversations."""


def splits_by_person(people: Sequence[str], folds: int = FOLDS, seed: int = 0) -> list[Split]:
    """Every conversation is predicted once, by what was learnt from other people.

    By person and not by conversation, because one person has many conversations: who has learnt from some of them
    knows the others by their words, whatever the field, and the figures would say how well people are recognised.
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


def questions_for(spoken: Sequence[Spoken], asked: Sequence[Spoken]) -> list[Question]:
    """What can be learnt from some conversations and is known of at least one of those asked about."""
    people = {one.person: one.traits for one in spoken}
    found: list[Question] = []
    for name in FIELDS:
        if not any(name in one.traits for one in asked):
            continue
        known = [traits[name] for traits in people.values() if name in traits]
        counts = Counter(answer for answers in known for answer in answers)
        telling = sorted(
            answer for answer, count in counts.items() if FEWEST <= count <= len(known) - FEWEST
        )
        if name not in SINGLE:
            found += [Question(name, answer, ("no", "yes")) for answer in telling]
        elif telling:
            found.append(Question(name, None, tuple(dict.fromkeys([*telling, OTHERS]))))
    return found


def answer_to(question: Question, traits: Traits) -> str | None:
    """The class that a person is in; None where the field is not known."""
    answers = traits.get(question.field)
    if answers is None:
        return None
    if question.answer is not None:
        return "yes" if question.answer in answers else "no"
    return next((one for one in sorted(answers) if one in question.classes), OTHERS)


def identify(
    spoken: Sequence[Spoken],
    splits: Sequence[Split],
    ways: Mapping[str, Way],
    questions: Sequence[Question],
) -> list[Identified]:
    """A row for each field and way; `ways` begins with the most frequent answer, against which gains are counted.

    Args:
        spoken: Conversations that splits are indices of.
    """
    tallies = {(one.field, way): _Tally() for way in ways for one in questions}
    for split in splits:
        for way, predict in ways.items():
            for question, said in zip(questions, predict(split, questions), strict=True):
                tally = tallies[question.field, way]
                for at, guess in zip(split.test, said, strict=True):
                    gold = answer_to(question, spoken[at].traits)
                    if gold is not None:
                        tally.count(question, at, gold, guess)
    base = next(iter(ways))
    fields = dict.fromkeys(one.field for one in questions)
    return [
        _row(name, way, tallies[name, way], tallies[name, base], spoken)
        for name in fields
        for way in ways
        if tallies[name, way].right
    ]


@dataclass(slots=True)
class _Tally:
    """Right predictions and all, by conversation; pairs of gold and guess, by question."""

    right: Counter[int] = field(default_factory=Counter)
    every: Counter[int] = field(default_factory=Counter)
    pairs: dict[Question, Counter[tuple[str, str]]] = field(default_factory=dict)

    def count(self, question: Question, at: int, gold: str, guess: str) -> None:
        self.right[at] += gold == guess
        self.every[at] += 1
        self.pairs.setdefault(question, Counter())[gold, guess] += 1


def _row(name: str, way: str, tally: _Tally, base: _Tally, spoken: Sequence[Spoken]) -> Identified:
    asked = sorted(tally.every)
    people = sorted({spoken[at].person for at in asked})
    row_of = {person: row for row, person in enumerate(people)}
    sums = np.zeros((len(people), 3))
    for at in asked:
        sums[row_of[spoken[at].person]] += tally.right[at], base.right[at], tally.every[at]
    weights = np.random.default_rng(SEED).multinomial(
        len(people), np.full(len(people), 1 / len(people)), size=DRAWS
    )
    drawn = weights @ sums
    right, based, every = sums.sum(axis=0)
    return Identified(
        name,
        way,
        len(tally.pairs),
        len(asked),
        len(people),
        _interval(right / every, drawn[:, 0] / drawn[:, 2]),
        _macro_f1(tally.pairs) if name in SINGLE else _yes_f1(tally.pairs),
        _interval((right - based) / every, (drawn[:, 0] - drawn[:, 1]) / drawn[:, 2]),
    )


def _interval(seen: float, drawn: Floats) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(seen), float(low), float(high))


def _macro_f1(pairs: Mapping[Question, Counter[tuple[str, str]]]) -> float:
    """Mean over the classes that occur; there is one question."""
    (counts,) = pairs.values()
    classes = sorted({gold for gold, _ in counts} | {guess for _, guess in counts})
    return float(np.mean([_f1(counts, one) for one in classes]))


def _yes_f1(pairs: Mapping[Question, Counter[tuple[str, str]]]) -> float:
    return _f1(sum(pairs.values(), Counter()), "yes")


def _f1(counts: Counter[tuple[str, str]], one: str) -> float:
    hit = counts[one, one]
    wrong = sum(n for pair, n in counts.items() if (pair[0] == one) != (pair[1] == one))
    return 2 * hit / (2 * hit + wrong) if hit + wrong else 0.0
