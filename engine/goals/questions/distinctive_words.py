"""Words that distinguish a cluster from the others; they name clusters without a label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.model.embedders.tfidf import MOST_CHARS, term_counter
from engine.model.embedders.vectors import Numbers

TEXTS = 500
"""Most texts of a cluster that are read; of more, a random sample."""


def distinctive_words(
    texts: Sequence[str], labels: Numbers, count: int = 5, seed: int = 0
) -> dict[int, tuple[str, ...]]:
    """The most distinctive words of each cluster, the most distinctive first.

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
    rng = np.random.default_rng([seed, 0x776F])
    numbers = [int(number) for number in np.unique(labels) if number >= 0]
    picked: list[str] = []
    owners: list[int] = []
    for place, number in enumerate(numbers):
        rows = np.flatnonzero(labels == number)
        if len(rows) > TEXTS:
            rows = np.sort(rng.choice(rows, TEXTS, replace=False))
        picked += [texts[int(row)][:MOST_CHARS] for row in rows]
        owners += [place] * len(rows)
    none: dict[int, tuple[str, ...]] = dict.fromkeys(numbers, ())
    counter = term_counter(least=1, longest=1)
    try:
        counts = counter.fit_transform(picked)
    except ValueError:  # no words at all
        return none
    counts.data[:] = 1
    from scipy.sparse import csr_matrix

    where = (owners, np.arange(len(owners)))
    groups = csr_matrix((np.ones(len(owners), dtype=np.float32), where))
    shares = np.asarray((groups @ counts).todense())
    shares /= np.bincount(owners)[:, None]
    weights = shares * np.log1p(1 / np.maximum(shares.mean(axis=0), 1e-9))
    names = counter.get_feature_names_out()
    found = dict(none)
    for place, number in enumerate(numbers):
        # The columns are in alphabetical order, and so are words of equal weight.
        best = np.argsort(-weights[place], kind="stable")[:count]
        found[number] = tuple(str(names[term]) for term in best if weights[place, term] > 0)
    return found
