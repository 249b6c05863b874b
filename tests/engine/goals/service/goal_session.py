"""A session on the merge desk in a process of its own, which ends by killing itself. `python -m
tests.engine.goals.service.goal_session PROJECT`; prints the state before the kill as one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from engine.conversations.tables import conversations
from engine.goals.service.merge_review import MergeReviewService
from engine.project.project import Project
from tests.engine.goals.service.goal_project import cluster, stored_review

PROPOSALS = 30


def state(review: MergeReviewService) -> dict[str, Any]:
    """Everything that a person can see of groups and decisions."""
    goals = review.goals
    return {
        "clusterings": [row.clustering.id for row in goals.clusterings()],
        "groups": {
            row.id: [
                row.label,
                row.pinned,
                sorted(m.conversation_id for m in goals.members(row.id)),
            ]
            for row in goals.groups()
        },
        "outliers": sorted(m.conversation_id for m in goals.members(None)),
        "history": [
            [row.id, row.kind, row.text, row.active, row.transferred, row.probability]
            for row in review.history()
        ],
        "left": review.progress().left,
        "learned": review.progress().learned_from,
    }


def answer(review: MergeReviewService, gold: dict[int, str], most: int) -> int:
    """Decides proposals by the known goals, every other refusal for good; returns how many there were."""

    def goal(key: str) -> str:
        found = Counter(gold[member.conversation_id] for member in review.goals.members(key))
        return found.most_common(1)[0][0]

    for count in range(most):
        proposal = review.proposal()
        if proposal is None:
            return count
        a, b = proposal.pair
        if goal(a) == goal(b):
            review.merge(proposal, f"goal {count}")
        else:
            review.apart(proposal, never=count % 2 == 0)
    return most


def session(project: Project) -> None:
    """Thirty proposals, undo and redo, a split, a move, a pin, and decisions on another clustering."""
    review = stored_review(project)
    goals = review.goals
    with project.reading() as conn:
        gold = {
            key: str((found.truth or {}).get("goal"))
            for key, _, found in conversations.export_conversations(conn)
        }
    answer(review, gold, PROPOSALS)
    for _ in range(5):
        review.undo()
    for _ in range(3):
        review.redo()
    # who only said hello cannot be told apart
    mixed, parts = next(
        (row.id, parts) for row in goals.groups() if len(parts := review.split_preview(row.id)) > 1
    )
    first, *_ = review.split(mixed, [part.conversation_ids for part in parts]).made
    review.move([goals.members(first)[0].conversation_id], goals.groups()[-1].id)
    review.pin(first, on=True)
    review.rename(first, "the first part")
    cluster(project, k=30, seed=3)
    answer(review, gold, 10)
    sys.stdout.write(json.dumps(state(review)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    session(Project.open(Path(sys.argv[1])))
    os.kill(os.getpid(), signal.SIGKILL)
