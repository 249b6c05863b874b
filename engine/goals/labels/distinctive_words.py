"""The words that distinguish clusters, by how many texts of each contain them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.model.embedders.tfidf import MAX_TEXT_CHARS, term_counter
from engine.model.embedders.vectors import Numbers

_WORD_DRAW = 0x776F
"""Stands beside the seed for the draw of the texts, so that it differs from other draws ("wo")."""
MAX_TEXTS_FOR_WORDS = 500
"""Most texts of a cluster that are read; of more, a random sample."""


def distinctive_words(
    texts: Sequence[str], labels: Numbers, count: int = 5, seed: int = 0
) -> dict[int, tuple[str, ...]]:
    """Returns the most distinctive words of each cluster, the most distinctive first.

    The weight of a word is the share of the cluster's texts that contain it times log(1 + 1 / its mean share over
    clusters). That is the class-based TF-IDF of Grootendorst (2022, BERTopic), but counts texts instead of occurrences,
    so that one repetitive text does not name the cluster.

    Args:
        texts: One for each label; may be a lazy sequence.
        labels: Cluster of each text; negative ones are ignored.
        count: Most words for a cluster.
        seed: Seed of the sample of texts.

    Returns:
        Words by cluster; empty for a cluster without a distinctive word.
    """
    rng = np.random.default_rng([seed, _WORD_DRAW])
    numbers = [int(number) for number in np.unique(labels) if number >= 0]
    picked: list[str] = []
    owners: list[int] = []
    for index, number in enumerate(numbers):
        rows = np.flatnonzero(labels == number)
        if len(rows) > MAX_TEXTS_FOR_WORDS:
            rows = np.sort(rng.choice(rows, MAX_TEXTS_FOR_WORDS, replace=False))
        picked += [texts[int(row)][:MAX_TEXT_CHARS] for row in rows]
        owners += [index] * len(rows)
    none: dict[int, tuple[str, ...]] = dict.fromkeys(numbers, ())
    counter = term_counter(least=1, longest=1)
    try:
        counts = counter.fit_transform(picked)
    except ValueError:  # no words at all
        return none
    counts.data[:] = 1  # a word counts once for a text
    from scipy.sparse import csr_matrix

    # `groups` has the shape (clusters, texts), 1 where a text is of a cluster; `counts` (texts, words), 1 where it has
    # a word. Their product counts texts by cluster and word.
    where = (owners, np.arange(len(owners)))
    groups = csr_matrix((np.ones(len(owners), dtype=np.float32), where))
    shares = np.asarray((groups @ counts).todense())
    shares /= np.bincount(owners)[:, None]
    weights = shares * np.log1p(1 / np.maximum(shares.mean(axis=0), 1e-9))
    names = counter.get_feature_names_out()
    words_by_cluster = dict(none)
    for index, number in enumerate(numbers):
        # The columns are in alphabetical order, and so are words of equal weight.
        best = np.argsort(-weights[index], kind="stable")[:count]
        words_by_cluster[number] = tuple(
            str(names[term]) for term in best if weights[index, term] > 0
        )
    return words_by_cluster
