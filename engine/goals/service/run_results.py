"""Results of runs on goals as JSON values: the clustering that is shown, later assignments, stability, and the goals as
in the paper with their agreement with gold goals."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import mean
from typing import Any

import numpy as np

from engine.base.statistics.agreement import OUTSIDE, agreement
from engine.conversations.tables.conversations import truth_by_conversation
from engine.goals.clusters.validation import DISSOLVED, STABLE
from engine.goals.paper import PaperClusters, pairwise_ari
from engine.goals.records import GoalGroup
from engine.goals.stages.as_paper import PaperResult
from engine.goals.stages.validation import StabilityStage
from engine.goals.tables import clusterings, measurements, vectors
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.decision_log import DecisionLog
from engine.model.embedders.vectors import Numbers
from engine.project.project import Project


def clustering_result(
    project: Project, decision_log: DecisionLog, groups: Sequence[GoalGroup]
) -> dict[str, Any]:
    """Returns the clustering that is shown, its groups as given and the number of decisions of each kind and author."""
    with project.reading() as conn:
        stored = stored_clustering(conn, None)
        without = len(vectors.reasons(conn, stored.vector_config))
    decisions = Counter(
        f"{decision.kind} by {decision.author}" for decision in decision_log.active(stored.id)
    )
    return {
        "clustering": stored.id,
        "text": stored.text,
        "embedder": stored.embedder,
        "k": stored.k,
        "seed": stored.seed,
        "conversations": stored.conversations,
        "outliers": len(decision_log.state(stored.id).outliers),
        "without": without,
        "decisions": dict(decisions),
        "groups": [
            {
                "id": group.id,
                "label": group.label,
                "description": group.description,
                "size": group.size,
                "share": group.share,
            }
            for group in groups
        ],
    }


def assignment_result(project: Project, decision_log: DecisionLog) -> dict[str, Any]:
    """Returns how many later conversations came to each group of the clustering that is shown, and how many to none."""
    with project.reading() as conn:
        stored = stored_clustering(conn, None)
        assignments = clusterings.assignments(conn, stored.id)
    state = decision_log.state(stored.id)
    current = [
        assignment.group and state.current_of(assignment.group) for assignment in assignments
    ]
    counts = Counter(group for group in current if group is not None)
    return {
        "clustering": stored.id,
        "assigned": counts.total(),
        "novel": len(assignments) - counts.total(),
        "several": sum(1 for assignment in assignments if assignment.others),
        "groups": [
            {"id": group, "label": state.groups[group].label, "assigned": count}
            for group, count in counts.most_common()
        ],
    }


def stability_result(project: Project, stage: StabilityStage) -> dict[str, Any]:
    """Returns the adjusted Rand indices of the runs of a stage, and the mean Jaccard similarity of each cluster, least
    stable first. A cluster that is neither clearly stable nor dissolved has None for `stable`."""
    with project.reading() as conn:
        stored = stored_clustering(conn, None)
        runs = measurements.agreements(conn, stored.id, stage.config_hash)
        jaccard = measurements.stability(conn, stored.id)
        clusters = clusterings.clusters(conn, stored.id)
    ari = {kind: [value for (of, _), value in runs if of == kind] for kind in ("seed", "bootstrap")}
    rows = [
        {
            "id": f"c{cluster.number}",
            "label": cluster.label or ", ".join(cluster.words[:3]),
            "size": cluster.size,
            "jaccard": jaccard.get(cluster.number),
            "stable": _stable(jaccard.get(cluster.number)),
        }
        for cluster in clusters
    ]
    rows.sort(key=lambda row: (row["jaccard"] is None, row["jaccard"] or 0.0))
    return {
        "clustering": stored.id,
        "seeds": len(ari["seed"]),
        "bootstraps": len(ari["bootstrap"]),
        "ari_seeds": mean(ari["seed"]) if ari["seed"] else None,
        "ari_bootstraps": mean(ari["bootstrap"]) if ari["bootstrap"] else None,
        "ari_each_seed": ari["seed"],
        "clusters": rows,
    }


def _stable(jaccard: float | None) -> bool | None:
    """Returns whether a cluster is stable; None if it is between stable and dissolved or was not measured."""
    if jaccard is None or DISSOLVED < jaccard < STABLE:
        return None
    return jaccard >= STABLE


# Goals as in the paper


def gold_goals(project: Project) -> dict[int, str]:
    """Returns the gold goal of each conversation that has one, by id."""
    with project.reading() as conn:
        return {
            key: truth["goal"]
            for key, truth in truth_by_conversation(conn)
            if isinstance(truth.get("goal"), str)
        }


def paper_result(result: PaperResult, gold: Mapping[int, str]) -> dict[str, Any]:
    """Returns the result of a run of goals as in the paper.

    Args:
        gold: Gold goals by conversation; may be empty.
    """

    def as_json(clusters: PaperClusters) -> dict[str, Any]:
        sizes = np.bincount(
            clusters.labels[clusters.labels >= 0], minlength=len(clusters.descriptions)
        )
        return {
            "clusters_before": int(clusters.first.max()) + 1,
            "clusters": len(clusters.descriptions),
            "asked": clusters.asked,
            "merged": clusters.merged,
            "unread": clusters.unread,
            "undescribed": clusters.undescribed,
            "questions": [
                {
                    "clusters": list(question.clusters),
                    "shown": [[result.ids[row] for row in part] for part in question.shown],
                    "merge": question.merge,
                }
                for question in clusters.questions
            ],
            "groups": [
                {"size": int(size), "description": description}
                for size, description in zip(sizes, clusters.descriptions, strict=True)
            ],
            "against_gold": _against(clusters.labels, result.ids, gold, placed=True),
        }

    table = None
    if result.train is not None and result.train_distances and result.test_distances:
        table = {
            "clusters_train": len(result.train.descriptions),
            "train": asdict(result.train_distances),
            "test": asdict(result.test_distances),
            "without_vector": len(result.ids)
            - result.train_distances.rows
            - result.test_distances.rows,
            "clusters_full": len(result.full.descriptions),
            "full": asdict(result.distances),
        }
    orders = [_as_clusters(labels) for labels in result.categories]
    baseline = [
        {
            "categories": len({category for categories in labels for category in categories}),
            "several": sum(1 for categories in labels if len(categories) > 1),
            "without": sum(1 for categories in labels if not categories),
            "most_used": Counter(
                category for categories in labels for category in categories
            ).most_common(10),
            "against_gold": _against(numbers, result.ids, gold),
        }
        for labels, numbers in zip(result.categories, orders, strict=True)
    ]
    ari_orders = pairwise_ari(orders)
    return {
        "conversations": len(result.ids),
        "clustering": as_json(result.full),
        "table_4": table,
        "figure_4": {
            "ari_seeds": result.ari_seeds,
            "ari_seeds_mean": _mean(result.ari_seeds),
            "ari_bootstraps": result.ari_bootstraps,
            "ari_bootstraps_mean": _mean(result.ari_bootstraps),
            "seeds": [as_json(clusters) for clusters in result.seeds],
            "bootstraps": [as_json(clusters) for clusters in result.bootstraps],
        },
        "llm_only": {
            "orders": baseline,
            "ari_orders": ari_orders,
            "ari_orders_mean": _mean(ari_orders),
            "shortened": result.shortened,
        },
    }


def store_paper_result(project: Project, result: Mapping[str, Any]) -> None:
    """Stores the result with the clustering that is shown, which is that of the run; reports show it."""

    def work(conn: sqlite3.Connection) -> None:
        shown = clusterings.shown(conn)
        assert shown is not None
        measurements.put(conn, "paper_goals", shown, result)

    project.write(work)


def _as_clusters(labels: Sequence[tuple[str, ...]]) -> Numbers:
    """Returns a cluster for each set of categories, in the order of the conversations; those without a category have
    -1."""
    numbers: dict[frozenset[str], int] = {}
    return np.array(
        [
            numbers.setdefault(frozenset(categories), len(numbers)) if categories else -1
            for categories in labels
        ],
        dtype=np.int32,
    )


def _against(
    labels: Numbers, ids: Sequence[int], gold: Mapping[int, str], *, placed: bool = False
) -> dict[str, Any] | None:
    """Returns the agreement with gold goals, with 95% intervals; None without two different ones.

    Args:
        placed: Only conversations that the run placed, as a bootstrap does not have all; else those in no group are one
            more group.
    """
    positions = [
        position
        for position, key in enumerate(ids)
        if key in gold and not (placed and labels[position] < 0)
    ]
    goals = [gold[ids[position]] for position in positions]
    if len(set(goals)) < 2:
        return None
    clusters = np.where(labels[positions] < 0, OUTSIDE, labels[positions]).astype(np.int64)
    agreement_with_gold = agreement(goals, clusters)
    return {
        "n": len(positions),
        "v_measure": asdict(agreement_with_gold.v),
        "ari": asdict(agreement_with_gold.ari),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """Returns the mean of the values that are there; None without any."""
    values_present = [value for value in values if value is not None]
    return mean(values_present) if values_present else None
