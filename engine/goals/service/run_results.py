"""What runs on goals came to, as JSON values: the clustering that is shown, later assignments, and stability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import Any

from engine.goals.clusters.validation import DISSOLVED, STABLE
from engine.goals.records import GoalGroup
from engine.goals.stages.validation import StabilityStage
from engine.goals.tables import clusterings, measurements, vectors
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.decision_log import DecisionLog
from engine.project.project import Project


def clustering_result(
    project: Project, decision_log: DecisionLog, groups: Sequence[GoalGroup]
) -> dict[str, Any]:
    """The clustering that is shown, its groups as given and the number of decisions of each kind and author."""
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
    """How many later conversations came to each group of the clustering that is shown, and how many to none."""
    with project.reading() as conn:
        stored = stored_clustering(conn, None)
        assignments = clusterings.assignments(conn, stored.id)
    state = decision_log.state(stored.id)
    current = [one.group and state.current_of(one.group) for one in assignments]
    counts = Counter(group for group in current if group is not None)
    return {
        "clustering": stored.id,
        "assigned": counts.total(),
        "novel": len(assignments) - counts.total(),
        "several": sum(1 for one in assignments if one.others),
        "groups": [
            {"id": group, "label": state.groups[group].label, "assigned": count}
            for group, count in counts.most_common()
        ],
    }


def stability_result(project: Project, stage: StabilityStage) -> dict[str, Any]:
    """Adjusted Rand indices of the runs of a stage, and the mean Jaccard similarity of each cluster, least stable
    first. A cluster that is neither clearly stable nor dissolved has None for `stable`."""
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
    if jaccard is None or DISSOLVED < jaccard < STABLE:
        return None
    return jaccard >= STABLE
