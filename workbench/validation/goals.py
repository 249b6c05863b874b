"""What gold goals say of the clustering that is shown, before and after merging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.stages.goal_data import stored_clustering
from engine.stages.goal_view import GoalView
from engine.stages.kept_desk import read_desk
from engine.store import clusterings, conversations, imports
from engine.store.project import Project
from engine.store.sql import snapshot
from engine.validate.partitions import OUTSIDE, Agreement, agreement

BEFORE, NOW = "as clustered", "as it stands"


@dataclass(frozen=True, slots=True)
class GoalValidation:
    """Groups against gold goals.

    Attributes:
        embedder: What made the vectors, as it was asked for.
        asked: Conversations asked for that have a gold goal.
        n: Those of them that the clustering knows.
        goals: Different gold goals among those.
        outside: Of those, how many are in no group as it stands.
        rows: By name: the clusters before any merge, and the groups as they stand.
    """

    embedder: str
    asked: int
    n: int
    goals: int
    outside: int
    rows: Mapping[str, Agreement]


def goal_validation(project: Project, query: ListQuery) -> GoalValidation:
    """Reads the clustering that is shown, and truth, and holds one against the other.

    Raises:
        UsageError: Nothing was clustered, or nothing that was has a gold goal.
    """
    with project.reading() as conn, snapshot(conn):
        stored = stored_clustering(conn, None)
        view = GoalView.read(conn, stored, read_desk(conn, stored.id))
        ids, numbers = clusterings.membership(conn, stored.id)
        wanted = frozenset(conversations.ids(conn, query))
        gold = {
            key: truth["goal"]
            for key, truth in imports.truths(conn)
            if key in wanted and isinstance(truth.get("goal"), str)
        }
    before = dict(zip(ids, numbers, strict=True))
    now = {
        int(key): number for number, group in enumerate(view.sizes) for key in view.members(group)
    } | dict.fromkeys(view.members(None).tolist(), OUTSIDE)
    known = [key for key in gold if key in now]
    if not known:
        raise UsageError(
            f"Of {len(gold):,} conversations with a gold goal none is in the clustering.",
            "Gold goals come with the import, as `truth.goal`; `workbench run cluster` clusters.",
        )
    names = [gold[key] for key in known]
    rows = {}
    if all(key in before for key in known):  # not where some were assigned later
        rows[BEFORE] = agreement(names, np.array([before[key] for key in known], dtype=np.int64))
    found = np.array([now[key] for key in known], dtype=np.int64)
    rows[NOW] = agreement(names, found)
    outside = int((found == OUTSIDE).sum())
    return GoalValidation(stored.embedder, len(gold), len(known), len(set(names)), outside, rows)
