"""Caches the inputs of the merge queue: groups, vectors, similarities of pairs, the merge probability."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine.goals.clusters.neighbours import Neighbours
from engine.goals.merges.merge_probability import MergeModel
from engine.goals.merges.merge_state import Ids
from engine.goals.tables import answers as goal_answers
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import StoredClustering
from engine.goals.views.clustering_view import ClusteringView, Space, read_space
from engine.goals.views.decision_log import KEPT, DecisionLog
from engine.goals.views.goal_inputs import stored_clustering
from engine.goals.views.merge_features import fit_merge_model
from engine.goals.views.merge_queue import QueueSnapshot, queue_settings
from engine.goals.views.pair_table import PairTables
from engine.project.project import Project
from engine.project.sql import snapshot

_log = logging.getLogger(__name__)

WORTH_KEEPING = 50_000
"""Conversations from which the index of neighbours is stored; for fewer it is built within seconds."""


class MergeQueueCache:
    """Reads views of a project's clusterings and caches each until its inputs change. Safe to use from any thread.

    Attributes:
        decision_log: The decisions on the clusterings.
    """

    def __init__(
        self, project: Project, decision_log: DecisionLog, folder: Path | None = None
    ) -> None:
        """Indexes of neighbours are stored in `folder`; None stores none."""
        self._project, self.decision_log, self._folder = project, decision_log, folder
        self._tables = PairTables(project)
        self._guard, self._reading_space = threading.Lock(), threading.Lock()
        self._views: dict[int, tuple[tuple[object, ...], ClusteringView]] = {}
        self._space: tuple[str, Space] | None = None
        self._learned: tuple[ClusteringView, MergeModel] | None = None

    def view(self, clustering_id: int) -> ClusteringView:
        """The current groups of a clustering; the same object until something of it changes.

        Raises:
            UsageError: There is no such clustering.
        """
        state = self.decision_log.state(clustering_id)
        with self._guard, self._project.reading() as conn, snapshot(conn):
            stored = stored_clustering(conn, clustering_id)
            version = (
                stored,
                clusterings.assigned_version(conn, clustering_id),
                goal_answers.repetitions(conn, clustering_id),
            )
            kept = self._views.get(clustering_id)
            if kept is not None and kept[0] == version and kept[1].state is state:
                return kept[1]
            view = ClusteringView.read(conn, stored, state)
            self._views.pop(clustering_id, None)
            self._views[clustering_id] = version, view
            while len(self._views) > KEPT:
                self._views.pop(next(iter(self._views)))
            return view

    def space(self, stored: StoredClustering) -> Space:
        """The vectors of a clustering (1.5 GB for a million conversations), read once."""
        # a lock of its own: reading a million vectors takes seconds, and other threads read groups meanwhile
        with self._reading_space, self._project.reading() as conn:
            kept = self._space
            known = kept[1] if kept is not None and kept[0] == stored.vector_config else None
            found = read_space(conn, stored.vector_config, known)
            self._space = stored.vector_config, found
        return found

    def neighbours(
        self, stored: StoredClustering, ids: Ids, note: Callable[[int, int], None]
    ) -> Neighbours:
        """The nearest-neighbour search among `ids`; the index of at least `WORTH_KEEPING` conversations is stored.

        Args:
            ids: Ascending; each has a vector.
            note: Called with conversations done and in all while an index is built; may raise to stop.
        """
        rows = self.space(stored).of(ids)
        if self._folder is None or len(ids) < WORTH_KEEPING:
            return Neighbours.build(rows, "", note=note)
        # one file for each project; the hash shows whether it was built from these vectors
        name = hashlib.sha256(os.path.realpath(self._project.path).encode()).hexdigest()[:16]
        which = hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
        try:
            return Neighbours.load_or_build(self._folder / f"{name}.hnsw", rows, which, note=note)
        except OSError as error:  # such as a full disk: the search works without the stored index
            _log.warning("the index of neighbors was not stored: %s", error)
            return Neighbours.build(rows, which, note=note)

    def snapshot(self, clustering_id: int) -> QueueSnapshot:
        """The merge queue of a clustering as it is now.

        Raises:
            UsageError: There is no such clustering.
        """
        view = self.view(clustering_id)
        table = self._tables.table(view, self.space(view.stored))
        with self._project.reading() as conn:
            order, least_similarity = queue_settings(conn)
        known = self._learned
        if known is None or known[0] is not view:
            known = view, fit_merge_model(self.decision_log.active(clustering_id))
            self._learned = known
        return QueueSnapshot(table, known[1], order, least_similarity)
