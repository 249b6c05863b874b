"""The merge queue: the undecided pairs of groups in an order, and the evidence for merging each; and the cache of what
they are computed from: groups, vectors, similarities of all pairs, the merge probability."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.arrays import Floats
from engine.goals.merges import merge_probability
from engine.goals.merges.merge_probability import NAMES, MergeModel, prior_for, rank_pairs, refit
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
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.pair_table import PairTable, PairTables
from engine.model.embedders.vectors import Vectors
from engine.project.project import Project
from engine.project.sql import snapshot

SPOKEN_YES = 0.9
"""Probability of yes that a spoken yes counts as: less than sure, because nobody knows how sure the model was."""
MIN_MIXING = 0.4
"""Least share of the members of one of two groups whose nearest neighbor outside it lies in the other, for which the
rule merges them (docs/lab/goals.md)."""


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
                self._space = version, Space.read(conn, stored.vector_config)
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


def named_features(row: Floats) -> dict[str, float | None]:
    """Returns the features of one pair by name, None for NaN, as they are stored with a decision."""
    values = (None if np.isnan(value) else float(value) for value in row)
    return dict(zip(NAMES, values, strict=True))
