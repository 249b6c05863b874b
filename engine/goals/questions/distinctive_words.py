"""The words that distinguish a cluster from the others, for clusters without a label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.goals.embedders.tfidf import MOST_CHARS, term_counter
from engine.goals.embedders.vectors import Numbers

TEXTS = 500
"""Texts of a cluster that are read, drawn by the seed; they show its common words."""


def distinctive_words(
    texts: Sequence[str], labels: Numbers, count: int = 5, seed: int = 0
) -> dict[int, tuple[str, ...]]:
    """The most distinctive words of each cluster, the most distinctive first.

    A word's weight is the share of the cluster's texts that have it times the logarithm of how rare it is in the
    average cluster (TF-IDF over clusters, after Grootendorst 2022, BERTopic; counted by texts, so that one text that
    repeats itself does not name the cluster).

    Args:
        texts: One for each label; may be read lazily.
        labels: Cluster numbers; negative ones are left out.
        count: Words a cluster at most.

    Returns:
        An entry for each cluster, empty where its texts have no distinctive word.
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
        # Equal weights in the order of the alphabet, which is that of the columns.
        best = np.argsort(-weights[place], kind="stable")[:count]
        found[number] = tuple(str(names[term]) for term in best if weights[place, term] > 0)
    return found
