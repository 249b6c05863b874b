"""What was measured of a clustering: its stability, and as JSON values, the latest of each kind, everything else."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.goals.tables import answers, clusterings
from engine.goals.tables.clusterings import StoredCluster
from engine.project import settings

Kind = Literal["hold_out", "paper_goals"]
"""`hold_out`: `engine.goals.clusters.stability.HeldOut` by field, with `share` and `seed`. `paper_goals`: what
`workbench run paper-goals --json` prints."""


def put(
    conn: sqlite3.Connection, kind: Kind, clustering_id: int, values: Mapping[str, Any]
) -> None:
    """Stores a measurement in place of the one before it."""
    settings.put(conn, f"{kind}:{clustering_id}", dict(values))


def get(conn: sqlite3.Connection, kind: Kind, clustering_id: int) -> Mapping[str, Any] | None:
    """The latest measurement of a clustering; None if there is none."""
    found: Mapping[str, Any] | None = settings.get(conn, f"{kind}:{clustering_id}")
    return found


@dataclass(frozen=True, slots=True)
class Measurements:
    """All that was measured of the clustering that is shown.

    Attributes:
        clusters: Its clusters before merges.
        agreements: ("seed" or "bootstrap", adjusted Rand index) of each repetition of the newest measurement of
            stability.
        jaccard: Mean Jaccard similarity of clusters under the bootstraps, by number.
        hold_out, paper_goals: See `Kind`; None if not measured.
    """

    clusters: list[StoredCluster]
    agreements: list[tuple[str, float]]
    jaccard: Mapping[int, float]
    hold_out: Mapping[str, Any] | None
    paper_goals: Mapping[str, Any] | None


def of_shown(conn: sqlite3.Connection) -> Measurements | None:
    """What was measured of the clustering that is shown; None before any was made."""
    shown = clusterings.shown(conn)
    if shown is None:
        return None
    config = answers.latest_stability(conn, shown)
    runs = [] if config is None else answers.agreements(conn, shown, config)
    return Measurements(
        clusterings.clusters(conn, shown),
        [(kind, ari) for (kind, _), ari, _ in runs],
        answers.stability(conn, shown),
        get(conn, "hold_out", shown),
        get(conn, "paper_goals", shown),
    )
