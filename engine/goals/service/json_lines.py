"""Returns clusterings as JSON values: the lines of exports, and the results of runs on goals. All are of the clustering
that is open, but for the result of a run that assigns, which is of the clustering of goals."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np

from engine.conversations.tables.conversations import imported
from engine.goals.clusters.clustering import DISSOLVED, STABLE, learn_membership
from engine.goals.records import GoalDecision, GoalGroup
from engine.goals.stages.stability import StabilityStage
from engine.goals.tables import clusterings, measurements, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.clustering_view import ClusteringView, Space, group_rows, states_of_groups
from engine.goals.views.decision_log import DecisionLog, read_merge_state, unplaced_decisions
from engine.project.project import Project
from engine.project.sql import id_pages, snapshot

LIKE_NO_GROUP = "like no group"
"""Reason of a conversation that is too far from every group."""
NOT_ASSIGNED = "came after the clustering and was not assigned"
"""Reason of a conversation that is not in the clustering."""


def cluster_lines(conn: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Yields a line for each current group, largest first.

    Raises:
        NotYet: Nothing was clustered yet.
    """
    with snapshot(conn):
        view = _view(conn)
        rows = group_rows(view, states_of_groups(conn, view))
    words = {f"c{cluster.number}": cluster.words for cluster in view.clusters}
    for row in rows:
        yield {
            "cluster": row.id,
            "label": row.label,
            "description": row.description,
            "support": row.support,
            "members_read": row.members_read,
            "words": list(words.get(row.id, ())),  # a merged group has none
            "size": row.size,
            "share": row.share,
            "complete": row.states.complete,
            "incomplete": row.states.incomplete,
            "borderline": row.states.borderline,
            "unscored": row.states.unscored,
            "above": row.states.above,
            "stability": row.stability,
            "pinned": row.pinned,
            "made_of": list(row.made_of),
            "made_by": row.made_by,
        }


def decision_lines(conn: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Yields a line for each decision, oldest first, those that were undone too; before them, with the reason, those
    on earlier clusterings that could not be taken over to this one.

    Raises:
        NotYet: Nothing was clustered yet.
    """
    with snapshot(conn):
        stored = stored_clustering(conn, clusterings.open_id(conn))
        for _, decision, reason in unplaced_decisions(conn, stored.id):
            yield decision_line(replace(decision, active=False), reason)
        for decision in goal_decisions.history(conn, stored.id):
            yield decision_line(decision, None)


def decision_line(decision: GoalDecision, reason: str | None = None) -> dict[str, Any]:
    """Returns the line of a decision; `reason` says why it could not be taken over, None if it applies here."""
    return {
        "id": decision.id,
        "act": decision.act,
        "kind": decision.kind,
        "text": decision.text,
        "clusters": list(decision.sides),
        "labels": list(decision.labels),
        "names": [name for name, _ in decision.names],
        "made": list(decision.made_groups),
        "author": decision.decided_by,
        "model": decision.model,
        "probability": decision.probability,
        "evidence": decision.evidence,
        "given_at": decision.given_at,
        "carried": decision.source_id,
        "reviewed": decision.reviewed,
        "stands": decision.active,
        "waiting": reason,
    }


def assignment_lines(
    conn: sqlite3.Connection, conversation_ids: Sequence[int] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields a line for each of these conversations, in their order, or for all: its group and the distance to the
    center, of an outlier to the nearest one; `reason` says why it is in no group.

    Raises:
        NotYet: Nothing was clustered yet.
    """
    with snapshot(conn):
        view = _view(conn)
        space = Space(*vectors.read_vectors(conn, view.stored.vector_config))
        reasons = vectors.reasons(conn, view.stored.vector_config)
        keys = list(view.sizes)
        grouped_ids, groups = view.state.group_indices(keys)
        centers = learn_membership(space.rows_of(grouped_ids), groups, len(keys)).centers
        index_of_group: dict[int, int | None] = {}  # index in `keys`, by conversation
        for index, key in enumerate([*keys, None]):
            members = view.members(key).tolist()
            index_of_group |= dict.fromkeys(members, None if key is None else index)
        for page in id_pages(conn, conversation_ids):
            ids = [conversation_id for conversation_id in page if conversation_id in index_of_group]
            distances = dict(zip(ids, 1 - space.rows_of(np.asarray(ids)) @ centers.T, strict=True))
            for conversation in imported(conn, page):
                conversation_id = conversation.conversation_id
                line: dict[str, Any] = {
                    **conversation.names(), "cluster": None, "label": None, "distance": None,
                    "reason": reasons.get(conversation_id, NOT_ASSIGNED),
                }  # fmt: skip
                if conversation_id in index_of_group:
                    group, to_centers = index_of_group[conversation_id], distances[conversation_id]
                    nearest = to_centers.min() if group is None else to_centers[group]
                    line |= {
                        "cluster": None if group is None else keys[group],
                        "label": None if group is None else view.state.groups[keys[group]].label,
                        "distance": max(0.0, float(nearest)),
                        "reason": LIKE_NO_GROUP if group is None else None,
                    }
                yield line


def _view(conn: sqlite3.Connection) -> ClusteringView:
    """Returns the clustering that is open, with its current groups; raises NotYet if there is none."""
    stored = stored_clustering(conn, clusterings.open_id(conn))
    return ClusteringView.read(conn, stored, read_merge_state(conn, stored.id))


# Results of runs


def clustering_result(
    project: Project, decision_log: DecisionLog, groups: Sequence[GoalGroup]
) -> dict[str, Any]:
    """Returns the clustering that is open, its groups as given and the number of decisions of each kind and author."""
    with project.reading() as conn:
        stored = stored_clustering(conn, clusterings.open_id(conn))
        without = len(vectors.reasons(conn, stored.vector_config))
    decisions = Counter(
        f"{decision.kind} by {decision.decided_by}" for decision in decision_log.active(stored.id)
    )
    return {
        "clustering": stored.id,
        "text": stored.text,
        "embedder": stored.embedder,
        "paper": stored.paper,
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
    """Returns how many later conversations came to each group of the clustering of goals, and how many to none."""
    with project.reading() as conn:
        stored = stored_clustering(conn, clusterings.goals_clustering_id(conn))
        assignments = clusterings.assignments(conn, stored.id)
    state = decision_log.state(stored.id)
    # A decision since the assignment may have merged or split its group.
    current = [
        assignment.group and state.current_of(assignment.group) for assignment in assignments
    ]
    counts = Counter(group for group in current if group is not None)
    return {
        "clustering": stored.id,
        "assigned": counts.total(),
        "novel": len(assignments) - counts.total(),
        "groups": [
            {"id": group, "label": state.groups[group].label, "assigned": count}
            for group, count in counts.most_common()
        ],
    }


def stability_result(project: Project, stage: StabilityStage) -> dict[str, Any]:
    """Returns the adjusted Rand indices of the runs of a stage, and the mean Jaccard similarity of each cluster, least
    stable first. A cluster that is neither clearly stable nor dissolved has None for `stable`."""
    with project.reading() as conn:
        stored = stored_clustering(conn, clusterings.open_id(conn))
        runs = measurements.agreements(conn, stored.id, stage.config_hash)
        jaccard = measurements.stability(conn, stored.id)
        clusters = clusterings.clusters(conn, stored.id)
    ari_seeds = [ari for (kind, _), ari in runs if kind == "seed"]
    ari_bootstraps = [ari for (kind, _), ari in runs if kind == "bootstrap"]
    rows = [
        {
            "id": f"c{cluster.number}",
            "label": cluster.label or ", ".join(cluster.words[:3]),
            "size": cluster.size,
            "jaccard": jaccard.get(cluster.number),
            "stable": _is_stable(jaccard.get(cluster.number)),
        }
        for cluster in clusters
    ]
    # Clusters that were not measured come last.
    rows.sort(key=lambda row: (row["jaccard"] is None, row["jaccard"] or 0.0))
    return {
        "clustering": stored.id,
        "seeds": len(ari_seeds),
        "bootstraps": len(ari_bootstraps),
        "ari_seeds": mean(ari_seeds) if ari_seeds else None,
        "ari_bootstraps": mean(ari_bootstraps) if ari_bootstraps else None,
        "ari_each_seed": ari_seeds,
        "clusters": rows,
    }


def _is_stable(jaccard: float | None) -> bool | None:
    """Returns whether a cluster is clearly stable; None between stable and dissolved, and where it was not measured."""
    if jaccard is None or DISSOLVED < jaccard < STABLE:
        return None
    return jaccard >= STABLE
