"""How alike the groups of a desk are, and what a model answered on them: what its queue and its rules go by."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from engine.errors import UsageError
from engine.goals.clusters.granularity import Granularity, granularity
from engine.goals.clusters.neighbours import Near, Neighbours, overlap
from engine.goals.embedders.embedder import Embedder, embedder_for, embedder_from_state
from engine.goals.embedders.tfidf import TfidfEmbedder
from engine.goals.embedders.vectors import Indices, Vectors
from engine.goals.merges.features import RobustScale
from engine.records.goals import Pair
from engine.store import clusterings, goal_answers, vectors
from engine.store.clusterings import StoredClustering
from engine.store.goal_answers import PairAnswer
from engine.store.project import Project
from engine.views.clustering_view import ClusteringView, Space

Floats = npt.NDArray[np.float64]

NEIGHBOURS = 10
SAMPLE = 4_000
"""Members whose neighbours are looked at, among themselves: more tell little more of how far groups run into each
other, and so many are compared with each other in a second."""
SEED = 0
LIVE_HERE = ("tfidf", "minilm")
"""Embedders that run in this process; others answer to one caller at a time, who is not disturbed for a few words."""


@dataclass(frozen=True, eq=False)
class PairTable:
    """The groups that stand, with square matrices in the order of `keys`.

    Attributes:
        description: Cosines of what they are called.
        usual_description: What is usual of these between the clusters that the work began with.
        member: Cosines of their centres.
        closeness, threshold: How alike their members are, and from where on they are rather one; see
            `engine.goals.clusters.granularity`.
        overlap: Share of the sampled members of one whose neighbours lie in the other; the larger of both ways.
        sizes: Members.
        answers: Of the model, by key of the pair (`Desk.sides_key`).
    """

    view: ClusteringView
    keys: tuple[str, ...]
    description: Floats
    usual_description: RobustScale
    member: Floats
    closeness: Floats
    threshold: float
    overlap: Floats
    sizes: Floats
    answers: Mapping[str, PairAnswer]

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Where in the matrices a group is."""
        return {key: at for at, key in enumerate(self.keys)}

    @cached_property
    def open_pairs(self) -> list[Pair]:
        """Pairs of which nothing was decided, the larger first."""
        return [self.ordered(*pair) for pair in self.view.state.open_pairs()]

    def ordered(self, a: str, b: str) -> Pair:
        """Both in the order of a question."""
        first, second = self.view.state.sides(a, b)
        return first.id, second.id

    def at(self, pairs: Sequence[Pair]) -> tuple[Indices, Indices]:
        """Rows and columns of pairs in the matrices."""
        first = np.array([self.place[a] for a, _ in pairs], dtype=np.int64)
        return first, np.array([self.place[b] for _, b in pairs], dtype=np.int64)

    def answer(self, pair: Pair) -> PairAnswer | None:
        """What the model answered on a pair as its sides are now; None before it was asked."""
        return self.answers.get(self.view.state.sides_key(*pair)) if self.answers else None

    def nearest(self, key: str, but: str, count: int) -> tuple[tuple[str, float], ...]:
        """Labels of the groups nearest to one by their centres, with the cosine, without another one."""
        row = self.member[self.place[key]]
        order = [self.keys[int(n)] for n in np.argsort(-row, kind="stable")]
        found = [other for other in order if other not in (key, but)][:count]
        groups = self.view.state.groups
        return tuple((groups[other].label, float(row[self.place[other]])) for other in found)


class PairTables:
    """Makes tables, and keeps what they share from one decision to the next."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._guard = threading.Lock()
        self._embedder: tuple[str, Embedder | None] | None = None
        self._said: dict[str, Vectors] = {}
        self._near: tuple[Space, Indices, Near] | None = None
        self._grain: tuple[int, Granularity] | None = None
        self._table: tuple[tuple[object, ...], PairTable] | None = None

    def table(self, view: ClusteringView, space: Space) -> PairTable:
        """The table of a view; the one made last where nothing changed.

        Raises:
            UsageError: The embedder of the clustering is not installed here.
        """
        stored = view.stored
        with self._guard:
            with self._project.reading() as conn:
                asked = goal_answers.count(conn, stored.pair_config)
            version = (view, len(space.ids), stored.pair_config, asked)
            if self._table is not None and self._table[0] == version:
                return self._table[1]
            with self._project.reading() as conn:
                answers = goal_answers.every_answer(conn, stored.pair_config)
            keys = tuple(view.sizes)
            centres = view.centres(keys, space).astype(np.float64)
            sizes = np.array([view.state.groups[key].size for key in keys], dtype=np.float64)
            found = self._grain_of(view, space)
            sums = np.array([view.mean(key, space) for key in keys]) * sizes[:, None]
            description, usual = self._descriptions(view, keys)
            table = PairTable(
                view,
                keys,
                description,
                usual,
                np.clip(centres @ centres.T, -1, 1),
                found.closeness(sums, sizes),
                found.threshold,
                self._overlaps(view, keys, space),
                sizes,
                answers,
            )
            self._table = version, table
            return table

    def _descriptions(
        self, view: ClusteringView, keys: Sequence[str]
    ) -> tuple[Floats, RobustScale]:
        """Cosines of what groups are called, and what is usual of them between the clusters as they were labelled."""
        begun = [_called(c.label or " ".join(c.words), c.description) for c in view.clusters]
        # A group that is called by its first words stands for all of them, or it would be compared with less than what
        # is usual was taken from.
        whole = {
            (cluster.called, cluster.description): text
            for cluster, text in zip(view.clusters, begun, strict=True)
        }
        groups = [view.state.groups[key] for key in keys]
        names = [(group.label, group.description) for group in groups]
        texts = [whole.get(name) or _called(*name) for name in names]
        embedder = self._own_embedder(view.stored)
        if embedder is None:
            embedder = TfidfEmbedder(seed=SEED)
            embedder.fit([*begun, *texts])
            self._said.clear()
        new = sorted({*texts, *begun}.difference(self._said))
        if new:
            self._said.update(zip(new, embedder.embed(new), strict=True))
        rows, before = (
            np.array([self._said[text] for text in some], dtype=np.float64)
            for some in (texts, begun)
        )
        pairs = np.triu_indices(len(before), 1)
        return np.clip(rows @ rows.T, -1, 1), RobustScale.of((before @ before.T)[pairs])

    def _grain_of(self, view: ClusteringView, space: Space) -> Granularity:
        """How broad goals are among the clusters, which no decision changes."""
        if self._grain is None or self._grain[0] != view.stored.id:
            with self._project.reading() as conn:
                ids, numbers = clusterings.membership(conn, view.stored.id)
            labels = np.full(len(space.ids), clusterings.NONE, dtype=np.int32)
            labels[np.searchsorted(space.ids, np.asarray(ids))] = np.asarray(numbers)
            self._grain = view.stored.id, granularity(space.rows, labels, view.stored.seed)
        return self._grain[1]

    def _own_embedder(self, stored: StoredClustering) -> Embedder | None:
        """That which made the vectors, where it runs in this process."""
        if self._embedder is None or self._embedder[0] != stored.vector_config:
            with self._project.reading() as conn:
                config = vectors.config(conn, stored.vector_config)
            found: Embedder | None = None
            try:
                if config is not None and config.state is not None:
                    found = embedder_from_state(config.embedder, config.state)
                elif stored.embedder in LIVE_HERE:
                    found = embedder_for(stored.embedder)
            except UsageError:
                found = None  # made on another machine: words do for words
            self._embedder = stored.vector_config, found
            self._said.clear()
        return self._embedder[1]

    def _overlaps(self, view: ClusteringView, keys: Sequence[str], space: Space) -> Floats:
        sample, near = self._neighbours(view, space)
        everyone, numbers = view.state.numbers(keys)
        labels = numbers[np.searchsorted(everyone, space.ids[sample])]
        shares = overlap(near, np.arange(len(sample)), labels, len(keys)).toarray()
        found: Floats = np.maximum(shares, shares.T)
        return found

    def _neighbours(self, view: ClusteringView, space: Space) -> tuple[Indices, Near]:
        """Rows of sampled members of the clustering, and the neighbours of each among them."""
        if self._near is None or self._near[0] is not space:
            inside = np.flatnonzero(np.isin(space.ids, view.state.everyone, assume_unique=True))
            if len(inside) > SAMPLE:
                rng = np.random.default_rng(SEED)
                inside = np.sort(rng.choice(inside, SAMPLE, replace=False))
            rows = space.rows[inside]
            near = Neighbours(rows, "").of_rows(
                np.arange(len(rows)), min(NEIGHBOURS, len(rows) - 1)
            )
            self._near = space, inside, near
        return self._near[1], self._near[2]


def _called(label: str, description: str) -> str:
    return f"{label}. {description}"
