"""What was measured of a clustering: its stability under resampling, and the latest measurement of each other kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import Cluster
from engine.project import settings

Kind = Literal["hold_out", "paper_goals"]
"""`hold_out`: `engine.goals.clusters.validation.HeldOut` by field, with `share` and `seed`. `paper_goals`: what
`workbench run paper-goals --json` prints."""

Repetition = tuple[Literal["seed", "bootstrap"], int]
"""A kind of resampling and its number, from 0."""


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

    clusters: list[Cluster]
    agreements: list[tuple[str, float]]
    jaccard: Mapping[int, float]
    hold_out: Mapping[str, Any] | None
    paper_goals: Mapping[str, Any] | None


def of_shown(conn: sqlite3.Connection) -> Measurements | None:
    """Returns what was measured of the clustering that is shown; None before any was made."""
    shown = clusterings.shown(conn)
    if shown is None:
        return None
    newest = conn.execute(
        "SELECT config_hash FROM stability WHERE clustering_id = ? ORDER BY run_id DESC LIMIT 1",
        (shown,),
    ).fetchone()
    repetitions = [] if newest is None else agreements(conn, shown, newest[0])
    return Measurements(
        clusterings.clusters(conn, shown),
        [(kind, ari) for (kind, _), ari in repetitions],
        stability(conn, shown),
        get(conn, "hold_out", shown),
        get(conn, "paper_goals", shown),
    )


def put(
    conn: sqlite3.Connection, kind: Kind, clustering_id: int, values: Mapping[str, Any]
) -> None:
    """Stores a measurement in place of the one before it."""
    settings.put(conn, f"{kind}:{clustering_id}", dict(values))


def get(conn: sqlite3.Connection, kind: Kind, clustering_id: int) -> Mapping[str, Any] | None:
    """Returns the latest measurement of a clustering; None if there is none."""
    values: Mapping[str, Any] | None = settings.get(conn, f"{kind}:{clustering_id}")
    return values


# Stability


def add_repetition(
    conn: sqlite3.Connection,
    clustering_id: int,
    config_hash: str,
    run_id: int,
    repetition: Repetition,
    ari: float,
    jaccard: Mapping[int, float],
) -> None:
    """Stores one repetition: its adjusted Rand index with the clustering, and the Jaccard similarity of each cluster by
    number."""
    kind, number = repetition
    conn.execute(
        "INSERT INTO stability (clustering_id, config_hash, kind, repetition, run_id, ari)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (clustering_id, config_hash, kind, number, run_id, ari),
    )
    conn.executemany(
        "INSERT INTO cluster_stability (clustering_id, config_hash, kind, repetition, number, jaccard)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (clustering_id, config_hash, kind, number, cluster, value)
            for cluster, value in jaccard.items()
        ],
    )


def missing_repetitions(
    conn: sqlite3.Connection,
    clustering_id: int,
    config_hash: str,
    repetitions: Iterable[Repetition],
) -> list[Repetition]:
    """Returns those of the repetitions that are not stored yet, in their order."""
    stored = {repetition for repetition, _ in agreements(conn, clustering_id, config_hash)}
    return [repetition for repetition in repetitions if repetition not in stored]


def agreements(
    conn: sqlite3.Connection, clustering_id: int, config_hash: str
) -> list[tuple[Repetition, float]]:
    """Returns each stored repetition with its adjusted Rand index with the clustering, by kind and number."""
    return [
        ((kind, number), float(ari))
        for kind, number, ari in conn.execute(
            "SELECT kind, repetition, ari FROM stability WHERE clustering_id = ?"
            " AND config_hash = ? ORDER BY kind, repetition",
            (clustering_id, config_hash),
        )
    ]


def stability(conn: sqlite3.Connection, clustering_id: int) -> dict[int, float]:
    """Returns the mean Jaccard similarity of each cluster under the bootstraps of the newest measurement, by number;
    empty before any."""
    return dict(
        conn.execute(
            "SELECT number, avg(jaccard) FROM cluster_stability WHERE clustering_id = ?1"
            " AND kind = 'bootstrap' AND config_hash = (SELECT config_hash FROM stability"
            " WHERE clustering_id = ?1 ORDER BY run_id DESC LIMIT 1) GROUP BY number",
            (clustering_id,),
        ).fetchall()
    )


def repetition_count(conn: sqlite3.Connection, clustering_id: int) -> int:
    """Returns the number of stored repetitions of a clustering, under any configuration."""
    sql = "SELECT count(*) FROM stability WHERE clustering_id = ?"
    return int(conn.execute(sql, (clustering_id,)).fetchone()[0])
