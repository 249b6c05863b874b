"""Names of clusters and groups in a real project, without a model."""

from __future__ import annotations

from engine.goals.records import GoalDecision
from engine.goals.stages.deciding import DecideStage, NameStage
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.runner import JobDone
from engine.project.project import Project
from tests.engine.goals import goal_runs


def clustered(project: Project, decision_log: DecisionLog, k: int) -> int:
    """Clusters and merges automatically; returns the id of the clustering."""
    goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=k))
    cache = MergeQueueCache(project, decision_log)
    (outcome,) = goal_runs.run(project, [DecideStage(project, cache, "auto", threshold=0.5)])
    assert isinstance(outcome, JobDone)
    with project.reading() as conn:
        return stored_clustering(conn, None).id


def labels(decision_log: DecisionLog, key: int) -> list[str]:
    """The labels of the current groups."""
    state = decision_log.state(key)
    return [state.groups[group].label for group in state.current]


def name(project: Project, decision_log: DecisionLog) -> NameStage:
    """Runs the stage."""
    stage = NameStage(project, decision_log)
    (outcome,) = goal_runs.run(project, [stage])
    assert isinstance(outcome, JobDone)
    return stage


def test_clusters(project: Project, decision_log: DecisionLog) -> None:
    """Each cluster has a label of its own that is a phrase, a member's sentence below it, and its words."""
    goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
    with project.reading() as conn:
        found = clusterings.clusters(conn, stored_clustering(conn, None).id)
    assert len({cluster.label for cluster in found}) == 4
    for cluster in found:
        assert 2 <= len(cluster.name.split()) <= 6
        assert "·" not in cluster.name
        assert cluster.description
        assert cluster.words
        assert not cluster.by_model


def test_merged_groups(project: Project, decision_log: DecisionLog) -> None:
    """After merging, groups are named by all their members, in one act that is undone as one."""
    key = clustered(project, decision_log, 12)
    groups = decision_log.state(key).groups
    merged = next(group for group in decision_log.state(key).current if groups[group].made_of)
    poor = GoalDecision("rename", (merged,), (("Provide a short label", ""),), author="auto")
    decision_log.decide(key, lambda _: [poor])
    before = labels(decision_log, key)
    assert name(project, decision_log).renamed > 0
    after = labels(decision_log, key)
    assert sorted(after) == [
        "Book a table", "Find a cheap flight", "Play jazz music", "Reset the password"
    ]  # fmt: skip
    decision_log.undo(key)
    assert labels(decision_log, key) == before
    decision_log.redo(key)
    assert labels(decision_log, key) == after
    assert name(project, decision_log).renamed == 0


def test_names_of_people(project: Project, decision_log: DecisionLog) -> None:
    """A group that a person named or pinned keeps its name."""
    key = clustered(project, decision_log, 12)
    first, second, *_ = decision_log.state(key).current
    kept = decision_log.state(key).groups[second].label
    decision_log.decide(key, lambda _: [GoalDecision("rename", (first,), (("Mine", ""),))])
    decision_log.decide(key, lambda _: [GoalDecision("pin", (second,))])
    name(project, decision_log)
    groups = decision_log.state(key).groups
    assert groups[first].label == "Mine"
    assert groups[second].label == kept


def test_nothing_merged(project: Project, decision_log: DecisionLog) -> None:
    """Clusters that nobody merged keep their labels."""
    goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
    stage = name(project, decision_log)
    assert stage.renamed == 0
