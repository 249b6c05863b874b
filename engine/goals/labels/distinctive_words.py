"""The words that distinguish clusters, by how many texts of each contain them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.model.embedders.tfidf import MAX_TEXT_CHARS, term_counter
from engine.model.embedders.vectors import Numbers

_SAMPLE_SALT = 0x776F
"""Added to the seed of the sample of texts, so that it differs from other samples with that seed ("wo")."""
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
    rng = np.random.default_rng([seed, _SAMPLE_SALT])
    cluster_numbers = [int(cluster) for cluster in np.unique(labels) if cluster >= 0]
    sampled_texts: list[str] = []
    cluster_indices: list[int] = []
    for index, cluster in enumerate(cluster_numbers):
        rows = np.flatnonzero(labels == cluster)
        if len(rows) > MAX_TEXTS_FOR_WORDS:
            rows = np.sort(rng.choice(rows, MAX_TEXTS_FOR_WORDS, replace=False))
        sampled_texts += [texts[int(row)][:MAX_TEXT_CHARS] for row in rows]
        cluster_indices += [index] * len(rows)
    words_by_cluster: dict[int, tuple[str, ...]] = dict.fromkeys(cluster_numbers, ())
    counter = term_counter(max_words=1)
    try:
        counts = counter.fit_transform(sampled_texts)
    except ValueError:  # no words at all
        return words_by_cluster
    counts.data[:] = 1  # a word counts once for a text
    from scipy.sparse import csr_matrix

    # `membership` has the shape (clusters, texts), 1 where a text is of a cluster; `counts` (texts, words), 1 where it
    # has a word. Their product counts texts by cluster and word.
    coordinates = (cluster_indices, np.arange(len(cluster_indices)))
    membership = csr_matrix((np.ones(len(cluster_indices), dtype=np.float32), coordinates))
    shares = np.asarray((membership @ counts).todense())
    shares /= np.bincount(cluster_indices)[:, None]
    weights = shares * np.log1p(1 / np.maximum(shares.mean(axis=0), 1e-9))
    terms = counter.get_feature_names_out()
    for index, cluster in enumerate(cluster_numbers):
        # The columns are in alphabetical order, and so are words of equal weight.
        top_columns = np.argsort(-weights[index], kind="stable")[:count]
        words_by_cluster[cluster] = tuple(
            str(terms[column]) for column in top_columns if weights[index, column] > 0
        )
    return words_by_cluster
