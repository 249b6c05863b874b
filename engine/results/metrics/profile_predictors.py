"""Predictors of profile fields from a user's words, for `engine.results.metrics.profile_prediction`.

The linear predictor is ridge regression on TF-IDF vectors with one target column for each answer; the answer with the
largest value is the guess. Terms are words and pairs of words, or runs of one to three characters for scripts without
spaces. The regression is solved in its dual form, from the cosines between texts, so that all fields share one system
of equations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from engine.base.text import CJK
from engine.results.metrics.profile_prediction import (
    Predictor,
    Question,
    Split,
    UserText,
    answers_to,
)

MOST_TERMS = 50_000
MOST_TEXTS = 5_000
"""Most training texts of the linear predictor; it draws a sample from more."""
PENALTY = 1.0
"""Ridge penalty, for rows of length 1. Fixed in advance, not tuned on the data that is predicted."""
NEIGHBOURS = 10
_LONGEST = 20_000
"""Characters of a text that the linear predictor reads."""

Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]
Vectorise = Callable[[Sequence[str], Sequence[str]], tuple[Vectors, Vectors]]
"""Takes training and test texts; returns their unit vectors, shape (texts, dimensions) each."""


def most_frequent(spoken: Sequence[UserText]) -> Predictor:
    """Returns the baseline predictor: the most frequent answer of the training conversations, the first one on a
    tie."""

    def guess(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        return [
            [one.answers[int(_table(spoken, split.train, one).sum(axis=0).argmax())]]
            * len(split.test)
            for one in questions
        ]

    return guess


def linear(spoken: Sequence[UserText]) -> Predictor:
    """Returns the linear predictor: ridge regression on TF-IDF vectors."""

    def guess(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        # imported here because the import takes a second and only this predictor needs it
        from sklearn.feature_extraction.text import TfidfVectorizer

        train = split.train
        if len(train) > MOST_TEXTS:
            train = tuple(sorted(Random(0).sample(train, MOST_TEXTS)))
        texts = [spoken[at].text[:_LONGEST] for at in train]
        signs = is_signs(texts)
        vectoriser = TfidfVectorizer(
            analyzer="char" if signs else "word",
            ngram_range=(1, 3) if signs else (1, 2),
            min_df=2 if len(texts) > 2 else 1,
            sublinear_tf=True,
            max_features=MOST_TERMS,
        )
        rows = vectoriser.fit_transform(texts)
        asked = vectoriser.transform([spoken[at].text[:_LONGEST] for at in split.test])
        tables = [_table(spoken, train, one) for one in questions]
        values = _ridge((rows @ rows.T).toarray(), (asked @ rows.T).toarray(), np.hstack(tables))
        ends = np.cumsum([len(one.answers) for one in questions])[:-1]
        return [
            _largest(part, one)
            for part, one in zip(np.hsplit(values, ends), questions, strict=True)
        ]

    return guess


def nearest(spoken: Sequence[UserText], vectorise: Vectorise, count: int = NEIGHBOURS) -> Predictor:
    """Returns a nearest-neighbour predictor: the answer with the largest sum of cosine similarities among the `count`
    nearest training conversations."""

    def guess(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        known, asked = vectorise(
            [spoken[at].text for at in split.train], [spoken[at].text for at in split.test]
        )
        cosines = asked @ known.T
        near = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        weights = np.take_along_axis(cosines, near, axis=1)
        return [
            _largest(np.einsum("nk,nka->na", weights, _table(spoken, split.train, one)[near]), one)
            for one in questions
        ]

    return guess


def is_signs(texts: Sequence[str]) -> bool:
    """Whether most letters of the texts belong to a script without spaces between words."""
    sample = "".join(text[:1_000] for text in texts[:200])
    return len(re.findall(f"[{CJK}]", sample)) > len(re.findall("[A-Za-z]", sample))


def _table(spoken: Sequence[UserText], at: Sequence[int], question: Question) -> Floats:
    """Returns one-hot right answers, shape (conversations, answers); a row of zeros where the field is unknown."""
    right = [answers_to(question, spoken[one].traits) for one in at]
    return np.array([[answer in one for answer in question.answers] for one in right], float)


def _ridge(known: Floats, asked: Floats, targets: Floats) -> Floats:
    """Returns the predicted target values of the test rows, shape (test rows, targets).

    Args:
        known: Inner products of the training rows with each other.
        asked: Inner products of the test rows with the training rows.
    """
    means = targets.mean(axis=0)
    weights = np.linalg.solve(known + PENALTY * np.eye(len(known)), targets - means)
    found: Floats = asked @ weights + means
    return found


def _largest(values: Floats, question: Question) -> list[str]:
    return [question.answers[at] for at in values.argmax(axis=1)]
