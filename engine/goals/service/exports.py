"""Export lines of the clustering that is shown: groups, decisions, and the group of each conversation."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.conversations.tables.conversations import imported
from engine.goals.clusters.clustering import MAX_OTHERS, MIN_OTHER_SCORE, Membership, membership_of
from engine.goals.records import GoalDecision, GoalGroup
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables import second_goals, vectors
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.clustering_view import ClusteringView, GroupFigures, Space, group_rows
from engine.goals.views.decision_log import read_merge_state, unplaced_decisions
from engine.model.embedders.vectors import Vectors
from engine.project.sql import id_pages, snapshot

OUTLIER = "like no group"
NOT_ASSIGNED = "came after the clustering and was not assigned"

_Shares = npt.NDArray[np.float64]


def cluster_lines(conn: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """The current groups, largest first.

    Raises:
        UsageError: Nothing was clustered yet.
    """
    with snapshot(conn):
        view = _view(conn)
        space = Space.read(conn, view.stored.vector_config) if view.needs_space() else None
        rows = group_rows(view, GroupFigures.read(conn, view), space)
    words = {f"c{cluster.number}": cluster.words for cluster in view.clusters}
    for row in rows:
        yield _cluster_line(row, words.get(row.id, ()))


def _cluster_line(row: GoalGroup, words: Sequence[str]) -> dict[str, Any]:
    return {
        "cluster": row.id,
        "label": row.label,
        "description": row.description,
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
    """All decisions, oldest first, those that were undone too; before them, with the reason, decisions on earlier
    clusterings that could not be taken over to this one.

    Raises:
        UsageError: Nothing was clustered yet.
    """
    with snapshot(conn):
        stored = stored_clustering(conn, None)
        for _, decision, reason in unplaced_decisions(conn, stored.id):
            yield _decision_line(replace(decision, active=False), reason)
        for decision in goal_decisions.history(conn, stored.id):
            yield _decision_line(decision, None)


def _decision_line(decision: GoalDecision, reason: str | None) -> dict[str, Any]:
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
    conn: sqlite3.Connection, wanted: Sequence[int] | None = None
) -> Iterator[dict[str, Any]]:
    """A line for each of the wanted conversations, in their order, or for all: its group with the membership score,
    other groups that it may belong to and the distance to the center; `reason` says why it is in no group. Other groups
    that a person removed are left out; `confirmed` has those that a person confirmed.

    Scores are those of `engine.goals.clusters.clustering` among the current groups.

    Raises:
        UsageError: Nothing was clustered yet.
    """
    with snapshot(conn):
        view = _view(conn)
        space = Space.read(conn, view.stored.vector_config)
        reasons = vectors.reasons(conn, view.stored.vector_config)
        keys = list(view.sizes)
        judged = second_goals.judged(conn, view.stored.id)
        ids, labels = view.state.numbers(keys)
        learned = membership_of(space.of(ids), labels, len(keys))
        group: dict[int, int] = {}
        for number, key in enumerate(keys):
            group.update(dict.fromkeys(view.members(key).tolist(), number))
        outside = set(view.members(None).tolist())
        for page in id_pages(conn, wanted):
            has = np.array([key in group or key in outside for key in page])
            known = np.asarray(page, dtype=np.int64)[has]
            rows = space.of(known)
            shares = _shares(rows, learned)
            away = 1 - rows @ learned.centres.T
            at = {int(key): place for place, key in enumerate(known)}
            for one in imported(conn, page):
                conversation_id = one.conversation_id
                line: dict[str, Any] = {
                    **one.names(), "cluster": None, "label": None, "score": None, "others": [],
                    "confirmed": [], "distance": None, "reason": reasons.get(conversation_id, NOT_ASSIGNED),
                }  # fmt: skip
                place = at.get(conversation_id)
                if place is not None:
                    own = group.get(conversation_id)
                    share, distance = shares[place], away[place]
                    said = [judged.get((conversation_id, key)) for key in keys] if judged else []
                    best = [
                        int(n)
                        for n in np.argsort(-share, kind="stable")
                        if n != own and not (said and said[n] == "remove")
                    ]
                    line["confirmed"] = [
                        keys[n] for n, one in enumerate(said) if one == "confirm" and n != own
                    ]
                    line["others"] = [
                        [keys[n], float(share[n])]
                        for n in best[:MAX_OTHERS]
                        if share[n] >= MIN_OTHER_SCORE
                    ]
                    nearest = int(distance.argmin()) if own is None else own
                    line["distance"] = max(0.0, float(distance[nearest]))
                    line["reason"] = OUTLIER if own is None else None
                    if own is not None:
                        line["cluster"] = keys[own]
                        line["label"] = view.state.groups[keys[own]].label
                        line["score"] = float(share[own])
                yield line


def _view(conn: sqlite3.Connection) -> ClusteringView:
    stored = stored_clustering(conn, None)
    return ClusteringView.read(conn, stored, read_merge_state(conn, stored.id))


def _shares(rows: Vectors, learned: Membership) -> _Shares:
    """Membership scores in every group, shape (rows, groups); each row sums to 1."""
    cosines = learned.sharpness * (rows @ learned.centres.T).astype(np.float64)
    raised = np.exp(cosines - cosines.max(axis=1, keepdims=True))
    found: _Shares = raised / raised.sum(axis=1, keepdims=True)
    return found
