"""Algorithm 1 of the paper as a preset of the clustering run, with a scripted model behind an endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.goals.clustering_request import ClusteringRequest
from engine.opener.open_project import OpenProject
from tests.engine.goals import paper_project
from tests.engine.model.endpoints.scripted_server import ScriptedServer
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project with conversations on four wishes."""
    paper_project.make(tmp_path / "p.wb")
    return tmp_path / "p.wb"


def questions(server: ScriptedServer, mark: str) -> list[str]:
    """The questions that have a list of this name."""
    bodies = ["".join(m["content"] for m in body["messages"]) for body in server.bodies]
    return [body for body in bodies if mark in body]


def shown(question: str) -> list[list[str]]:
    """The texts of each list of a question."""
    return [
        [line[2:] for line in part.split("\n") if line.startswith("- ")]
        for part in question.split("\n[")[1:]
    ]


def test_each_answer_is_a_decision(path: Path) -> None:
    """The model decides on the most similar descriptions first, until every pair was refused; each answer is a decision
    of its own with the reply, the description that came with a yes names the group, and a reply that says neither yes
    nor no refuses and is counted. Questions have ten of each group, the group first, drawn anew for each; descriptions
    of clusters come from ten and ten.
    """
    with paper_project.scripted_model() as server:
        stage = paper_project.run(path)
        asked_labels, merges = questions(server, "[GROUP]"), questions(server, "[GROUP 1]")
    assert all([len(part) for part in shown(question)] == [10, 10] for question in asked_labels)
    assert len(asked_labels) == 5
    assert all("You will see two groups of task descriptions" in question for question in merges)
    assert all(len(part) == 10 for question in merges for part in shown(question)[:2])
    lists = [tuple(part) for question in merges for part in shown(question)[:2]]
    assert len(set(lists)) == len(lists)
    assert stage is not None
    with OpenProject(path, read_only=True) as workspace:
        groups, review = workspace.goals.groups(), workspace.merge_review
        history = review.history()[::-1]
        progress = review.progress()
    unread = sum((decision.evidence or {})["yes"] is None for decision in history)
    assert f"{unread} of them because the model said neither yes nor no" in stage.summary()
    assert 0 < unread < stage.refused == len(history) - 2
    assert {decision.author for decision in history} == {"llm"}
    assert len({decision.act for decision in history}) == len(history)
    assert all((decision.evidence or {})["reason"] for decision in history)
    of_clusters = [
        (decision.evidence or {})["description_similarity"]
        for decision in history
        if all(side.startswith("c") for side in decision.sides)
    ]
    assert of_clusters[0] == max(of_clusters)
    assert progress.left == 0
    assert (progress.merged, progress.merged_by_rule, progress.merged_by_model) == (0, 0, 2)
    assert [(group.label, group.size) for group in groups] == [
        ("The user books a hotel or a taxi.", 36),
        ("The user books a concert.", 12),
        ("The user books a something.", 12),
    ]


def test_nothing_is_asked_twice(path: Path) -> None:
    """The same run again asks the model nothing and shows the same groups, with what a person decided since."""
    with paper_project.scripted_model() as server:
        paper_project.run(path)
        count = len(server.bodies)
        with OpenProject(path) as workspace:
            workspace.merge_review.rename(workspace.goals.groups()[0].id, "Mine")
        paper_project.run(path)
        assert len(server.bodies) == count
    with OpenProject(path, read_only=True) as workspace:
        assert workspace.goals.groups()[0].label == "Mine"


def test_a_person_decides_in_the_order_of_the_source(path: Path) -> None:
    """With `ask` nothing is decided: the most similar descriptions come first, with the model's reply."""
    with paper_project.scripted_model():
        assert paper_project.run(path, "ask") is None
    with OpenProject(path) as workspace:
        review = workspace.merge_review
        assert review.history() == []
        proposal = review.proposal()
        assert proposal is not None
        similar = [p.evidence.description_similarity for p in review.above(0)]
        assert proposal.evidence.description_similarity == max(similar)
        assert proposal.evidence.answer.reason


def test_where_it_is_proposed(path: Path) -> None:
    """The form proposes it where the model for goals follows instructions, which the built-in one does not; later, what
    the clustering that is shown was made with."""

    def proposed() -> bool:
        with OpenProject(path) as workspace:
            return workspace.goal_stages().proposes_paper()

    assert not proposed()
    with paper_project.scripted_model():
        assert main(["models", "use", str(path), "one", "--for", "goals"]) == 0
        assert proposed()
        assert main(["run", "cluster", str(path), "--no-labels"]) == 0
        assert not proposed()


@pytest.mark.parametrize("other", [{"labels": False}, {"text": "first-user"}])
def test_what_it_needs(other: dict[str, object]) -> None:
    """It needs a model, and clusters summaries; anything else is refused."""
    with pytest.raises(UsageError, match="paper's algorithm"):
        ClusteringRequest(paper=True, **other)  # type: ignore[arg-type]
