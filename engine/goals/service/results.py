"""The clustering that is shown as JSON values: the lines of exports, and the results of runs on goals."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.base.statistics.agreement import OUTSIDE, agreement
from engine.conversations.tables.conversations import imported, truth_by_conversation
from engine.goals.clusters.clustering import MAX_OTHERS, MIN_OTHER_SCORE, Membership, membership_of
from engine.goals.clusters.validation import DISSOLVED, STABLE
from engine.goals.paper import PaperClusters, pairwise_ari
from engine.goals.records import GoalDecision, GoalGroup
from engine.goals.stages.as_paper import PaperResult
from engine.goals.stages.validation import StabilityStage
from engine.goals.tables import clusterings, measurements, second_goals, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.clustering_view import ClusteringView, GroupFigures, Space, group_rows
from engine.goals.views.decision_log import DecisionLog, read_merge_state, unplaced_decisions
from engine.model.embedders.vectors import Numbers, Vectors
from engine.project.project import Project
from engine.project.sql import id_pages, snapshot

OUTLIER = "like no group"
"""Reason of a conversation that is too far from every group."""
NOT_ASSIGNED = "came after the clustering and was not assigned"
"""Reason of a conversation that is not in the clustering."""

_MOST_USED_CATEGORIES = 10
"""Categories of the LLM-only baseline that a result lists."""

_Scores = npt.NDArray[np.float64]
"""Membership scores, 0–1."""


def cluster_lines(conn: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Yields a line for each current group, largest first.

    Raises:
        NotYet: Nothing was clustered yet.
    """
    with snapshot(conn):
        view = _view(conn)
        space = Space.read(conn, view.stored.vector_config) if view.needs_space() else None
        rows = group_rows(view, GroupFigures.read(conn, view), space)
    words = {f"c{cluster.number}": cluster.words for cluster in view.clusters}
    for row in rows:
        yield _cluster_line(row, words.get(row.id, ()))


def _cluster_line(row: GoalGroup, words: Sequence[str]) -> dict[str, Any]:
    """Returns the line of a group; `words` are the distinctive words of the cluster, none for a merged group."""
    return {
        "cluster": row.id,
        "label": row.label,
        "description": row.description,
        "support": row.support,
        "members_read": row.members_read,
        "words": list(words),
        "size": row.size,
        "share": row.share,
        "complete": row.states.complete,
        "incomplete": row.states.incomplete,
        "borderline": row.states.borderline,
        "unscored": row.states.unscored,
        "above": row.states.above,
        "spread": row.spread,
        "leaves": row.leaves,
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
        stored = stored_clustering(conn, None)
        for _, decision, reason in unplaced_decisions(conn, stored.id):
            yield _decision_line(replace(decision, active=False), reason)
        for decision in goal_decisions.history(conn, stored.id):
            yield _decision_line(decision, None)


def _decision_line(decision: GoalDecision, reason: str | None) -> dict[str, Any]:
    """Returns the line of a decision; `reason` says why it could not be taken over, None if it applies here."""
    return {
        "id": decision.id,
        "act": decision.act,
        "kind": decision.kind,
        "text": decision.text,
        "clusters": list(decision.sides),
        "labels": list(decision.labels),
        "names": [name for name, _ in decision.names],
        "made": list(decision.made),
        "author": decision.author,
        "model": decision.model,
        "probability": decision.probability,
        "evidence": decision.evidence,
        "given_at": decision.given_at,
        "carried": decision.source_id,
        "stands": decision.active,
        "waiting": reason,
    }


def assignment_lines(
    conn: sqlite3.Connection, conversation_ids: Sequence[int] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields a line for each of these conversations, in their order, or for all: its group with the membership score,
    other groups that it may belong to and the distance to the center; `reason` says why it is in no group. Other groups
    that a person removed are left out; `confirmed` has those that a person confirmed.

    Scores are those of `engine.goals.clusters.clustering` among the current groups.

    Raises:
        NotYet: Nothing was clustered yet.
    """
    with snapshot(conn):
        view = _view(conn)
        space = Space.read(conn, view.stored.vector_config)
        reasons = vectors.reasons(conn, view.stored.vector_config)
        keys = list(view.sizes)
        judged = second_goals.judgements(conn, view.stored.id)
        membership = membership_of(*_vectors_and_groups(view, space, keys), len(keys))
        index_of_group: dict[int, int] = {}  # index in `keys`, by conversation
        for index, key in enumerate(keys):
            index_of_group |= dict.fromkeys(view.members(key).tolist(), index)
        outliers = set(view.members(None).tolist())
        for page in id_pages(conn, conversation_ids):
            in_clustering = [item in index_of_group or item in outliers for item in page]
            ids = np.asarray(page, dtype=np.int64)[np.array(in_clustering)]
            rows = space.rows_of(ids)
            scores = _membership_scores(rows, membership)
            distances = 1 - rows @ membership.centres.T
            row_of = {int(item): row for row, item in enumerate(ids)}
            for conversation in imported(conn, page):
                conversation_id = conversation.conversation_id
                line: dict[str, Any] = {
                    **conversation.names(), "cluster": None, "label": None, "score": None, "others": [],
                    "confirmed": [], "distance": None, "reason": reasons.get(conversation_id, NOT_ASSIGNED),
                }  # fmt: skip
                row = row_of.get(conversation_id)
                if row is not None:
                    judgements = [judged.get((conversation_id, key)) for key in keys]
                    line |= _assignment(
                        view,
                        keys,
                        index_of_group.get(conversation_id),
                        scores=scores[row],
                        distances=distances[row],
                        judgements=judgements,
                    )
                yield line


def _vectors_and_groups(
    view: ClusteringView, space: Space, keys: Sequence[str]
) -> tuple[Vectors, Numbers]:
    """Returns the vectors of the conversations of a clustering, shape (conversations, d), and the index in `keys` of
    the group of each, -1 for one in none of them."""
    ids, groups = view.state.group_indices(keys)
    return space.rows_of(ids), groups


def _assignment(
    view: ClusteringView,
    keys: Sequence[str],
    own: int | None,
    *,
    scores: _Scores,
    distances: Vectors,
    judgements: Sequence[str | None],
) -> dict[str, Any]:
    """Returns the values of a conversation that has a vector.

    Args:
        own: Index in `keys` of its group; None if it is in none.
        scores, distances: Its membership score in each group, and its distance to the center, shape (groups,).
        judgements: What a person said of each group as a second goal of it.
    """
    others = [
        int(index)
        for index in np.argsort(-scores, kind="stable")
        if index != own and judgements[index] != "remove"
    ]
    nearest = int(distances.argmin()) if own is None else own
    return {
        "cluster": None if own is None else keys[own],
        "label": None if own is None else view.state.groups[keys[own]].label,
        "score": None if own is None else float(scores[own]),
        "others": [
            [keys[index], float(scores[index])]
            for index in others[:MAX_OTHERS]
            if scores[index] >= MIN_OTHER_SCORE
        ],
        "confirmed": [
            keys[index]
            for index, judgement in enumerate(judgements)
            if judgement == "confirm" and index != own
        ],
        "distance": max(0.0, float(distances[nearest])),
        "reason": OUTLIER if own is None else None,
    }


def _view(conn: sqlite3.Connection) -> ClusteringView:
    """Returns the clustering that is shown, with its current groups; raises NotYet if there is none."""
    stored = stored_clustering(conn, None)
    return ClusteringView.read(conn, stored, read_merge_state(conn, stored.id))


def _membership_scores(rows: Vectors, membership: Membership) -> _Scores:
    """Returns the membership scores in every group, shape (rows, groups); each row sums to 1."""
    logits = membership.sharpness * (rows @ membership.centres.T).astype(np.float64)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores: _Scores = exponentials / exponentials.sum(axis=1, keepdims=True)
    return scores


# Results of runs


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
    # A decision since the assignment may have merged or split its group.
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
    ari_seeds = [ari for (kind, _), ari in runs if kind == "seed"]
    ari_bootstraps = [ari for (kind, _), ari in runs if kind == "bootstrap"]
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


def _stable(jaccard: float | None) -> bool | None:
    """Returns whether a cluster is stable; None if it is between stable and dissolved or was not measured."""
    if jaccard is None or DISSOLVED < jaccard < STABLE:
        return None
    return jaccard >= STABLE


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
    labels_of_orders = [_as_clusters(categories) for categories in result.categories]
    ari_orders = pairwise_ari(labels_of_orders)
    return {
        "conversations": len(result.ids),
        "clustering": _paper_clusters(result.full, result.ids, gold),
        "table_4": _table_4(result),
        "figure_4": {
            "ari_seeds": result.ari_seeds,
            "ari_seeds_mean": _mean(result.ari_seeds),
            "ari_bootstraps": result.ari_bootstraps,
            "ari_bootstraps_mean": _mean(result.ari_bootstraps),
            "seeds": [_paper_clusters(run, result.ids, gold) for run in result.seeds],
            "bootstraps": [_paper_clusters(run, result.ids, gold) for run in result.bootstraps],
        },
        "llm_only": {
            "orders": [
                {**_category_counts(categories), "against_gold": _against(labels, result.ids, gold)}
                for categories, labels in zip(result.categories, labels_of_orders, strict=True)
            ],
            "ari_orders": ari_orders,
            "ari_orders_mean": _mean(ari_orders),
            "shortened": result.shortened,
        },
    }


def _paper_clusters(
    clusters: PaperClusters, ids: Sequence[int], gold: Mapping[int, str]
) -> dict[str, Any]:
    """Returns the values of one run of the algorithm.

    Args:
        ids: Ids of the conversations, in the order of the labels.
        gold: Gold goals by conversation.
    """
    sizes = np.bincount(clusters.labels[clusters.labels >= 0], minlength=len(clusters.descriptions))
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
                "shown": [[ids[row] for row in part] for part in question.shown],
                "merge": question.merge,
            }
            for question in clusters.questions
        ],
        "groups": [
            {"size": int(size), "description": description}
            for size, description in zip(sizes, clusters.descriptions, strict=True)
        ],
        "against_gold": _against(clusters.labels, ids, gold, placed=True),
    }


def _table_4(result: PaperResult) -> dict[str, Any] | None:
    """Returns the values of the hold-out, Table 4 of the paper; None if no conversation was held out."""
    train, test = result.train_distances, result.test_distances
    if result.train is None or not (train and test):
        return None
    return {
        "clusters_train": len(result.train.descriptions),
        "train": asdict(train),
        "test": asdict(test),
        "without_vector": len(result.ids) - train.rows - test.rows,
        "clusters_full": len(result.full.descriptions),
        "full": asdict(result.distances),
    }


def _category_counts(categories_by_conversation: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Returns the counts of one order of the LLM-only baseline: categories, conversations with several of them or none,
    and the categories of most conversations."""
    uses = Counter(category for categories in categories_by_conversation for category in categories)
    return {
        "categories": len(uses),
        "several": sum(1 for categories in categories_by_conversation if len(categories) > 1),
        "without": sum(1 for categories in categories_by_conversation if not categories),
        "most_used": uses.most_common(_MOST_USED_CATEGORIES),
    }


def store_paper_result(project: Project, result: Mapping[str, Any]) -> None:
    """Stores the result with the clustering that is shown, which is that of the run; reports show it."""

    def put(conn: sqlite3.Connection) -> None:
        """Stores the result with the clustering that is shown."""
        shown = clusterings.shown_id(conn)
        assert shown is not None
        measurements.put(conn, "paper_goals", shown, result)

    project.write(put)


def _as_clusters(labels: Sequence[tuple[str, ...]]) -> Numbers:
    """Returns the cluster of each conversation, shape (conversations,): those with the same set of categories are one
    cluster. A conversation without a category has -1."""
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
        labels: Cluster of each conversation, negative for none, shape (conversations,).
        ids: Ids of the conversations, in the order of the labels.
        gold: Gold goals by conversation.
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
