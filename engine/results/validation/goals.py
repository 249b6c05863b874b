"""Compares the clustering of goals, before and after merges, with gold goals.

A *gold goal* is the goal that came with a conversation as `truth.goal`. A clustering puts conversations into
*clusters*; people and models merge these into *groups*, which are what stands now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.base.errors import NotYet, UsageError
from engine.base.number_format import counted
from engine.base.report_table import ReportColumn, ReportRow, ReportTable, row_as_json
from engine.base.statistics.agreement import OUTSIDE, GoldAgreement, Groups, gold_agreement
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.conversations.tables import selecting
from engine.conversations.tables.conversations import truth_by_conversation
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.clustering_view import ClusteringView
from engine.goals.views.decision_log import read_merge_state
from engine.project.project import Project
from engine.project.sql import snapshot

BEFORE = "as clustered"
"""Name of the row of the clusters before any merge."""

NOW = "as it stands"
"""Name of the row of the current groups."""

_MAX_EMBEDDER_CHARS = 60
"""Most characters of the name of the embedder in a note."""

_COLUMNS = (
    ReportColumn("", "text", "name", text_title="groups against gold goals"),
    ReportColumn("groups", "count", "groups"),
    ReportColumn("V", "interval", "v"),
    ReportColumn("ARI", "interval", "ari", chance=0.0),
    ReportColumn("homog.", "interval", "homogeneity", text_title="homogeneity"),
    ReportColumn("compl.", "interval", "completeness", text_title="completeness"),
)
"""Columns of the table; the key of each but the first is a field of `GoldAgreement`."""


@dataclass(frozen=True, slots=True)
class GoalValidation:
    """Agreement of the groups of a project with gold goals.

    Attributes:
        embedder: Name of the embedder, as the user gave it.
        with_gold: Number of matching conversations that have a gold goal.
        n: Number of these conversations that are in the clustering, which are compared.
        goals: Number of distinct gold goals among the `n`.
        outside: Number of the `n` that are in no current group.
        rows: Agreement of the clusters before any merge (`BEFORE`) and of the current groups (`NOW`). The first is
            missing if one of the `n` was assigned to a group after clustering, so that it is in no cluster.
    """

    embedder: str
    with_gold: int
    n: int
    goals: int
    outside: int
    rows: Mapping[str, GoldAgreement]


def goal_validation(project: Project, query: ListQuery) -> GoalValidation:
    """Returns the agreement of the clustering of goals with the gold goals of the matching conversations.

    Raises:
        NotYet: There is no clustering, or no clustered conversation has a gold goal.
        UsageError: All have the same gold goal.
    """
    with project.reading() as conn, snapshot(conn):
        stored = stored_clustering(conn, clusterings.goals_clustering_id(conn))
        view = ClusteringView.read(conn, stored, read_merge_state(conn, stored.id))
        clustered, clusters = clusterings.membership(conn, stored.id)
        # outliers are in no group, so they count as outside of all clusters too
        numbers = [OUTSIDE if cluster == clusterings.OUTLIER else cluster for cluster in clusters]
        cluster_by_id = dict(zip(clustered, numbers, strict=True))
        gold = _gold_goals(conn, query)
    in_no_group = view.members(None).tolist()
    group_by_id = {
        int(conversation_id): number
        for number, group in enumerate(view.sizes)
        for conversation_id in view.members(group)
    } | dict.fromkeys(in_no_group, OUTSIDE)
    clustered_ids = [conversation_id for conversation_id in gold if conversation_id in group_by_id]
    names = [gold[conversation_id] for conversation_id in clustered_ids]
    _require_two_goals(names, len(gold))
    numbers_by_row: dict[str, Groups] = {}
    # conversations that were assigned after clustering have a group now, but were in no cluster
    if cluster_by_id.keys() >= set(clustered_ids):
        numbers_by_row[BEFORE] = _group_numbers(cluster_by_id, clustered_ids)
    numbers_by_row[NOW] = _group_numbers(group_by_id, clustered_ids)
    return GoalValidation(
        embedder=stored.embedder,
        with_gold=len(gold),
        n=len(clustered_ids),
        goals=len(set(names)),
        outside=int((numbers_by_row[NOW] == OUTSIDE).sum()),
        rows={name: gold_agreement(names, groups) for name, groups in numbers_by_row.items()},
    )


def _gold_goals(conn: sqlite3.Connection, query: ListQuery) -> dict[int, str]:
    """Returns the gold goals of the matching conversations that have one, by the ids of these."""
    matching_ids = frozenset(selecting.ids(conn, query))
    return {
        conversation_id: truth["goal"]
        for conversation_id, truth in truth_by_conversation(conn)
        if conversation_id in matching_ids and isinstance(truth.get("goal"), str)
    }


def _require_two_goals(names: Sequence[str], with_gold: int) -> None:
    """Raises an error if no clustered conversation has a gold goal, or all have the same one.

    Args:
        names: The gold goals of the conversations in the clustering that have one.
        with_gold: Number of conversations with a gold goal, clustered or not.

    Raises:
        NotYet: None has.
        UsageError: All have the same one.
    """
    if not names:
        raise NotYet(
            f"Of {with_gold:,} conversations with a gold goal none is in the clustering.",
            "Gold goals come with the import, as `truth.goal`; `workbench run cluster` clusters.",
        )
    if len(set(names)) == 1:
        raise UsageError(
            f"All {len(names):,} clustered conversations with a gold goal have the same one: it tells nothing apart.",
            "Import conversations with other goals, or look at them without --filter.",
        )


def _group_numbers(group_by_id: Mapping[int, int], ids: Sequence[int]) -> Groups:
    """Returns the number of the group or cluster of each conversation, in the order of `ids`, shape (ids,)."""
    return np.array([group_by_id[conversation_id] for conversation_id in ids], dtype=np.int64)


# As a table and as JSON


def goal_table(validation: GoalValidation) -> ReportTable:
    """Returns a table with a row for the clusters before any merge, unless that is missing, and one for the current
    groups."""
    rows = []
    for name, agreement in validation.rows.items():
        figures = (getattr(agreement, column.key) for column in _COLUMNS[1:])
        # the V-measure with the arithmetic mean is the normalized mutual information
        rows.append(ReportRow((name, *figures), details={"nmi": agreement.v.value}))
    return ReportTable(
        "gold goals",
        _COLUMNS,
        tuple(rows),
        (
            f"{counted(validation.n, 'conversation')} of {validation.goals:,} gold goals, clustered with"
            f" {one_line(validation.embedder, _MAX_EMBEDDER_CHARS)}",
            f"{validation.with_gold:,} have a gold goal; {validation.outside:,} of the {validation.n:,} are in no group"
            " and count as one together",
        ),
    )


def goals_json(validation: GoalValidation) -> dict[str, Any]:
    """Returns the agreement as JSON values."""
    table = goal_table(validation)
    facts = {key: getattr(validation, key) for key in ("n", "goals", "outside")}
    facts = {"embedder": validation.embedder, "asked": validation.with_gold, **facts}
    return {"goals": {**facts, "rows": [row_as_json(table, row) for row in table.rows]}}
