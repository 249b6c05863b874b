"""Predictors of profile fields from a user's words, for `engine.validate.profile_prediction`.

The linear way is TF-IDF with least squares and a penalty (ridge regression on one column an answer), the largest value
being the guess. Words and pairs of words are counted, or runs of one to three signs where the texts are in a script
without spaces. It is solved by the cosines between texts, which gives the same weights as by the terms and costs one
system of equations for all fields together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from engine.text import CJK
from engine.validate.profile_prediction import Question, Split, UserText, Way, answers_to

MOST_TERMS = 50_000
MOST_TEXTS = 5_000
"""Texts that the linear way learns from; of more a sample."""
PENALTY = 1.0
"""On large weights, with rows of length 1; chosen once, on nothing of what is guessed."""
NEIGHBOURS = 10
_LONGEST = 20_000
"""Characters of a text that are read."""

Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]
Vectorise = Callable[[Sequence[str], Sequence[str]], tuple[Vectors, Vectors]]
"""Rows of length 1 for the texts that are learnt from and for those that are guessed."""


def most_frequent(spoken: Sequence[UserText]) -> Way:
    """The answer that most of the conversations have that are learnt from; of equal ones the first."""

    def guess(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        return [
            [one.answers[int(_table(spoken, split.train, one).sum(axis=0).argmax())]]
            * len(split.test)
            for one in questions
        ]

    return guess


def linear(spoken: Sequence[UserText]) -> Way:
    """TF-IDF and ridge regression."""

    def guess(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        # imported here because it takes a second and only this way needs it
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


def nearest(spoken: Sequence[UserText], vectorise: Vectorise, count: int = NEIGHBOURS) -> Way:
    """The answer with the largest sum of cosines among the nearest conversations that are learnt from."""

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
    """Whether most letters of some texts are signs of a script without spaces between words."""
    sample = "".join(text[:1_000] for text in texts[:200])
    return len(re.findall(f"[{CJK}]", sample)) > len(re.findall("[A-Za-z]", sample))


def _table(spoken: Sequence[UserText], at: Sequence[int], question: Question) -> Floats:
    """A row for each conversation, a 1 for each answer that is right; zeros where the field is not known."""
    right = [answers_to(question, spoken[one].traits) for one in at]
    return np.array([[answer in one for answer in question.answers] for one in right], float)


def _ridge(known: Floats, asked: Floats, targets: Floats) -> Floats:
    """Values of the targets for what is asked about.

    Args:
        known: Products of the rows that are learnt from, with each other.
        asked: Products of what is asked about with them.
    """
    means = targets.mean(axis=0)
    weights = np.linalg.solve(known + PENALTY * np.eye(len(known)), targets - means)
    found: Floats = asked @ weights + means
    return found


def _largest(values: Floats, question: Question) -> list[str]:
    return [question.answers[at] for at in values.argmax(axis=1)]
