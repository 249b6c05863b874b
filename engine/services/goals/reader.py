"""Looking at clusterings: groups, their members, the map and drift; `desk` decides on them."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Literal

import numpy as np

from engine.errors import UsageError
from engine.goals.clusters.projection import project2d
from engine.goals.embedders.vectors import Floats, blocks
from engine.goals.merges.merge_state import Ids
from engine.records.goals import (
    ClusteringRow,
    GoalGroup,
    GroupPeriod,
    MapPoint,
    MemberOrder,
    MemberRow,
)
from engine.store import clusterings, conversations, goal_counts, goal_decisions
from engine.store.project import Project
from engine.store.sql import snapshot
from engine.views.clustering_view import (
    Figures,
    GoalView,
    Space,
    figures_version,
    group_row,
    group_rows,
)
from engine.views.decision_log import DecisionLog
from engine.views.goal_inputs import source_of, stored_clustering
from engine.views.merge_queue_cache import MergeQueueCache

MAP_SEED = 0
PERIODS: dict[str, Literal["month", "import"]] = {"month": "month", "import": "import"}


class GoalReader:
    """What is known of the clustering that is shown. What was read is kept until something of it changes."""

    def __init__(self, project: Project, kept: DecisionLog, standing: MergeQueueCache) -> None:
        self._project, self._kept, self._standing = project, kept, standing
        self._guard = threading.Lock()
        self._figures: tuple[tuple[object, ...], Figures] | None = None

    # Clusterings

    def clusterings(self) -> list[ClusteringRow]:
        """See `engine.services.goals.port.Goals`."""
        with self._project.reading() as conn, snapshot(conn):
            return [
                ClusteringRow(
                    id=stored.id,
                    config_hash=stored.config_hash,
                    run_id=stored.run_id,
                    created_at=stored.created_at,
                    text=stored.text,
                    embedder=stored.embedder,
                    k=stored.k,
                    seed=stored.seed,
                    conversations=stored.conversations,
                    groups=goal_decisions.group_count(conn, stored.id),
                    outliers=stored.outliers,
                    without=stored.no_text,
                    novel=clusterings.assigned_version(conn, stored.id)[1],
                )
                for stored in clusterings.clusterings(conn)
            ]

    def shown(self) -> ClusteringRow | None:
        """See `engine.services.goals.port.Goals`."""
        with self._project.reading() as conn:
            key = clusterings.shown(conn)
        return next((row for row in self.clusterings() if row.id == key), None)

    # Groups

    def groups(self) -> list[GoalGroup]:
        """See `engine.services.goals.port.Goals`."""
        if self.shown() is None:
            return []
        view = self.view()
        return group_rows(view, self.figures(view), self._space_if_needed(view))

    def group(self, group_id: str) -> GoalGroup | None:
        """See `engine.services.goals.port.Goals`."""
        view = self.view()
        if group_id in view.sizes:
            return next(row for row in self.groups() if row.id == group_id)
        if group_id not in view.desk.groups:
            return None
        space = None if view.mean(group_id) is not None else self._standing.space(view.stored)
        return group_row(view, group_id, space)

    def members(
        self, group_id: str | None, order: MemberOrder = "central", limit: int | None = None
    ) -> list[MemberRow]:
        """See `engine.services.goals.port.Goals`."""
        view = self.view()
        if group_id is not None and group_id not in view.desk.groups:
            raise UsageError(f"There is no group {group_id}.")
        ids = view.members(group_id)
        keys, own = list(view.sizes), group_id
        if own is not None and own not in view.sizes:
            # what a group that was merged away is measured against are those that stand beside what it became
            keys = [own, *(key for key in keys if key != view.desk.now(own))]
        distance, doubt, other = self._places(view, ids, keys, own)
        if order == "name":
            with self._project.reading() as conn:
                names = {row.id: row.external_id for row in conversations.rows(conn, ids.tolist())}
            best = sorted(range(len(ids)), key=lambda at: (names.get(int(ids[at]), ""), at))
        else:
            best = np.lexsort((ids, distance if order == "central" else -doubt)).tolist()
        best = best[:limit]
        labels = [view.desk.groups[key].label for key in keys]
        return self._rows(
            view,
            [
                (int(ids[at]), float(distance[at]), float(doubt[at]), _at(labels, int(other[at])))
                for at in best
            ],
        )

    def more_like(self, conversation_id: int, limit: int = 50) -> list[MemberRow]:
        """See `engine.services.goals.port.Goals`."""
        view = self.view()
        space = self._standing.space(view.stored)
        wanted = space.of(np.array([conversation_id], dtype=np.int64))
        if not len(wanted):
            raise UsageError(
                "This conversation has no vector.", "Assign what came after the clustering first."
            )
        near = np.concatenate([space.rows[part] @ wanted[0] for part in blocks(len(space.ids))])
        near[np.searchsorted(space.ids, conversation_id)] = -2
        best = np.argsort(-near, kind="stable")[: min(limit, len(near) - 1)]
        ids = space.ids[best]
        keys = list(view.sizes)
        _, doubt, other = self._places(view, ids, keys, None)
        labels = [view.desk.groups[key].label for key in keys]
        return self._rows(
            view,
            [
                (
                    int(ids[n]),
                    max(0.0, 1 - float(near[at])),
                    float(doubt[n]),
                    _at(labels, int(other[n])),
                )
                for n, at in enumerate(best)
            ],
        )

    def map(self, most: int = 5000) -> list[MapPoint]:
        """See `engine.services.goals.port.Goals`."""
        view = self.view()
        space = self._standing.space(view.stored)
        chosen = np.arange(len(space.ids))
        if len(chosen) > most:
            chosen = np.array(sorted(random.Random(MAP_SEED).sample(range(len(chosen)), most)))
        if not len(chosen):
            return []
        places = project2d(space.rows[chosen], MAP_SEED)
        rank = np.frombuffer(view.map_of_groups, dtype=">u2")
        keys = [None, *view.sizes, None]
        ids = space.ids[chosen]
        group = np.where(ids < len(rank), rank[np.minimum(ids, len(rank) - 1)], 0)
        return [
            MapPoint(int(key), float(x), float(y), keys[int(at)])
            for key, (x, y), at in zip(ids, places, group, strict=True)
        ]

    def periods(self, by: str = "month") -> list[GroupPeriod]:
        """See `engine.services.goals.port.Goals`."""
        if by not in PERIODS:
            raise UsageError(f"There are no periods by {by}.", "Ask by month or by import.")
        view = self.view()
        with self._project.reading() as conn:
            found = goal_counts.periods(conn, view.map_of_groups, PERIODS[by])
        whole: dict[str, int] = {}
        for period, rank, size, _ in found:
            if rank:  # a conversation that the clustering does not know has no share in it
                whole[period] = whole.get(period, 0) + size
        keys = list(view.sizes)
        return [
            GroupPeriod(period, keys[rank - 1], size, size / whole[period], states)
            for period, rank, size, states in found
            if 0 < rank <= len(keys)
        ]

    # Within

    def view(self) -> GoalView:
        """The clustering that is shown, as it stands.

        Raises:
            UsageError: There is none.
        """
        with self._project.reading() as conn:
            stored = stored_clustering(conn, None)
        return self._standing.view(stored.id)

    def figures(self, view: GoalView) -> Figures:
        """States and leaves of its groups, as scores and trees are now."""
        with self._project.reading() as conn, snapshot(conn):
            version = (view, *figures_version(conn))
            with self._guard:
                kept = self._figures
            if kept is not None and kept[0] == version:
                return kept[1]
            found = Figures.read(conn, view)
        with self._guard:
            self._figures = version, found
        return found

    def _space_if_needed(self, view: GoalView) -> Space | None:
        return self._standing.space(view.stored) if view.needs_space() else None

    def _places(
        self, view: GoalView, ids: Ids, keys: Sequence[str], own: str | None
    ) -> tuple[Floats, Floats, Floats]:
        """Of each conversation the distance to the centre of `own`, by default of the nearest group, that divided by
        the distance to the nearest other one, and the place of that other one in `keys`; -1 where there is none."""
        space = self._standing.space(view.stored)
        centres = view.centres(keys, space)
        distance, doubt = np.ones(len(ids), np.float32), np.ones(len(ids), np.float32)
        other = np.full(len(ids), -1, np.float32)
        for part in blocks(len(ids)):
            away = np.maximum(0, 1 - space.of(ids[part]) @ centres.T)
            line = np.arange(len(away))
            mine = away.argmin(axis=1) if own is None else np.full(len(away), keys.index(own))
            distance[part] = away[line, mine]
            if len(keys) > 1 or own is None:
                beside = away.copy()
                if len(keys) > 1:
                    beside[line, mine] = np.inf
                other[part] = beside.argmin(axis=1) if own is not None else mine
                doubt[part] = distance[part] / np.maximum(1e-6, beside.min(axis=1))
        return distance, doubt, other

    def _rows(
        self, view: GoalView, wanted: Sequence[tuple[int, float, float, str]]
    ) -> list[MemberRow]:
        """Rows for (conversation, distance, doubt, label of the nearest other group)."""
        ids = [key for key, _, _, _ in wanted]
        with self._project.reading() as conn, snapshot(conn):
            texts = source_of(view.stored).shown.read(conn, ids)
            rows = {row.id: row for row in conversations.rows(conn, ids)}
        return [
            MemberRow(
                key, rows[key].external_id, entry.text, distance, doubt, other, rows[key].state
            )
            for (key, distance, doubt, other), entry in zip(wanted, texts, strict=True)
        ]


def _at(labels: Sequence[str], place: int) -> str:
    return labels[place] if place >= 0 else ""
