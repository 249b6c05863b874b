"""What happens without a person: which groups are merged, settling, names; decisions of a person stay."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest

from engine.base.conversation import Conversation, Message
from engine.goals.records import Author, GoalDecision
from engine.goals.stages.deciding import DecideStage
from engine.goals.stages.labeling import NameStage
from engine.goals.tables.clusterings import goals_clustering_id, source_of, stored_clustering
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.project.project import Project
from tests.engine.goals import goal_runs


class TestDecidingByProbability:
    def decide(self, project: Project, decision_log: DecisionLog, threshold: float) -> DecideStage:
        stage = DecideStage(
            project,
            MergeQueueCache(project, decision_log),
            threshold=threshold,
        )
        (outcome,) = goal_runs.run(project, [stage])
        assert outcome.state == "done"
        return stage

    def test_merges_what_is_probable(self, project: Project, decision_log: DecisionLog) -> None:
        """Too many clusters of four kinds become fewer without mixing kinds; each merge is one decision, settling
        another. What a person takes back of it stays so in a second run.
        """
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=12))
        stage = self.decide(project, decision_log, 0.5)
        with project.reading() as conn:
            stored = stored_clustering(conn, goals_clustering_id(conn))
            texts = source_of(stored).read(conn, list(range(1, 49)))
        kinds = {entry.conversation_id: entry.text.split()[3] for entry in texts}
        state = decision_log.state(stored.id)
        history = decision_log.history(stored.id)

        assert stage.merged > 0
        assert stage.refused == 0
        assert {d.author for d in history} == {"auto"}
        assert len({d.act for d in history if d.kind == "merge"}) == stage.merged
        assert len({d.act for d in history if d.kind == "move"}) == 1
        for group in state.current:
            assert len({kinds[int(member)] for member in state.members(group)}) == 1
        for act in sorted({d.act for d in history}, reverse=True)[:2]:  # settling, the last merge
            decision_log.undo(stored.id, act)
        taken_back = decision_log.state(stored.id).current
        assert self.decide(project, decision_log, 0.5).merged == 0
        assert decision_log.state(stored.id).current == taken_back

    def test_settles_what_lies_among_others(
        self, project: Project, decision_log: DecisionLog
    ) -> None:
        """A conversation whose neighbors are in another group is moved there in one decision, unless a person placed
        it; a second run moves nothing.
        """
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
        with project.reading() as conn:
            key = stored_clustering(conn, goals_clustering_id(conn)).id
        self.decide(project, decision_log, 1.0)
        groups = list(decision_log.state(key).current)
        stray, held = (int(decision_log.state(key).members(group)[0]) for group in groups[:2])
        decision_log.decide(key, lambda state: [_moving(groups[2], stray, "auto")])
        decision_log.decide(key, lambda state: [_moving(groups[2], held, "human")])
        stage = self.decide(project, decision_log, 0.9999)
        assert stage.moved == 1
        assert "moved 1 conversation to" in stage.summary()
        state = decision_log.state(key)
        assert stray in state.members(groups[0])
        assert held in state.members(groups[2])
        assert decision_log.history(key)[0].author == "auto"
        assert self.decide(project, decision_log, 1.0).moved == 0

    def test_groups_that_do_not_mix(self, project: Project, decision_log: DecisionLog) -> None:
        """The rule joins no two groups that are nobody's nearest others, however low the threshold."""
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=12))
        self.decide(project, decision_log, 0.0)
        with project.reading() as conn:
            key = stored_clustering(conn, goals_clustering_id(conn)).id
        left = MergeQueueCache(project, decision_log).snapshot(key).table
        off_diagonal = left.mixing[~np.eye(len(left.keys), dtype=bool)]
        assert (off_diagonal < 0.4).all()


def _moving(group: str, conversation: int, author: Author) -> GoalDecision:
    return GoalDecision("move", (group,), parts=(array("q", [conversation]),), author=author)


def clustered(project: Project, decision_log: DecisionLog, k: int) -> int:
    """Clusters and merges automatically; returns the id of the clustering."""
    goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=k))
    cache = MergeQueueCache(project, decision_log)
    (outcome,) = goal_runs.run(project, [DecideStage(project, cache, threshold=0.5)])
    assert outcome.state == "done"
    with project.reading() as conn:
        return stored_clustering(conn, goals_clustering_id(conn)).id


def labels(decision_log: DecisionLog, key: int) -> list[str]:
    """The labels of the current groups."""
    state = decision_log.state(key)
    return [state.groups[group].label for group in state.current]


def name(project: Project, decision_log: DecisionLog) -> NameStage:
    """Runs the stage."""
    stage = NameStage(project, MergeQueueCache(project, decision_log))
    (outcome,) = goal_runs.run(project, [stage])
    assert outcome.state == "done"
    return stage


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
    decision_log.undo(key, decision_log.history(key)[0].act)
    assert labels(decision_log, key) == before
    assert name(project, decision_log).renamed > 0
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


@pytest.mark.parametrize(
    ("thing", "names"),
    [
        ("My parcel is", ["Find a cheap flight", "Get help with my parcel"]),
        ("", ["Find a cheap flight", "Other requests", "Other requests (2)"]),
    ],
)
def test_fragments(tmp_path: Path, thing: str, names: list[str]) -> None:
    """Groups without a common request that mix become one where they have one together, as one act that is undone as
    one; else they stay apart, and are in no proposal."""
    nouns = ["sky", "sea", "car", "hat", "bag", "cup", "pen", "box"]
    texts = [
        *(f"I want to find a cheap flight to {noun} island." for noun in nouns),
        *(f"{thing} quite blue blue blue: {noun}." for noun in nouns),
        *(f"{thing} rather old old old: {noun}." for noun in reversed(nouns)),
    ]
    talks = [
        Conversation(f"talk-{n:02}", (Message("user", text), Message("assistant", "Done.")))
        for n, text in enumerate(texts)
    ]
    with Project.open(tmp_path / "p.wb", create=True) as project:
        goal_runs.add(project, talks, "talks")
        decision_log = DecisionLog(project)
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=3))
        with project.reading() as conn:
            key = stored_clustering(conn, goals_clustering_id(conn)).id
        before = labels(decision_log, key)
        stage = name(project, decision_log)
        assert stage.joined == (2 if thing else 0)
        assert sorted(labels(decision_log, key)) == names
        assert name(project, decision_log).joined == 0
        if not thing:
            assert decision_log.state(key).open_pairs() == []
        else:
            assert "joined 2 without a common request" in stage.summary()
            decision_log.undo(key, decision_log.history(key)[0].act)
            assert labels(decision_log, key) == before
