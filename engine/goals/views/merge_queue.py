"""The merge queue: undecided pairs of groups in an order, the evidence for merging each, and the cache of what they are
computed from: groups, vectors, similarities of pairs, the merge probability."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from engine.base.arrays import Floats
from engine.goals.merges.merge_probability import MergeModel, rank_pairs
from engine.goals.records import (
    LIKELY,
    NOT_ASKED,
    Clustering,
    Evidence,
    GoalGroup,
    Ids,
    MergeOrder,
    Pair,
    Proposal,
)
from engine.goals.tables import clusterings, measurements, vectors
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.goals.views.decision_log import MAX_CACHED_CLUSTERINGS, DecisionLog
from engine.goals.views.pair_table import (
    PairTable,
    PairTables,
    fit_merge_model,
    named_features,
    pair_features,
)
from engine.model.embedders.embedder import Embedder
from engine.model.embedders.vectors import Vectors
from engine.project import settings
from engine.project.project import Project
from engine.project.sql import snapshot

DEFAULT_LEAST_SIMILARITY = 0.0
"""Default of the least cosine of descriptions at which a pair is proposed. 0 proposes all pairs, also those with a
negative cosine: cosines of descriptions without a common word scatter around 0."""
DEFAULT_ORDER: MergeOrder = "informative"
"""Default order. After 20 decisions in this order the merge probability can decide the rest (docs/lab/goals.md)."""
MIN_MIXING = 0.4
"""Least share of the members of one of two groups whose nearest neighbor outside it lies in the other, for which the
rule merges them (docs/lab/goals.md)."""
QUEUE_SETTING = "desk"
"""Setting: `order` and `floor` of the merge desk: the chosen order, and the least similarity of a proposed pair."""
NEAREST_GROUPS = 3
"""Number of nearest other groups that a proposal lists for each of its groups."""


def queue_settings(conn: sqlite3.Connection, *, paper: bool) -> tuple[MergeOrder, float]:
    """Returns the stored order and least similarity; the default for a value that is missing or unknown, which for a
    clustering as in the paper is its order."""
    stored = settings.get(conn, QUEUE_SETTING, {})
    default = "similarity" if paper else DEFAULT_ORDER
    order = next((o for o in get_args(MergeOrder) if o == stored.get("order")), default)
    least = stored.get("floor")
    return order, float(least) if isinstance(least, int | float) else DEFAULT_LEAST_SIMILARITY


def put_order(conn: sqlite3.Connection, order: MergeOrder) -> None:
    """Stores the order of the merge queue."""
    _put_setting(conn, "order", order)


def put_least_similarity(conn: sqlite3.Connection, similarity: float) -> None:
    """Stores the similarity of descriptions below which no pair is proposed."""
    _put_setting(conn, "floor", similarity)


def _put_setting(conn: sqlite3.Connection, name: str, value: str | float) -> None:
    """Stores one of the values of `QUEUE_SETTING`."""
    stored = settings.get(conn, QUEUE_SETTING, {})
    settings.put(conn, QUEUE_SETTING, {**stored, name: value})


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """A snapshot of the pairs of groups of a clustering, with the merge probability fitted to the decisions so far.

    Attributes:
        table: The current groups and the similarities of their pairs.
        model: The merge probability, fitted to the decisions so far.
        order: Order that the person chose.
        least_similarity: Similarity of descriptions below which a pair is not proposed.
    """

    table: PairTable
    model: MergeModel
    order: MergeOrder
    least_similarity: float

    def ordered_pairs(self, order: MergeOrder | None = None) -> list[Pair]:
        """Returns the undecided pairs that are proposed, the next to decide first, in an order; None stands for the
        order that the person chose."""
        table, pairs = self.table, self._undecided()
        if not pairs:
            return []
        first, second = table.rows_and_columns(pairs)
        # The last argument is the share of all ordered pairs of conversations that each pair of groups joins.
        ranking = rank_pairs(
            order or self.order,
            self.model,
            pair_features(table, pairs),
            table.description[first, second],
            table.sizes[first] * table.sizes[second] / table.sizes.sum() ** 2,
        )
        return [pairs[index] for index in ranking]

    def unasked(self) -> list[Pair]:
        """Returns the proposed pairs that the model was not asked about, the next to decide first."""
        return [pair for pair in self.ordered_pairs() if not self.asked(pair)]

    def asked(self, pair: Pair) -> bool:
        """Returns whether the model was asked about a pair with the members that its groups have now."""
        return self.table.answer(pair) is not None

    def mixing(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Returns those of the pairs whose groups mix, in their order."""
        if not pairs:
            return []
        shares = self.table.mixing[self.table.rows_and_columns(pairs)]
        return [pair for pair, share in zip(pairs, shares, strict=True) if share >= MIN_MIXING]

    def probabilities(self, pairs: Sequence[Pair]) -> Floats:
        """Returns the merge probability of each pair, shape (pairs,)."""
        return self.model.probabilities(pair_features(self.table, pairs))

    def to_merge(self, pairs: Sequence[Pair]) -> tuple[float, tuple[float, float]]:
        """Returns the expected number of these pairs that are one goal, and its 90% range, widened to hold it: the
        range is that of other weights of the merge probability and may miss it."""
        expected = float(self.probabilities(pairs).sum())
        low, high = self.model.count_range(pair_features(self.table, pairs))
        return expected, (min(low, expected), max(high, expected))

    def likely(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Returns those of the pairs whose merge probability is at least `LIKELY`, in their order."""
        return [
            pair for pair, p in zip(pairs, self.probabilities(pairs), strict=True) if p >= LIKELY
        ]

    def evidence(self, pairs: Sequence[Pair]) -> list[Evidence]:
        """Returns the evidence for and against merging each pair."""
        all_evidence = []
        table, features = self.table, pair_features(self.table, pairs)
        probabilities = self.model.probabilities(features)
        for pair, row, probability in zip(pairs, features, probabilities, strict=True):
            first, second = (table.row_of[key] for key in pair)
            evidence = Evidence(
                probability=float(probability),
                description_similarity=float(table.description[first, second]),
                member_similarity=float(table.member[first, second]),
                overlap=float(table.overlap[first, second]),
                answer=table.answer(pair) or NOT_ASKED,
                features=named_features(row),
                member_threshold=float(table.member_threshold[first, second]),
            )
            all_evidence.append(evidence)
        return all_evidence

    def proposals(
        self, pairs: Sequence[Pair], groups: Sequence[GoalGroup], why: str
    ) -> list[Proposal]:
        """Returns a proposal for each pair.

        Args:
            groups: The current groups of the clustering.
            why: Why these pairs are proposed, in words.
        """
        group_by_id = {group.id: group for group in groups}
        return [
            Proposal(
                a=group_by_id[a],
                b=group_by_id[b],
                evidence=evidence,
                near_a=self.table.nearest(a, b, NEAREST_GROUPS),
                near_b=self.table.nearest(b, a, NEAREST_GROUPS),
                after=group_by_id[a].states + group_by_id[b].states,
                why=why,
            )
            for (a, b), evidence in zip(pairs, self.evidence(pairs), strict=True)
        ]

    def _undecided(self) -> list[Pair]:
        """Returns the undecided pairs whose descriptions are similar enough to be proposed."""
        pairs = self.table.open_pairs
        if not pairs or self.least_similarity <= 0:
            return pairs
        is_similar = (
            self.table.description[self.table.rows_and_columns(pairs)] >= self.least_similarity
        )
        return [pair for pair, similar in zip(pairs, is_similar, strict=True) if similar]


class MergeQueueCache:
    """Reads views of a project's clusterings and caches each until its inputs change. Safe to use from any thread.

    Attributes:
        decision_log: The decisions on the clusterings.
    """

    def __init__(self, project: Project, decision_log: DecisionLog) -> None:
        self._project, self.decision_log = project, decision_log
        self._tables = PairTables(project)
        self._guard, self._reading_space = threading.Lock(), threading.Lock()
        # each cached value stands beside what it was made from; it is valid while that is the same
        self._views: dict[int, tuple[tuple[object, ...], ClusteringView]] = {}
        self._space: tuple[tuple[str, int], Space] | None = None
        self._model: tuple[ClusteringView, MergeModel] | None = None

    def view(self, clustering_id: int) -> ClusteringView:
        """Returns the current groups of a clustering; the same object until something of it changes.

        Raises:
            UsageError: There is no such clustering.
        """
        state = self.decision_log.state(clustering_id)
        with self._guard, self._project.reading() as conn, snapshot(conn):
            stored = stored_clustering(conn, clustering_id)
            version = (
                stored,
                clusterings.assigned_version(conn, clustering_id),
                measurements.repetition_count(conn, clustering_id),
            )
            if cached := self._views.get(clustering_id):
                cached_version, cached_view = cached
                if cached_version == version and cached_view.state is state:
                    return cached_view
            view = ClusteringView.read(conn, stored, state)
            self._views.pop(
                clustering_id, None
            )  # put at the end again: the one read longest ago goes first
            self._views[clustering_id] = version, view
            while len(self._views) > MAX_CACHED_CLUSTERINGS:
                self._views.pop(next(iter(self._views)))
            return view

    def shown(self, conn: sqlite3.Connection) -> ClusteringView | None:
        """Returns the current goals; None before anything was clustered."""
        shown = clusterings.shown_id(conn)
        return None if shown is None else self.view(shown)

    def space(self, stored: Clustering) -> Space:
        """Returns the vectors of a clustering (1.5 GB for a million conversations), read once."""
        # a lock of its own: reading a million vectors takes seconds, and other threads read groups meanwhile
        with self._reading_space, self._project.reading() as conn:
            version = stored.vector_config, vectors.count(conn, stored.vector_config)
            if self._space is None or self._space[0] != version:
                self._space = version, Space.read(conn, stored.vector_config)
            return self._space[1]

    def sampled_cosines(self, view: ClusteringView) -> tuple[Ids, Vectors]:
        """Returns the ids of a sample of members, ascending, and the cosine of each pair of them, shape (ids, ids)."""
        return self._tables.sampled_cosines(view, self.space(view.stored))

    def embed_labels(self, stored: Clustering, embedder: Embedder) -> None:
        """Takes the embedder of a run for the labels of its clustering, until another clustering is read."""
        self._tables.embed_labels(stored.vector_config, embedder)

    def snapshot(self, clustering_id: int) -> QueueSnapshot:
        """Returns the merge queue of a clustering as it is now.

        Raises:
            UsageError: There is no such clustering.
        """
        view = self.view(clustering_id)
        table = self._tables.table(view, self.space(view.stored))
        with self._project.reading() as conn:
            order, least_similarity = queue_settings(conn, paper=view.stored.paper)
        cached_model = self._model
        if cached_model is None or cached_model[0] is not view:
            cached_model = view, fit_merge_model(self.decision_log.active(clustering_id))
            self._model = cached_model
        _, model = cached_model
        return QueueSnapshot(table, model, order, least_similarity)
