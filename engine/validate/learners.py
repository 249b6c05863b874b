"""Ways of predicting a profile from what the user said, for `engine.validate.identifying`.

The linear way is TF-IDF with logistic regression: words and pairs of words, or runs of one to three signs where the
texts are in a script without spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from engine.text import SIGNS
from engine.validate.identifying import (
    NEIGHBOURS,
    Labels,
    Question,
    Split,
    Spoken,
    Vectors,
    Way,
    answer_to,
)

MOST_TERMS = 50_000
STRENGTH = 10.0
"""Inverse of the penalty on large weights; chosen once, on nothing of what is predicted."""
_LONGEST = 20_000
"""Characters of a text that are read."""

Vectorise = Callable[[Sequence[str], Sequence[str]], tuple[Vectors, Vectors]]
"""Rows of length 1 for the texts that are learnt from and for those that are predicted."""


def most_frequent(spoken: Sequence[Spoken]) -> Way:
    """The most frequent class among what is learnt from; of equal ones the first by name."""

    def predict(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        found = []
        for question in questions:
            _, labels = _known(spoken, split, question)
            counts = Counter(map(str, labels))
            best = min(counts, key=lambda one: (-counts[one], one), default=question.classes[0])
            found.append([best] * len(split.test))
        return found

    return predict


def linear(spoken: Sequence[Spoken]) -> Way:
    """TF-IDF and logistic regression, one class against the others."""

    def predict(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        # imported here because it takes a second and only this way needs it
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.multiclass import OneVsRestClassifier

        train = [spoken[at].text[:_LONGEST] for at in split.train]
        signs = is_signs(train)
        vectoriser = TfidfVectorizer(
            analyzer="char" if signs else "word",
            ngram_range=(1, 3) if signs else (1, 2),
            min_df=2 if len(train) > 2 else 1,
            sublinear_tf=True,
            max_features=MOST_TERMS,
        )
        rows = vectoriser.fit_transform(train)
        asked = vectoriser.transform([spoken[at].text[:_LONGEST] for at in split.test])
        found = []
        for question in questions:
            kept, labels = _known(spoken, split, question)
            if len(set(labels)) < 2:
                found.append([_only(labels, question)] * len(split.test))
                continue
            model = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=0)
            if len(question.classes) > 2:
                model = OneVsRestClassifier(model)
            model.fit(rows[kept], labels)
            found.append([str(one) for one in model.predict(asked)])
        return found

    return predict


def nearest(spoken: Sequence[Spoken], vectorise: Vectorise, count: int = NEIGHBOURS) -> Way:
    """The class with the largest sum of cosines among the nearest conversations that are learnt from."""

    def predict(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        known, asked = vectorise(
            [spoken[at].text for at in split.train], [spoken[at].text for at in split.test]
        )
        near = asked @ known.T
        found = []
        for question in questions:
            kept, labels = _known(spoken, split, question)
            found.append(_voted(near[:, kept], labels, question, count))
        return found

    return predict


def is_signs(texts: Sequence[str]) -> bool:
    """Whether most letters of some texts are signs of a script without spaces between words."""
    sample = "".join(text[:1_000] for text in texts[:200])
    return len(re.findall(f"[{SIGNS}]", sample)) > len(re.findall("[A-Za-z]", sample))


def _known(spoken: Sequence[Spoken], split: Split, question: Question) -> tuple[list[int], Labels]:
    """Places within `split.train` where the answer is known, and the answers."""
    said = [answer_to(question, spoken[at].traits) for at in split.train]
    kept = [place for place, one in enumerate(said) if one is not None]
    return kept, np.array([said[place] for place in kept], dtype=np.str_)


def _only(labels: Labels, question: Question) -> str:
    return str(labels[0]) if len(labels) else question.classes[0]


def _voted(near: Vectors, labels: Labels, question: Question, count: int) -> list[str]:
    if not len(labels):
        return [question.classes[0]] * len(near)
    classes = np.unique(labels)
    order = np.argsort(-near, axis=1, kind="stable")[:, :count]
    cosines = np.take_along_axis(near, order, axis=1)
    votes = np.stack(
        [np.where(labels[order] == one, cosines, 0).sum(axis=1) for one in classes], axis=1
    )
    return [str(classes[at]) for at in votes.argmax(axis=1)]
