"""The goals of a project file over time: later conversations, another clustering, exports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.conversations.filters import Filter
from engine.goals.clustering_request import ClusteringRequest
from engine.goals.records import Theme
from engine.goals.service.groups import GoalService
from engine.goals.service.merge_review import MergeReviewService
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from engine.questions.tables import answers
from tests.engine.goals.service.goal_project import (
    TOPIC,
    members,
    merge_rightly,
    run,
    stages_of,
    topic_of,
)
from tests.engine.project.support import fill, talk
from workbench.cli import main


class TestLater:
    def test_conversations_that_came_later(
        self, clustered: Project, goals: GoalService, review: MergeReviewService
    ) -> None:
        """Later conversations are assigned to the present groups, count there, follow merges, and can be moved."""
        merge_rightly(review)
        sizes = {topic_of(goals, row.id): row.size for row in goals.groups()}
        fill(
            clustered,
            [talk("new-1", "reserve a plane seat to lima"), talk("new-2", "zebra")],
            "new",
        )
        run(clustered, stages_of(clustered).assign_stages())
        shown = goals.shown()
        assert shown is not None
        (flights,) = [row for row in goals.groups() if topic_of(goals, row.id) == "book"]
        assert flights.size == sizes["book"] + 1
        assert 34 in members(goals, flights.id)
        other = next(row.id for row in goals.groups() if row.id != flights.id)
        made = review.merge(review.pair(flights.id, other)).made_groups[0]
        assert 34 in members(goals, made)
        review.undo()
        review.move([34], other)
        assert 34 in members(goals, other)
        assert 34 not in members(goals, flights.id)

    def test_how_many_failed(
        self,
        clustered: Project,
        goals: GoalService,
        review: MergeReviewService,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A group counts the failed among its conversations with a known outcome: that of a verdict, else the one that
        came with it, of the present text; so do a theme, a part that a filter selects, and the list. After an answer
        the outcomes that came with conversations are not read again."""
        assert {(row.failed, row.with_outcome) for row in goals.groups()} == {(0, 0)}
        largest = goals.groups()[0]
        first, second, third, *_ = members(goals, largest.id)
        with_truth = [
            talk("t1", "reserve a plane seat to lima", truth={"success": False}),
            talk("t2", "reserve a plane seat to rome", truth={"reward": 0.5, "succeeded": True}),
        ]
        fill(clustered, with_truth, "truth")
        run(clustered, stages_of(clustered).assign_stages())
        review.move([34, 35], largest.id)
        triage = TriageService(clustered)
        for key, verdict in ((first, "no"), (second, "yes"), (third, "unsure"), (34, "yes")):
            triage.give(key, verdict)
        row = goals.groups()[0]
        assert (row.failed, row.with_outcome, row.failures) == (1, 4, "1 of 4")
        triage.undo()
        with monkeypatch.context() as without:
            without.delattr(answers, "imported_outcomes")
            rows = goals.groups()
        assert rows[0].failures == "2 of 4"
        assert {row.failures for row in rows[1:]} == {""}
        whole = Theme("Trips", (replace(rows[0], theme="Trips"), rows[1])).as_group
        assert whole.failures == "2 of 4"
        (part, *_) = goals.groups(Filter().with_choice("succeeded", "no"))
        assert part.failures == "1 of 1"
        grown = talk("t2", "reserve a plane seat to rome", "No.", "Why?", truth={"success": False})
        fill(clustered, [grown], "truth")
        assert goals.groups()[0].failures == "3 of 4"
        clustered.close()
        assert main(["goals", "list", str(clustered.path)]) == 0
        assert "%  3 of 4 failed  " in capsys.readouterr().out

    def test_an_estimate(self, clustered: Project) -> None:
        """The estimate has the number of selected conversations, the model and what it is asked for, and a time once
        every stage has run here."""
        stages = stages_of(clustered)
        found = stages.estimate(ClusteringRequest())
        # The built-in model is asked as in the paper only.
        assert (found.items, found.seconds, found.model) == (33, None, "tfidf")
        assert found.asked == ()
        embedder = Path(clustered.path).with_name("vectors.gguf")
        embedder.touch()
        gguf = ClusteringRequest(embedder=str(embedder), labels=False)
        stages.setup.process = ModelProcess(embedder)  # which is not started
        assert stages.estimate(gguf).model == gguf.embedder
        paper = stages.estimate(ClusteringRequest(paper=True))
        assert (paper.model, paper.asked) == ("smollm2-135m", ("summaries", "labels", "merges"))
        for request in (ClusteringRequest("summary"), ClusteringRequest(decide="llm")):
            with pytest.raises(UsageError, match="model"):
                stages.estimate(request)
        assert stages.estimate(ClusteringRequest(limit=5)).items == 5
        one_import = ClusteringRequest(filter=Filter().with_choice("source", "later.jsonl"))
        assert stages.estimate(one_import).items == 1
        with pytest.raises(UsageError, match="no embedder"):
            stages.estimate(ClusteringRequest(embedder="nowhere"))
        with pytest.raises(UsageError, match="no embedder"):
            stages.cluster_stages(ClusteringRequest(embedder="nowhere"))


class TestExports:
    def lines(self, project: Project, what: str, *more: str) -> list[dict[str, object]]:
        """The lines that an export writes."""
        path = Path(project.path)
        out = path.with_suffix(f".{what}.jsonl")
        assert main(["export", str(path), what, "--force", "-o", str(out), *more]) == 0
        return [json.loads(line) for line in out.read_text().splitlines()]

    def test_assignments(
        self, clustered: Project, goals: GoalService, review: MergeReviewService
    ) -> None:
        """A line for every imported id in the order of import: its present group and the distance to the center,
        or why it is in none.
        """
        review.merge(review.pair(goals.groups()[0].id, goals.groups()[1].id), "both")
        found = self.lines(clustered, "assignments")
        assert [line["id"] for line in found] == [f"{t}-{n}" for n, t in TOPIC.items()] + ["silent"]
        keys = {"id", "cluster", "label", "distance", "reason"}
        assert set(found[0]) == keys | {"duplicates"}
        for row in goals.groups():
            ids = {n for n, line in enumerate(found, 1) if line["cluster"] == row.id}
            assert ids == members(goals, row.id)
            assert {line["label"] for line in found if line["cluster"] == row.id} == {row.label}
        assert found[-1]["cluster"] is None
        assert found[-1]["reason"] == "the embedder knows none of its words"
        for line in found[:-1]:
            assert (line["reason"] is None) == (line["cluster"] is not None)
        chosen = self.lines(clustered, "assignments", "--filter", "name:book")
        assert [line["id"] for line in chosen] == [f"{t}-{n}" for n, t in TOPIC.items() if t == "book"]  # fmt: skip

    def test_clusters_and_decisions(
        self, clustered: Project, goals: GoalService, review: MergeReviewService
    ) -> None:
        """The exports have the present groups, and all decisions with their evidence, undone ones too."""
        a, b, *_ = (row.id for row in goals.groups())
        review.merge(review.pair(a, b), "both")
        review.undo()
        found = self.lines(clustered, "clusters")
        assert [(line["cluster"], line["size"], line["complete"]) for line in found] == [
            (row.id, row.size, row.states.complete) for row in goals.groups()
        ]
        (decision,) = self.lines(clustered, "decisions")
        assert decision["clusters"] == [a, b]
        assert (decision["kind"], decision["author"], decision["stands"]) == (
            "merge",
            "human",
            False,
        )
        evidence = decision["evidence"]
        assert isinstance(evidence, dict)
        assert evidence["probability"] == decision["probability"]
