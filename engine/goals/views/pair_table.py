"""The similarities of all pairs of groups of a clustering, and the answers of a model on them.

Each measure is a square matrix over the current groups (`PairTable`). `PairTables` computes them, and keeps in memory
what decisions do not change.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.base.arrays import Floats
from engine.base.errors import UsageError
from engine.goals.clusters.granularity import Granularity, find_granularity
from engine.goals.clusters.neighbors import NearestRows, Neighbors, measure_mixing, measure_overlap
from engine.goals.merges.merge_probability import RobustScale
from engine.goals.records import Clustering, Ids, Pair, PairAnswer
from engine.goals.tables import clusterings, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.model.embedders.embedder import Embedder, embedder_for, embedder_from_state
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import Indices, Vectors
from engine.project.project import Project

NEIGHBORS_PER_MEMBER = 10
"""Nearest neighbors of each sampled member that the overlap counts."""
MAX_SAMPLED_MEMBERS = 4_000
"""Most members among which nearest neighbors are searched, which takes a second; more change the overlap little."""
MAX_MIXED_MEMBERS = 2_000
"""Most of these members that are compared with one another to tell which groups mix."""
SEED = 0
"""Seed of the sample of members and of the TF-IDF of labels."""
IN_PROCESS_EMBEDDERS = ("tfidf", "minilm")
"""Embedders that run in this process. The others serve one caller at a time, so they are not used for labels."""


@dataclass(frozen=True, eq=False)
class PairTable:
    """The similarities of all pairs of current groups, as square matrices with rows and columns in the order of `keys`.

    Attributes:
        view: The clustering with its current groups.
        keys: Ids of the groups.
        description: Cosines of the vectors of labels and descriptions.
        description_scale: Median and spread of these cosines over the pairs of the original clusters.
        member: Cosines of the centers.
        scaled_similarity, threshold: Scaled similarity of members, and its value above which two groups are more
            probably one goal than two; see `engine.goals.clusters.granularity`.
        member_threshold: Cosine of the centers at which the scaled similarity of a pair would be the threshold.
        overlap: Share of the neighbors of one group's sampled members that are in the other; the larger of both
            directions.
        mixing: Share of one group's sampled members whose nearest neighbor outside the group is in the other; the
            larger of both directions.
        sizes: Number of members, shape (groups,).
        answers: Answers of the model by key of the pair (`MergeState.sides_key`).
    """

    view: ClusteringView
    keys: tuple[str, ...]
    description: Floats
    description_scale: RobustScale
    member: Floats
    scaled_similarity: Floats
    threshold: float
    member_threshold: Floats
    overlap: Floats
    mixing: Vectors
    sizes: Floats
    answers: Mapping[str, PairAnswer]

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """The row of each group in the matrices."""
        return {key: row for row, key in enumerate(self.keys)}

    @cached_property
    def open_pairs(self) -> list[Pair]:
        """The undecided pairs, each with the larger group first."""
        return [self.ordered(*pair) for pair in self.view.state.open_pairs()]

    def ordered(self, a: str, b: str) -> Pair:
        """Returns both ids, the larger group first."""
        first, second = self.view.state.sides(a, b)
        return first.id, second.id

    def rows_and_columns(self, pairs: Sequence[Pair]) -> tuple[Indices, Indices]:
        """Returns the rows and columns of pairs in the matrices."""
        first = np.array([self.row_of[a] for a, _ in pairs], dtype=np.int64)
        return first, np.array([self.row_of[b] for _, b in pairs], dtype=np.int64)

    def answer(self, pair: Pair) -> PairAnswer | None:
        """Returns the model's answer on a pair with its current members; None if it was not asked."""
        return self.answers.get(self.view.state.sides_key(*pair)) if self.answers else None


class PairTables:
    """Computes pair tables and caches the parts that decisions do not change."""

    def __init__(self, project: Project) -> None:
        """Computes nothing yet."""
        self._project = project
        # each cached value stands behind what it was made from; it is valid while that is the same
        self._guard = threading.RLock()
        self._embedder: tuple[str, Embedder | None] | None = None
        self._label_vectors: dict[str, Vectors] = {}
        self._near: tuple[Space, Indices, NearestRows] | None = None
        self._cosines: tuple[Space, Ids, Vectors] | None = None
        self._granularity: tuple[int, Granularity] | None = None
        self._table: tuple[tuple[object, ...], PairTable] | None = None

    def table(self, view: ClusteringView, space: Space) -> PairTable:
        """Returns the table of a view; the last one if nothing changed.

        Raises:
            UsageError: The embedder of the clustering is not installed here.
        """
        stored = view.stored
        with self._guard:
            with self._project.reading() as conn:
                answer_count = goal_decisions.answer_count(conn, stored.pair_config)
            version = (view, len(space.ids), stored.pair_config, answer_count)
            if self._table is not None and self._table[0] == version:
                return self._table[1]
            with self._project.reading() as conn:
                answers = goal_decisions.answers(conn, stored.pair_config)
            keys = tuple(view.sizes)
            centers = view.centers(keys, space).astype(np.float64)
            sizes = np.array([view.state.groups[key].size for key in keys], dtype=np.float64)
            goal_granularity = self._granularity_of(view, space)
            sums = np.array([view.mean(key, space) for key in keys]) * sizes[:, None]
            description, scale = self._descriptions(view, keys)
            table = PairTable(
                view=view,
                keys=keys,
                description=description,
                description_scale=scale,
                member=np.clip(centers @ centers.T, -1, 1),
                scaled_similarity=goal_granularity.scaled_similarity(sums, sizes),
                threshold=goal_granularity.threshold,
                member_threshold=goal_granularity.cosine_at_threshold(sums, sizes),
                overlap=self._overlaps(view, keys, space),
                mixing=self._mixing(view, keys, space),
                sizes=sizes,
                answers=answers,
            )
            self._table = version, table
            return table

    def sampled_cosines(self, view: ClusteringView, space: Space) -> tuple[Ids, Vectors]:
        """Returns the ids of a sample of members, ascending, and the cosine of each pair of them, shape (ids, ids)."""
        with self._guard:
            if self._cosines is None or self._cosines[0] is not space:
                sample, _ = self._neighbors(view, space)
                sample = _draw(sample, MAX_MIXED_MEMBERS)
                rows = space.rows[sample]
                self._cosines = space, space.ids[sample], rows @ rows.T
            _, sampled_ids, cosines = self._cosines
            return sampled_ids, cosines

    def _descriptions(
        self, view: ClusteringView, keys: Sequence[str]
    ) -> tuple[Floats, RobustScale]:
        """Returns the cosines of labels and descriptions of the groups, shape (groups, groups), and their scale over
        the original clusters."""
        cluster_texts = [
            _as_text(cluster.label, cluster.description)
            if cluster.by_model
            else _as_text(" ".join(cluster.words), "")
            for cluster in view.clusters
        ]
        # A label that is a phrase of members says less than their words, by which such groups are compared.
        text_by_name = {
            (cluster.name, cluster.description): text
            for cluster, text in zip(view.clusters, cluster_texts, strict=True)
        }
        groups = [view.state.groups[key] for key in keys]
        names = [(group.label, group.description) for group in groups]
        texts = [text_by_name.get(name) or _as_text(*name) for name in names]
        embedder = self._own_embedder(view.stored)
        if embedder is None:
            embedder = TfidfEmbedder(seed=SEED)
            embedder.fit([*cluster_texts, *texts])
            self._label_vectors.clear()
        new_texts = sorted({*texts, *cluster_texts}.difference(self._label_vectors))
        if new_texts:
            self._label_vectors.update(zip(new_texts, embedder.embed(new_texts), strict=True))
        rows, cluster_rows = (
            np.array([self._label_vectors[text] for text in text_list], dtype=np.float64)
            for text_list in (texts, cluster_texts)
        )
        pairs = np.triu_indices(len(cluster_rows), 1)
        return np.clip(rows @ rows.T, -1, 1), RobustScale.of((cluster_rows @ cluster_rows.T)[pairs])

    def _granularity_of(self, view: ClusteringView, space: Space) -> Granularity:
        """Returns the granularity of the original clusters, which no decision changes."""
        if self._granularity is None or self._granularity[0] != view.stored.id:
            with self._project.reading() as conn:
                ids, numbers = clusterings.membership(conn, view.stored.id)
            labels = np.full(len(space.ids), clusterings.OUTLIER, dtype=np.int32)
            labels[np.searchsorted(space.ids, np.asarray(ids))] = np.asarray(numbers)
            self._granularity = (
                view.stored.id,
                find_granularity(space.rows, labels, view.stored.seed),
            )
        return self._granularity[1]

    def _own_embedder(self, stored: Clustering) -> Embedder | None:
        """Returns the embedder that made the vectors, where it runs in this process; None elsewhere."""
        if self._embedder is None or self._embedder[0] != stored.vector_config:
            with self._project.reading() as conn:
                config = vectors.config(conn, stored.vector_config)
            embedder: Embedder | None = None
            try:
                if config is not None and config.state is not None:
                    embedder = embedder_from_state(config.embedder, config.state)
                elif stored.embedder in IN_PROCESS_EMBEDDERS:
                    embedder = embedder_for(stored.embedder)
            except UsageError:
                embedder = None  # not installed here; TF-IDF replaces it
            self._embedder = stored.vector_config, embedder
            self._label_vectors.clear()
        return self._embedder[1]

    def _overlaps(self, view: ClusteringView, keys: Sequence[str], space: Space) -> Floats:
        """Returns the overlap of each pair of groups, shape (groups, groups), the larger of both directions."""
        sample, near = self._neighbors(view, space)
        ids, numbers = view.state.group_indices(keys)
        labels = numbers[np.searchsorted(ids, space.ids[sample])]
        shares = measure_overlap(near, np.arange(len(sample)), labels, len(keys)).toarray()
        larger_shares: Floats = np.maximum(shares, shares.T)
        return larger_shares

    def _mixing(self, view: ClusteringView, keys: Sequence[str], space: Space) -> Vectors:
        """Returns how each pair of groups mixes, shape (groups, groups), the larger of both directions."""
        sampled_ids, cosines = self.sampled_cosines(view, space)
        ids, numbers = view.state.group_indices(keys)
        shares = measure_mixing(cosines, numbers[np.searchsorted(ids, sampled_ids)], len(keys))
        return np.maximum(shares, shares.T)

    def _neighbors(self, view: ClusteringView, space: Space) -> tuple[Indices, NearestRows]:
        """Returns the rows of a sample of members, and the nearest neighbors of each within the sample."""
        if self._near is None or self._near[0] is not space:
            is_clustered = np.isin(space.ids, view.state.conversation_ids, assume_unique=True)
            sampled_rows = _draw(np.flatnonzero(is_clustered), MAX_SAMPLED_MEMBERS)
            rows = space.rows[sampled_rows]
            near = Neighbors(rows).of_rows(
                np.arange(len(rows)), min(NEIGHBORS_PER_MEMBER, len(rows) - 1)
            )
            self._near = space, sampled_rows, near
        return self._near[1], self._near[2]


def _draw(rows: Indices, most: int) -> Indices:
    """Returns at most so many of some rows, drawn at random, ascending."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(SEED).choice(rows, most, replace=False))


def _as_text(label: str, description: str) -> str:
    """Returns a label and its description as one text to embed."""
    return f"{label}. {description}"
