"""What is left to decide on a clustering at one moment: the pairs, what is known of them, the merge probability."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.goals.clusters.neighbours import Neighbours
from engine.goals.merges.merge_probability import MergeModel
from engine.goals.merges.merge_state import Ids, MergeState
from engine.records.goals import DeskOrder, Evidence, Pair
from engine.store import clusterings, goal_answers
from engine.store.clusterings import StoredClustering
from engine.store.project import Project
from engine.store.sql import snapshot
from engine.views.clustering_view import GoalView, Space, read_space
from engine.views.decision_log import KEPT, DecisionLog
from engine.views.goal_inputs import stored_clustering
from engine.views.merge_features import learned, pair_features
from engine.views.merge_queue import chosen, evidence_of, queued, undecided
from engine.views.pair_table import PairTable, PairTables

_log = logging.getLogger(__name__)

WORTH_KEEPING = 50_000
"""Conversations from which an index of neighbours is kept: of fewer it is built within seconds."""


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """A desk at one moment. `order` and `floor` are those that a person chose."""

    table: PairTable
    model: MergeModel
    order: DeskOrder
    floor: float

    def left(self, order: DeskOrder | None = None) -> list[Pair]:
        """Undecided pairs above the floor, the next first; in an order of its own where one is given."""
        return queued(
            self.table, self.model, undecided(self.table, self.floor), order or self.order
        )

    def unasked(self) -> list[Pair]:
        """Those of them that the model was not asked about."""
        return [pair for pair in self.left() if not self.asked(pair)]

    def asked(self, pair: Pair) -> bool:
        """Whether the model was asked about a pair as its sides are."""
        return self.table.answer(pair) is not None

    def probability(self, pair: Pair) -> float:
        """Of a merge."""
        return float(self.model.probabilities(pair_features(self.table, [pair]))[0])

    def evidence(self, pairs: Sequence[Pair]) -> list[Evidence]:
        """What speaks for and against each."""
        return evidence_of(self.table, self.model, pairs)


class MergeQueueCache:
    """Reads moments; keeps what was read until something of it changes. May be used from any thread."""

    def __init__(self, project: Project, desks: DecisionLog, folder: Path | None = None) -> None:
        """`folder` is where indexes of neighbours are kept; None keeps none."""
        self._project, self._desks, self._folder = project, desks, folder
        self._tables = PairTables(project)
        self._guard, self._reading_space = threading.Lock(), threading.Lock()
        self._views: dict[int, tuple[tuple[object, ...], GoalView]] = {}
        self._space: tuple[str, Space] | None = None
        self._learned: tuple[GoalView, MergeModel] | None = None

    def desk(self, clustering_id: int) -> MergeState:
        """What stands; not to be changed."""
        return self._desks.desk(clustering_id)

    def view(self, clustering_id: int) -> GoalView:
        """A clustering as it stands; the same object until something of it changes.

        Raises:
            UsageError: There is no such clustering.
        """
        desk = self._desks.desk(clustering_id)
        with self._guard, self._project.reading() as conn, snapshot(conn):
            stored = stored_clustering(conn, clustering_id)
            version = (
                stored,
                clusterings.assigned_version(conn, clustering_id),
                goal_answers.repetitions(conn, clustering_id),
            )
            kept = self._views.get(clustering_id)
            if kept is not None and kept[0] == version and kept[1].desk is desk:
                return kept[1]
            view = GoalView.read(conn, stored, desk)
            self._views.pop(clustering_id, None)
            self._views[clustering_id] = version, view
            while len(self._views) > KEPT:
                self._views.pop(next(iter(self._views)))
            return view

    def space(self, stored: StoredClustering) -> Space:
        """The vectors of a clustering, of a million 1.5 GB; read once."""
        # a lock of its own: a million vectors take seconds, and groups can be looked at meanwhile
        with self._reading_space, self._project.reading() as conn:
            kept = self._space
            known = kept[1] if kept is not None and kept[0] == stored.vector_config else None
            found = read_space(conn, stored.vector_config, known)
            self._space = stored.vector_config, found
        return found

    def neighbours(
        self, stored: StoredClustering, ids: Ids, note: Callable[[int, int], None]
    ) -> Neighbours:
        """The neighbours among these conversations, which rise and have vectors; of many by an index that is kept.

        Args:
            note: Told conversations done and in all while an index is built; may raise to stop.
        """
        rows = self.space(stored).of(ids)
        if self._folder is None or len(ids) < WORTH_KEEPING:
            return Neighbours.build(rows, "", note=note)
        # one for each project; whether it is of these very vectors is seen by their bytes
        name = hashlib.sha256(os.path.realpath(self._project.path).encode()).hexdigest()[:16]
        which = hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
        try:
            return Neighbours.kept(self._folder / f"{name}.hnsw", rows, which, note=note)
        except OSError as error:  # a full disk: it can be had without
            _log.warning("the index of neighbours is not kept: %s", error)
            return Neighbours.build(rows, which, note=note)

    def now(self, clustering_id: int) -> QueueSnapshot:
        """The desk of a clustering as it is.

        Raises:
            UsageError: There is no such clustering.
        """
        view = self.view(clustering_id)
        table = self._tables.table(view, self.space(view.stored))
        with self._project.reading() as conn:
            order, floor = chosen(conn)
        known = self._learned
        if known is None or known[0] is not view:
            known = view, learned(self._desks.standing(clustering_id))
            self._learned = known
        return QueueSnapshot(table, known[1], order, floor)
