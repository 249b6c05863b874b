"""Rows on the conversations of a clustering: members of groups, similar conversations, the map, sizes over time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotFound, NotYet, UsageError
from engine.completeness.tables import scores
from engine.conversations.tables.conversations import names
from engine.goals.clusters.kmeans import canonical_order
from engine.goals.records import GroupPeriod, Ids, MapPoint, MemberOrder, MemberRow
from engine.goals.tables import groups
from engine.goals.tables.clusterings import source_of
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.model.embedders.tfidf import one_thread
from engine.model.embedders.vectors import Floats, Vectors, blocks, has_vector
from engine.project.project import Project
from engine.project.sql import snapshot

MAP_SEED = 0
PERIODS: dict[str, Literal["month", "import"]] = {"month": "month", "import": "import"}


def group_members(
    project: Project,
    view: ClusteringView,
    space: Space,
    group_id: str | None,
    order: MemberOrder,
    limit: int | None,
) -> list[MemberRow]:
    """The members of a current or former group, or of no group for None; at most `limit` rows in the given order.

    Raises:
        UsageError: There never was such a group.
    """
    if group_id is not None and group_id not in view.state.groups:
        raise NotFound(f"There is no group {group_id}.")
    ids = view.members(group_id)
    keys = list(view.sizes)
    if group_id is not None and group_id not in view.sizes:
        # a former group is compared with the current groups other than the one that it became
        keys = [group_id, *(key for key in keys if key != view.state.current_of(group_id))]
    distance, doubt, other = _distances(view, space, ids, keys, group_id)
    if order == "name":
        with project.reading() as conn:
            external_ids = names(conn, ids.tolist())
        best = sorted(range(len(ids)), key=lambda at: (external_ids.get(int(ids[at]), ""), at))
    else:
        measure = distance if order == "central" else -doubt
        # processors round the last digits differently; of those that agree before them the smaller id comes first
        best = np.lexsort((ids, measure.round(5))).tolist()
    best = best[:limit]
    return _rows(project, view, keys, ids[best], distance[best], doubt[best], other[best])


def similar_conversations(
    project: Project, view: ClusteringView, space: Space, conversation_id: int, limit: int
) -> list[MemberRow]:
    """The conversations with the nearest vectors to that of `conversation_id`, nearest first, with the distance to it.

    Raises:
        UsageError: It has no vector.
    """
    wanted = space.of(np.array([conversation_id], dtype=np.int64))
    if not len(wanted):
        raise NotYet(
            "This conversation has no vector.", "Assign what came after the clustering first."
        )
    near = np.concatenate([space.rows[part] @ wanted[0] for part in blocks(len(space.ids))])
    near[np.searchsorted(space.ids, conversation_id)] = -2
    best = np.argsort(-near, kind="stable")[: min(limit, len(near) - 1)]
    ids, keys = space.ids[best], list(view.sizes)
    distance = np.maximum(0, 1 - near[best].astype(np.float64))
    _, doubt, other = _distances(view, space, ids, keys, None)
    return _rows(project, view, keys, ids, distance, doubt, other)


def map_points(view: ClusteringView, space: Space, most: int) -> list[MapPoint]:
    """The vectors of at most `most` conversations, drawn with a fixed seed, in two dimensions."""
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


def group_periods(project: Project, view: ClusteringView, by: str) -> list[GroupPeriod]:
    """Sizes and shares of the groups by `month` or by `import`, oldest first.

    Raises:
        UsageError: There are no such periods.
    """
    if by not in PERIODS:
        raise UsageError(f"There are no periods by {by}.", "Ask by month or by import.")
    with project.reading() as conn:
        found = groups.periods(conn, view.map_of_groups, PERIODS[by])
    whole: dict[str, int] = {}
    for period, rank, size, _ in found:
        if rank:  # 0 are conversations that the clustering does not know
            whole[period] = whole.get(period, 0) + size
    keys = list(view.sizes)
    return [
        GroupPeriod(period, keys[rank - 1], size, size / whole[period], states)
        for period, rank, size, states in found
        if 0 < rank <= len(keys)
    ]


def _distances(
    view: ClusteringView, space: Space, ids: Ids, keys: Sequence[str], own: str | None
) -> tuple[Floats, Floats, Floats]:
    """Three arrays of shape (conversations,): cosine distance to the center of group `own`, or of the nearest group if
    `own` is None; that distance divided by the distance to the nearest other group; index in `keys` of that other group
    (of the nearest group if `own` is None), -1 if there is none."""
    centres = view.centres(keys, space)
    distance, doubt = np.ones(len(ids), np.float32), np.ones(len(ids), np.float32)
    other = np.full(len(ids), -1, np.float32)
    for part in blocks(len(ids)):
        away = np.maximum(0, 1 - space.of(ids[part]) @ centres.T)
        line = np.arange(len(away))
        mine = away.argmin(axis=1) if own is None else np.full(len(away), keys.index(own))
        distance[part] = away[line, mine]
        if len(keys) > 1 or own is None:
            elsewhere = away.copy()
            if len(keys) > 1:
                elsewhere[line, mine] = np.inf
            other[part] = elsewhere.argmin(axis=1) if own is not None else mine
            doubt[part] = distance[part] / np.maximum(1e-6, elsewhere.min(axis=1))
    return distance, doubt, other


def _rows(
    project: Project,
    view: ClusteringView,
    keys: Sequence[str],
    ids: Ids,
    distance: npt.NDArray[np.floating[Any]],
    doubt: Floats,
    other: Floats,
) -> list[MemberRow]:
    wanted = ids.tolist()
    with project.reading() as conn, snapshot(conn):
        texts = source_of(view.stored).shown.read(conn, wanted)
        external_ids, states = names(conn, wanted), scores.states(conn, wanted)
    labels = [view.state.groups[key].label for key in keys]
    return [
        MemberRow(
            key,
            external_ids[key],
            entry.text,
            float(distance[at]),
            float(doubt[at]),
            labels[int(other[at])] if other[at] >= 0 else "",
            states[key],
        )
        for at, (key, entry) in enumerate(zip(wanted, texts, strict=True))
    ]


FIT_ROWS = 50_000


_EDGE = 0.995
"""Quantile of the absolute coordinates that is scaled to 1; larger ones are clipped, so that one extreme row does not
compress the map."""


def project2d(vectors: Vectors, seed: int = 0) -> Floats:
    """First two principal components of each row, shape (n, 2), in [-1, 1]; (0, 0) for a row of zeros.

    Both axes have the same scale. Fitted on at most `FIT_ROWS` rows, sampled by the seed. The sign of each axis is
    chosen so that its largest loading is positive, which keeps the map from flipping between runs.
    """
    found = np.zeros((len(vectors), 2), dtype=np.float32)
    live = has_vector(vectors)
    rows = np.flatnonzero(live)
    if not len(rows):
        return found
    sample = vectors[canonical_order(vectors, rows, seed)[:FIT_ROWS]].astype(np.float64)
    centre = sample.mean(axis=0)
    sample -= centre
    with one_thread():
        _, axes = np.linalg.eigh(sample.T @ sample)
    axes = axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    for part in blocks(len(vectors)):
        found[part, : axes.shape[1]] = (vectors[part] - centre) @ axes
    found[~live] = 0
    scale = float(np.quantile(np.abs(found[rows]), _EDGE, axis=0).max())
    if scale > 0:
        found /= scale
    return np.clip(found, -1, 1, out=found)
