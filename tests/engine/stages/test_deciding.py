"""Deciding without a person: what is merged, refused and settled, and that a person's word holds."""

from __future__ import annotations

from array import array

import pytest

from engine.errors import UsageError
from engine.jobs.runner import JobDone
from engine.records.goals import Author, DeskDecision
from engine.stages.deciding import DecideStage
from engine.store.project import Project
from engine.views.decision_log import DecisionLog
from engine.views.goal_inputs import source_of, stored_clustering
from engine.views.merge_queue_cache import MergeQueueCache
from tests.engine.stages import goal_runs


class TestDecidingByProbability:
    def decide(self, project: Project, desks: DecisionLog, threshold: float) -> DecideStage:
        stage = DecideStage(
            project,
            desks,
            MergeQueueCache(project, desks),
            "auto",
            lambda: None,
            threshold=threshold,
        )
        (outcome,) = goal_runs.run(project, [stage])
        assert isinstance(outcome, JobDone)
        return stage

    def test_merges_what_is_probable(self, project: Project, desks: DecisionLog) -> None:
        """Too many clusters of four kinds become fewer, never mixed; a merge is an act, settling is one more."""
        goal_runs.run(project, goal_runs.vector_stages(project, desks, k=12))
        stage = self.decide(project, desks, 0.5)
        with project.reading() as conn:
            stored = stored_clustering(conn, None)
            texts = source_of(stored).read(conn, list(range(1, 49)))
        kinds = {entry.conversation_id: entry.text.split()[3] for entry in texts}
        desk = desks.desk(stored.id)
        history = desks.history(stored.id)

        assert stage.merged > 0
        assert stage.refused == 0
        assert {d.author for d in history} == {"auto"}
        assert len({d.act for d in history if d.kind == "merge"}) == stage.merged
        assert len({d.act for d in history if d.kind == "move"}) == 1
        for group in desk.current:
            assert len({kinds[int(member)] for member in desk.members(group)}) == 1

    def test_settles_what_lies_among_others(self, project: Project, desks: DecisionLog) -> None:
        """A conversation that is no member of its neighbours' group is moved there by one act, unless a person put it
        where it is; a second run moves nothing."""
        goal_runs.run(project, goal_runs.vector_stages(project, desks, k=4))
        with project.reading() as conn:
            key = stored_clustering(conn, None).id
        self.decide(project, desks, 1.0)
        groups = list(desks.desk(key).current)
        stray, held = (int(desks.desk(key).members(group)[0]) for group in groups[:2])
        desks.decide(key, lambda desk: [_moving(groups[2], stray, "auto")])
        desks.decide(key, lambda desk: [_moving(groups[2], held, "human")])
        stage = self.decide(project, desks, 1.0)
        assert stage.settled == 1
        assert "moved 1 conversations" in stage.summary()
        desk = desks.desk(key)
        assert stray in desk.members(groups[0])
        assert held in desk.members(groups[2])
        assert desks.history(key)[0].author == "auto"
        assert self.decide(project, desks, 1.0).settled == 0

    def test_a_higher_threshold_merges_no_more(self, project: Project, desks: DecisionLog) -> None:
        """At certainty nothing is merged, and what was merged before stays; a second run adds nothing."""
        goal_runs.run(project, goal_runs.vector_stages(project, desks, k=12))
        assert self.decide(project, desks, 1.0).merged == 0
        assert self.decide(project, desks, 0.5).merged > 0
        assert self.decide(project, desks, 0.5).merged == 0

    def test_a_persons_no_holds(self, project: Project, desks: DecisionLog) -> None:
        """What a person refused is not merged by the rule, however probable."""
        goal_runs.run(project, goal_runs.vector_stages(project, desks, k=12))
        with project.reading() as conn:
            key = stored_clustering(conn, None).id
        moment = MergeQueueCache(project, desks).now(key)
        first = moment.left("probability")[0]
        desks.decide(key, lambda desk: [DeskDecision("never", first)])
        self.decide(project, desks, 0.01)
        desk = desks.desk(key)
        assert desk.now(first[0]) != desk.now(first[1])

    def test_the_models_word_needs_a_model(self, project: Project, desks: DecisionLog) -> None:
        """`llm` without a model is refused."""
        with pytest.raises(UsageError, match="no model is asked"):
            DecideStage(project, desks, MergeQueueCache(project, desks), "llm", lambda: None)


def _moving(group: str, conversation: int, author: Author) -> DeskDecision:
    return DeskDecision("move", (group,), parts=(array("q", [conversation]),), author=author)
