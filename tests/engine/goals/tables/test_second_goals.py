"""Second goals that a person confirms or removes: filters, views, exports, undo, merges."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.conversations.filters import ListQuery, parse_filter
from engine.goals.records import SecondGoal
from engine.goals.service.results import assignment_lines
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import Cluster, Member
from engine.goals.views.decision_log import DecisionLog
from engine.opener.table_export import table_lines
from engine.project.project import Project
from tests.screens.goals.goal_project import clustered
from tests.screens.project import ScreenProject


@pytest.fixture
def project() -> ScreenProject:
    """A clustered project."""
    return clustered()


def matching(project: ScreenProject, text: str) -> list[int]:
    """Ids of the conversations that match a filter."""
    return list(project.services().conversations.ids(ListQuery(parse_filter(text))))


def one_with(project: ScreenProject) -> tuple[int, SecondGoal]:
    """A conversation with a second goal, and that goal."""
    key = matching(project, "also:any")[0]
    return key, project.goals.second_goals(key)[0]


def table_row(file: Project, key: int) -> dict[str, Any]:
    """The row of a conversation in the exported table."""
    with file.reading() as conn:
        return next(table_lines(conn, [key]))


def test_removed(project: ScreenProject) -> None:
    """A removed second goal is gone from filters, counts, views and exports, and comes back by undo; the share and the
    first goal stay."""
    key, goal = one_with(project)
    store, goals = project.services().conversations, project.goals
    before = matching(project, "also:any")
    counts = dict(store.values("also", parse_filter("")))
    assert (goal.state, goal.share >= 0.15) == ("proposed", True)
    assert [one.confirmed for one in store.goals(key)] == [False, False]
    goals.judge_second_goal(key, goal.group_id, "remove", "Ada")
    assert goals.second_goals(key)[0].state == "removed"
    assert matching(project, "also:any") == [one for one in before if one != key]
    assert key not in matching(project, f'also:"{goal.label}"')
    assert key not in matching(project, "share>0")
    now = dict(store.values("also", parse_filter("")))
    assert counts[goal.label] == (now.get(goal.label) or 0) + 1
    assert [one.first for one in store.goals(key)] == [True]
    assert table_row(project.file, key)["other_goals"] == []
    with project.file.reading() as conn:
        assert next(assignment_lines(conn, [key]))["others"] == []
    undone = goals.undo_second_goal()
    assert undone is not None
    assert (undone.conversation_id, undone.label, undone.kind) == (key, goal.label, "remove")
    assert goals.second_goals(key) == [goal]
    assert matching(project, "also:any") == before
    assert goals.undo_second_goal() is None


def test_confirmed(project: ScreenProject) -> None:
    """A confirmed second goal is marked where goals are shown and in exports; the newest act counts."""
    key, goal = one_with(project)
    goals = project.goals
    goals.judge_second_goal(key, goal.group_id, "remove")
    goals.judge_second_goal(key, goal.group_id, "confirm")
    goals.judge_second_goal(key, goal.group_id, "confirm")
    assert goals.second_goals(key)[0].state == "confirmed"
    assert [one.confirmed for one in project.services().conversations.goals(key)] == [False, True]
    [told] = table_row(project.file, key)["other_goals"]
    assert told == {"goal": goal.label, "share": pytest.approx(goal.share), "confirmed": True}
    with project.file.reading() as conn:
        assert next(assignment_lines(conn, [key]))["confirmed"] == [goal.group_id]
        (text,) = conn.execute(
            "SELECT other_goals FROM conversation_table WHERE conversation_id = ?", (key,)
        ).fetchone()
    assert json.loads(text)[0]["confirmed"] is True
    assert goals.undo_second_goal() is not None  # the second confirmation changed nothing
    assert goals.second_goals(key)[0].state == "removed"


def test_they_follow_merges(project: ScreenProject) -> None:
    """An act on a group holds for the group that it was merged into; a group that becomes the first goal is no second
    one, and can be judged no more."""
    key, goal = one_with(project)
    goals, review = project.goals, project.merge_review
    with project.file.reading() as conn:
        (own,) = conn.execute(
            "SELECT group_id FROM conversation_goal WHERE conversation_id = ? AND main = 1", (key,)
        ).fetchone()
    goals.judge_second_goal(key, goal.group_id, "remove")
    other = next(one.id for one in goals.groups() if one.id not in (own, goal.group_id))
    review.merge(review.pair(goal.group_id, other), "Both")
    assert [one.state for one in goals.second_goals(key)] == ["removed"]
    assert key not in matching(project, "also:any")
    with pytest.raises(UsageError, match="no such second goal"):
        goals.judge_second_goal(key, own, "confirm")


def cluster_again(project: ScreenProject, numbers: list[int]) -> None:
    """Stores the clustering that is shown once more, with other numbers of its clusters."""
    with project.file.reading() as conn:
        before = clusterings.shown_id(conn)
        config, run_id, k = conn.execute(
            "SELECT v.config_hash, run_id, k FROM clustering AS c JOIN vector_config AS v"
            " ON v.id = c.vector_config WHERE c.id = ?",
            (before,),
        ).fetchone()
        clusters = [
            Cluster(numbers[number], size, spread, reach, (words,), centre)
            for number, size, spread, reach, words, centre in conn.execute(
                "SELECT number, size, spread, reach, words, centre FROM cluster"
                " WHERE clustering_id = ?",
                (before,),
            )
        ]
        members = [
            Member(key, None if own is None else numbers[own], near, numbers[second], far)
            for key, own, near, second, far in conn.execute(
                "SELECT conversation_id, cluster, distance, second, second_distance FROM membership"
                " WHERE clustering_id = ?",
                (before,),
            )
        ]
    DecisionLog(project.file).add_clustering(
        config_hash=f"again {numbers}", run_id=run_id, vector_config=config, k=k, seed=1,
        clusters=clusters, members=members,
    )  # fmt: skip


def test_they_are_carried_over(project: ScreenProject) -> None:
    """A clustering that is made later knows what was said, under the group that holds the members of the earlier one,
    with who said it; what was taken back is not said again."""
    key, goal = one_with(project)
    goals = project.goals
    goals.judge_second_goal(key, goal.group_id, "confirm", "Ada")
    cluster_again(project, [1, 2, 3, 4, 5, 6, 0])
    now = goals.second_goals(key)[0]
    assert (now.state, now.share) == ("confirmed", goal.share)
    assert now.group_id != goal.group_id
    with project.file.reading() as conn:
        assert conn.execute("SELECT annotator FROM second_goal").fetchall() == [("Ada",)] * 2

    assert goals.undo_second_goal() is not None
    cluster_again(project, [2, 3, 4, 5, 6, 0, 1])
    now = goals.second_goals(key)[0]
    assert now.state == "proposed"
    goals.judge_second_goal(key, now.group_id, "remove")
    cluster_again(project, [6, 5, 4, 3, 2, 1, 0])
    assert goals.second_goals(key)[0].state == "removed"
