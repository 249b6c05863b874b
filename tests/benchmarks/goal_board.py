"""A merge desk in memory, without a model: automatic merging."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.base.arrays import Floats
from engine.goals.clusters.clustering import Clusters
from engine.goals.clusters.granularity import find_granularity
from engine.goals.clusters.neighbors import Neighbors, measure_mixing
from engine.goals.labels.distinctive_words import distinctive_words
from engine.goals.merges.merge_probability import NAMES, PRIOR, RobustScale, refit, standardize
from engine.goals.views.merge_queue import MAX_MIXED_MEMBERS, MIN_MIXING
from engine.model.embedders.embedder import Embedder
from engine.model.embedders.vectors import Indices, Numbers, Vectors

NEIGHBORS = 10
WORDS = 8
THRESHOLD = 0.5
NO_DECISIONS = refit(PRIOR, np.empty((0, len(NAMES))), [])


class Board:
    """Groups that stand, as numbers of clusters.

    Attributes:
        labels: Group of each row; negative for outliers.
        threshold: Of the scaled similarity, as `granularity` found it.
    """

    def __init__(
        self,
        vectors: Vectors,
        clusters: Clusters,
        seed: int,
        texts: Sequence[str],
        embedder: Embedder,
    ) -> None:
        self.labels = clusters.labels.copy()
        self._granularity = find_granularity(vectors, self.labels, seed)
        self.threshold = self._granularity.threshold
        k, inside = clusters.k, np.flatnonzero(self.labels >= 0)
        own = self.labels[inside]
        self._sums = np.zeros((k, vectors.shape[1]))
        np.add.at(self._sums, own, vectors[inside])
        self._sizes = np.bincount(own, minlength=k).astype(float)
        near = Neighbors(vectors[inside]).of_rows(
            np.arange(len(inside)), min(NEIGHBORS, len(inside) - 1)
        )
        self._links = np.zeros((k, k))
        np.add.at(self._links, (np.repeat(own, near.rows.shape[1]), own[near.rows.ravel()]), 1)
        mixed = inside
        if len(mixed) > MAX_MIXED_MEMBERS:
            rng = np.random.default_rng(0)
            mixed = np.sort(rng.choice(mixed, MAX_MIXED_MEMBERS, replace=False))
        self._mixed, self._cosines = mixed, vectors[mixed] @ vectors[mixed].T
        words = distinctive_words(texts, clusters.labels, WORDS, seed)
        said = embedder.embed([" ".join(words[number]) + ". " for number in range(k)])
        self._label_vectors = np.asarray(said, dtype=float)
        self._description_scale = RobustScale.of(
            (self._label_vectors @ self._label_vectors.T)[np.triu_indices(k, 1)]
        )
        self._alive = list(range(k))
        self._count = k

    def copy(self) -> Board:
        """Another board with the same on it."""
        other = object.__new__(Board)
        other.__dict__.update(self.__dict__)
        for name in ("labels", "_sums", "_sizes", "_links", "_label_vectors"):
            setattr(other, name, getattr(self, name).copy())
        other._alive = self._alive.copy()
        return other

    def pairs(self) -> tuple[Indices, Indices]:
        """Pairs of groups that stand, both sides of shape (pairs,)."""
        alive = np.array(self._alive, dtype=np.int64)
        first, second = np.triu_indices(len(alive), 1)
        return alive[first], alive[second]

    def features(self, a: Indices, b: Indices) -> Floats:
        """Features of pairs; what only a model could say is not known."""
        alive = np.array(self._alive, dtype=np.int64)
        place = np.full(self._count, -1)
        place[alive] = np.arange(len(alive))
        at = place[a], place[b]
        links = self._links[np.ix_(alive, alive)]
        shares = links / np.maximum(1, links.sum(axis=1, keepdims=True))
        unknown = np.full(len(a), np.nan)
        return standardize(
            scaled_similarity=self._granularity.scaled_similarity(
                self._sums[alive], self._sizes[alive]
            )[at],
            threshold=self.threshold,
            description=np.einsum("id,id->i", self._label_vectors[a], self._label_vectors[b]),
            description_scale=self._description_scale,
            overlap=np.maximum(shares, shares.T)[at],
            yes=unknown,
            yes_reversed=unknown,
            sizes=(self._sizes[a], self._sizes[b]),
        )

    def mix(self, a: Indices, b: Indices) -> npt.NDArray[np.bool_]:
        """Whether the members of both sides of each pair mix, as the rule of merges asks, shape (pairs,)."""
        shares = measure_mixing(self._cosines, self.labels[self._mixed], self._count)
        mixes: npt.NDArray[np.bool_] = np.maximum(shares, shares.T)[a, b] >= MIN_MIXING
        return mixes

    def merge(self, a: int, b: int) -> None:
        """Puts the members of `b` into `a`, which keeps the name of the larger."""
        if self._sizes[b] > self._sizes[a]:
            self._label_vectors[a] = self._label_vectors[b]
        self._sums[a] += self._sums[b]
        self._sizes[a] += self._sizes[b]
        self._links[a] += self._links[b]
        self._links[:, a] += self._links[:, b]
        self._alive.remove(b)
        self.labels[self.labels == b] = a


def merged(board: Board) -> Numbers:
    """Labels after the most probable pair of groups that mix was merged again and again, down to `THRESHOLD`; `board`
    stays."""
    board = board.copy()
    while True:
        a, b = board.pairs()
        mix = board.mix(a, b)
        a, b = a[mix], b[mix]
        if not len(a):
            return board.labels
        p = NO_DECISIONS.probabilities(board.features(a, b))
        best = int(p.argmax())
        if p[best] < THRESHOLD:
            return board.labels
        board.merge(int(a[best]), int(b[best]))


def every_threshold(board: Board) -> list[Numbers]:
    """Labels at every merge probability that merging could stop at, from no merge on, whether groups mix or not;
    `board` stays."""
    board = board.copy()
    found = [board.labels.copy()]
    while True:
        a, b = board.pairs()
        if not len(a):
            return found
        best = int(NO_DECISIONS.probabilities(board.features(a, b)).argmax())
        board.merge(int(a[best]), int(b[best]))
        found.append(board.labels.copy())
