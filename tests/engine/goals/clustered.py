"""Small clusterings in a project file."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence

from engine.goals.merges.merge_state import MergeState
from engine.goals.tables import vectors
from engine.goals.tables.clusterings import Cluster
from engine.goals.tables.vectors import VectorConfig
from engine.project import runs
from engine.project.project import Project
from tests.engine.project.support import fill, talk

VECTORS = VectorConfig("vectors", "first-user", None, "tfidf", "tfidf-1", 2, b"fitted")


def row(x: float, y: float) -> bytes:
    """A vector in its stored form."""
    return struct.pack("<2f", x, y)


def run_of(conn: sqlite3.Connection) -> int:
    """A run to which the rows belong."""
    return runs.create(conn, stage="cluster", config_hash="x", params={}, fingerprints={})


def conversations_with_vectors(project: Project, count: int) -> int:
    """Imports conversations with ids from 1, all with a vector but the last; returns a run."""
    fill(
        project,
        [
            talk(f"talk-{n}", f"I want thing {n}", "ok", created_at=f"2026-0{1 + n % 3}-01")
            for n in range(1, count + 1)
        ],
    )

    def work(conn: sqlite3.Connection) -> int:
        run_id = run_of(conn)
        vectors.register(conn, VECTORS)
        ids = list(range(1, count))
        rows = b"".join(row(1.0, 0.0) if n % 2 else row(0.0, 1.0) for n in ids)
        vectors.add(conn, "vectors", run_id, ids, rows, {count: "it says nothing"})
        return run_id

    return project.write(work)


def clustering(
    labels: Sequence[int | None], run_id: int, config: str = "clusters"
) -> dict[str, object]:
    """The arguments of `clusterings.add`: the cluster of each conversation from id 1, None for an outlier."""
    numbers = sorted({label for label in labels if label is not None})
    return {
        "config_hash": config,
        "run_id": run_id,
        "vector_config": "vectors",
        "k": len(numbers),
        "seed": 7,
        "clusters": [
            Cluster(n, labels.count(n), (f"word{n}", "thing"), row(0.6, 0.6)) for n in numbers
        ],
        "members": [(key, label, 0.1) for key, label in enumerate(labels, 1)],
    }


def groups_of(state: MergeState) -> dict[str | None, list[int]]:
    """Members of all present groups, and under None the outliers."""
    return {key: state.members(key).tolist() for key in [*state.current, None]}
