"""The merge queue: the undecided pairs of groups in an order, and the evidence for merging each.

- `PairTable` has the similarities of all pairs of current groups and the answers of a model on them; `PairTables` makes
  it, and keeps what no decision changes.
- `QueueSnapshot` adds the merge probability, fitted to the decisions so far: order, evidence, proposals.
- `MergeQueueCache` is what services and stages ask: it reads groups and vectors of a clustering, and keeps them until
  something changes.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.base.arrays import Floats
from engine.base.errors import UsageError
from engine.goals.clusters.granularity import Granularity, find_granularity
from engine.goals.clusters.neighbors import NearestRows, Neighbors, measure_mixing, measure_overlap
from engine.goals.merges import merge_probability
from engine.goals.merges.merge_probability import (
    NAMES,
    MergeModel,
    RobustScale,
    prior_for,
    rank_pairs,
    refit,
)
from engine.goals.records import (
    LIKELY,
    NOT_ASKED,
    Clustering,
    Evidence,
    GoalDecision,
    GoalGroup,
    Ids,
    MergeOrder,
    Pair,
    PairAnswer,
    Proposal,
)
from engine.goals.tables import clusterings, measurements, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.goals.views.decision_log import DecisionLog
from engine.model.embedders.embedder import Embedder, embedder_for, embedder_from_state
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import Indices, Vectors
from engine.project.project import Project
from engine.project.sql import snapshot

SPOKEN_YES = 0.9
"""Probability of yes that a spoken yes counts as: less than sure, because nobody knows how sure the model was."""
MIN_MIXING = 0.4
"""Least share of the members of one of two groups whose nearest neighbor outside it lies in the other, for which the
rule merges them (docs/lab/goals.md)."""
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
            answer_count = self._project.read(goal_decisions.answer_count, stored.pair_config)
            version = (view, len(space.ids), stored.pair_config, answer_count)
            if self._table is not None and self._table[0] == version:
                return self._table[1]
            answers = self._project.read(goal_decisions.answers, stored.pair_config)
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
        # A label that is a phrase of members says less than their words, by which such groups are compared.
        text_by_key, text_by_name = {}, {}
        for cluster in view.clusters:
            text = (
                _as_text(cluster.label, cluster.description)
                if cluster.by_model
                else _as_text(" ".join(cluster.words), "")
            )
            text_by_key[f"c{cluster.number}"] = text
            text_by_name[cluster.name, cluster.description] = text
        cluster_texts = list(text_by_key.values())
        texts = []
        for key in keys:
            group = view.state.groups[key]
            name = group.label, group.description
            # A group that was merged or renamed may still have the name of a cluster.
            as_named = text_by_name.get(name) or _as_text(*name)
            texts.append(text_by_key[key] if group.named_by is None else as_named)
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
            ids, numbers = self._project.read(clusterings.membership, view.stored.id)
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
            config = self._project.read(vectors.config, stored.vector_config)
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
        shares = measure_overlap(near, labels, len(keys)).toarray()
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
    """Returns at most `most` of some rows, drawn at random, ascending."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(SEED).choice(rows, most, replace=False))


def _as_text(label: str, description: str) -> str:
    """Returns a label and its description as one text to embed."""
    return f"{label}. {description}"


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """A snapshot of the pairs of groups of a clustering, with the merge probability fitted to the decisions so far.

    Attributes:
        table: The current groups and the similarities of their pairs.
        model: The merge probability, fitted to the decisions so far.
    """

    table: PairTable
    model: MergeModel

    @property
    def order(self) -> MergeOrder:
        """Which pair comes first: after 20 decisions on the most informative ones the merge probability can decide the
        rest (docs/lab/goals.md); as in the paper it is the most similar one."""
        return "similarity" if self.table.view.stored.paper else "informative"

    def ordered_pairs(self, order: MergeOrder | None = None) -> list[Pair]:
        """Returns the undecided pairs, the next to decide first, in an order; None stands for that of the desk."""
        table, pairs = self.table, self.table.open_pairs
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

    def unasked_pairs(self) -> list[Pair]:
        """Returns the undecided pairs that the model was not asked about, the next to decide first."""
        return [pair for pair in self.ordered_pairs() if not self.was_asked(pair)]

    def was_asked(self, pair: Pair) -> bool:
        """Returns whether the model was asked about a pair with the members that its groups have now."""
        return self.table.answer(pair) is not None

    def mixing_pairs(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Returns those of the pairs whose groups mix, in their order."""
        if not pairs:
            return []
        shares = self.table.mixing[self.table.rows_and_columns(pairs)]
        return [pair for pair, share in zip(pairs, shares, strict=True) if share >= MIN_MIXING]

    def probabilities(self, pairs: Sequence[Pair]) -> Floats:
        """Returns the merge probability of each pair, shape (pairs,)."""
        return self.model.probabilities(pair_features(self.table, pairs))

    def likely_pairs(self, pairs: Sequence[Pair]) -> list[Pair]:
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
            values = (None if np.isnan(value) else float(value) for value in row)
            evidence = Evidence(
                probability=float(probability),
                description_similarity=float(table.description[first, second]),
                member_similarity=float(table.member[first, second]),
                overlap=float(table.overlap[first, second]),
                answer=table.answer(pair) or NOT_ASKED,
                features=dict(zip(NAMES, values, strict=True)),
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
                after=group_by_id[a].states + group_by_id[b].states,
                why=why,
            )
            for (a, b), evidence in zip(pairs, self.evidence(pairs), strict=True)
        ]


class MergeQueueCache:
    """Reads views of a project's clusterings and caches each until its inputs change. Safe to use from any thread.

    Attributes:
        decision_log: The decisions on the clusterings.
    """

    def __init__(self, project: Project, decision_log: DecisionLog) -> None:
        """Reads nothing yet."""
        self._project, self.decision_log = project, decision_log
        self._tables = PairTables(project)
        self._guard, self._reading_space = threading.Lock(), threading.Lock()
        # each cached value stands beside what it was made from; it is valid while that is the same
        self._view: tuple[tuple[object, ...], ClusteringView] | None = None
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
            if self._view is not None:
                cached_version, cached_view = self._view
                if cached_version == version and cached_view.state is state:
                    return cached_view
            view = ClusteringView.read(conn, stored, state)
            self._view = version, view
            return view

    def shown(self, conn: sqlite3.Connection) -> ClusteringView | None:
        """Returns the current goals; None before anything was clustered."""
        shown = clusterings.goals_clustering_id(conn)
        return None if shown is None else self.view(shown)

    def space(self, stored: Clustering) -> Space:
        """Returns the vectors of a clustering (1.5 GB for a million conversations), read once."""
        # a lock of its own: reading a million vectors takes seconds, and other threads read groups meanwhile
        with self._reading_space, self._project.reading() as conn:
            version = stored.vector_config, vectors.count(conn, stored.vector_config)
            if self._space is None or self._space[0] != version:
                self._space = version, Space(*vectors.read_vectors(conn, stored.vector_config))
            return self._space[1]

    def sampled_cosines(self, view: ClusteringView) -> tuple[Ids, Vectors]:
        """Returns the ids of a sample of members, ascending, and the cosine of each pair of them, shape (ids, ids)."""
        return self._tables.sampled_cosines(view, self.space(view.stored))

    def snapshot(self, clustering_id: int) -> QueueSnapshot:
        """Returns the merge queue of a clustering as it is now.

        Raises:
            UsageError: There is no such clustering.
        """
        view = self.view(clustering_id)
        table = self._tables.table(view, self.space(view.stored))
        cached_model = self._model
        if cached_model is None or cached_model[0] is not view:
            cached_model = view, fit_merge_model(self.decision_log.active(clustering_id))
            self._model = cached_model
        _, model = cached_model
        return QueueSnapshot(table, model)


def pair_features(table: PairTable, pairs: Sequence[Pair]) -> Floats:
    """Returns the features of each pair, shape (pairs, features), NaN where the model was not asked; see
    `engine.goals.merges.merge_probability`."""
    rows_and_columns = table.rows_and_columns(pairs)
    first_rows, second_rows = rows_and_columns
    answers = [table.answer(pair) for pair in pairs]

    def values_of(read: Callable[[PairAnswer], float | None]) -> Floats:
        """Returns a value of each answer, shape (pairs,); NaN where there is none."""
        values = [None if answer is None else read(answer) for answer in answers]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    return merge_probability.standardize(
        scaled_similarity=table.scaled_similarity[rows_and_columns],
        threshold=table.threshold,
        description=table.description[rows_and_columns],
        description_scale=table.description_scale,
        overlap=table.overlap[rows_and_columns],
        yes=values_of(lambda answer: _probability(answer, answer.yes)),
        yes_reversed=values_of(lambda answer: _probability(answer, answer.yes_reversed)),
        sizes=(table.sizes[first_rows], table.sizes[second_rows]),
    )


def _probability(answer: PairAnswer, yes: float | None) -> float | None:
    """Returns the probability of yes of an answer; what was said without one counts as `SPOKEN_YES`, or
    one minus that."""
    if yes is None or not answer.spoken:
        return yes
    return SPOKEN_YES if yes else 1 - SPOKEN_YES


def fit_merge_model(decisions: Sequence[GoalDecision]) -> MergeModel:
    """Returns the merge probability fitted to the decisions of people; decisions without stored features are
    ignored."""
    rows: list[list[float]] = []
    merged: list[bool] = []
    for decision in decisions:
        features = (decision.evidence or {}).get("features")
        if decision.kind not in ("merge", "apart", "never") or decision.decided_by != "human":
            continue
        if isinstance(features, dict):
            values = (features.get(name) for name in NAMES)
            rows.append([np.nan if value is None else float(value) for value in values])
            merged.append(decision.kind == "merge")
    features = np.array(rows, dtype=np.float64).reshape(len(merged), len(NAMES))
    return refit(prior_for(features[:, NAMES.index("yes")], merged), features, merged)
