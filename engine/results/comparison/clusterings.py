"""Two clusterings of the same conversations side by side."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.base.statistics.partitions import adjusted_rand
from engine.goals.records import NAMELESS
from engine.goals.views.clustering_view import ClusteringView
from engine.results.comparison.records import ClusteringComparison, GroupMatch

Counts = npt.NDArray[np.int64]


def compare_clusterings(first: ClusteringView, second: ClusteringView) -> ClusteringComparison:
    """Compares the current groups of two clusterings over the conversations that both contain."""
    ranks = [np.frombuffer(view.map_of_groups, dtype=">u2") for view in (first, second)]
    length = min(map(len, ranks))
    one, two = (column[:length].astype(np.int64) for column in ranks)
    known = (one > 0) & (two > 0)
    shape = len(first.sizes) + 1, len(second.sizes) + 1  # the last is no group
    shared: Counts = np.zeros(shape, np.int64)
    np.add.at(shared, (one[known] - 1, two[known] - 1), 1)
    labels = [
        [*(view.state.groups[key].label or NAMELESS for key in view.sizes), None]
        for view in (first, second)
    ]
    grouped = shared[:-1, :-1]
    return ClusteringComparison(
        first.stored.id,
        second.stored.id,
        int(grouped.sum()),
        adjusted_rand(grouped),
        tuple(
            _match(label or NAMELESS, row, shared, labels[1])
            for label, row in zip(labels[0][:-1], shared[:-1], strict=True)
        ),
    )


def _match(label: str, row: Counts, shared: Counts, others: list[str | None]) -> GroupMatch:
    size = int(row.sum())
    union = size + shared[:, :-1].sum(axis=0) - row[:-1]
    best = float((row[:-1] / np.maximum(union, 1)).max(initial=0.0))
    order = [at for at in np.argsort(-row, kind="stable") if row[at]]
    return GroupMatch(label, size, best, tuple((others[at], int(row[at])) for at in order))
