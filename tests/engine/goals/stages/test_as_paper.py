"""The paper's goals on a real project with the real model, from free summaries to the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import Cancelled, ModelCrashed
from engine.conversations.selection import Selection
from engine.goals.service.results import paper_result
from engine.goals.service.runs import PAPER_PROMPTS
from engine.goals.stages.as_paper import PaperMeasurements, PaperStage
from engine.goals.stages.embedding import EmbedStage, SummariseStage
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.tables.texts import TextSource
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.contract import OnProgress
from engine.jobs.runner import JobDone
from engine.model.embedders.embedder import embedder_for
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import ModelWork
from engine.project.project import Project
from tests.engine.completeness import scored
from tests.engine.goals import goal_runs


@pytest.fixture(autouse=True)
def weights(shallow_weights: Path) -> Iterator[None]:
    """Five layers of the shipped weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(shallow_weights))
        yield


def stages(
    project: Project,
    decision_log: DecisionLog,
    process: ModelProcess,
    count: int,
    wanted: PaperMeasurements,
) -> tuple[SummariseStage, EmbedStage, PaperStage]:
    """The stages on so many conversations, with short replies."""
    select, model = Selection(limit=count), scored.model()
    summarise = SummariseStage(
        project, process, model, goal_runs.prompt("paper-summary", 12), selection=select, whole=True
    )  # fmt: skip

    def source() -> TextSource:
        return TextSource("summary", summarise.config_hash)

    embed = EmbedStage(project, goal_runs.tfidf(), source, selection=select)
    paper = PaperStage(
        project, process, model, decision_log, embed, source, lambda: embedder_for("tfidf"),
        {name: goal_runs.prompt(name, 6) for name in PAPER_PROMPTS}, k=2, measurements=wanted,
    )  # fmt: skip
    return summarise, embed, paper


def test_everything(project: Project, decision_log: DecisionLog, process: ModelProcess) -> None:
    """All that is printed of the paper comes from one run, and the clustering is shown with the model's
    descriptions.
    """
    wanted = PaperMeasurements(seeds=1, bootstraps=1, hold_out=0.5, orders=1)
    summarise, embed, paper = stages(project, decision_log, process, 6, wanted)
    outcomes = goal_runs.run(project, [summarise, embed, paper])
    assert all(isinstance(one, JobDone) for one in outcomes), outcomes
    with project.reading() as conn:
        shown = stored_clustering(conn, None).id
    assert paper.result
    gold = {key: f"goal {key % 2}" for key in paper.result.ids}
    found = paper_result(paper.result, gold)

    assert found["conversations"] == 6
    assert found["clustering"]["clusters_before"] == 2
    table = found["table_4"]
    assert table["train"]["rows"] + table["test"]["rows"] + table["without_vector"] == 6
    assert [len(found["figure_4"][kind]) for kind in ("seeds", "bootstraps")] == [1, 1]
    (order,) = found["llm_only"]["orders"]
    assert order["against_gold"]["n"] == 6
    with project.reading() as conn:
        stored = clusterings.clusters(conn, shown)
    described = [group["description"] for group in found["clustering"]["groups"]]
    assert [cluster.label for cluster in stored] == described
    assert sum(cluster.size for cluster in stored) == 6


def test_goes_on_after_a_stop(
    project: Project,
    decision_log: DecisionLog,
    process: ModelProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that is stopped in the baseline resumes after the last reply; nothing is answered twice."""
    answered: list[tuple[str, ...]] = []
    replies = ModelWork.replies

    def counted(work: ModelWork, items: Any, prompt: Prompt, report: OnProgress) -> Any:
        found = replies(
            work, items, prompt, report
        )  # an interrupted one raises, and is asked again
        if prompt.name in PAPER_PROMPTS:
            answered.extend((prompt.name, *pieces) for pieces, _ in items)
        return found

    monkeypatch.setattr(ModelWork, "replies", counted)
    summarise, embed, stopped = stages(
        project, decision_log, process, 4, PaperMeasurements(orders=1)
    )
    goal_runs.run(project, [summarise, embed])

    def run_to_fifth_reply() -> None:
        for progress in stopped.run(1):
            if progress.note.endswith("order 1: 5 replies"):
                stopped.interrupt()

    with pytest.raises(Cancelled):
        run_to_fifth_reply()
    assert any(name == "paper-first-category" for name, *_ in answered)
    *_, resumed = stages(project, decision_log, process, 4, PaperMeasurements(orders=1))
    *_, again = stages(project, decision_log, process, 4, PaperMeasurements(orders=1))
    outcomes = goal_runs.run(project, [resumed, again])
    assert all(isinstance(one, JobDone) for one in outcomes), outcomes
    assert len(answered) == len(set(answered)) == 3 + 4
    assert resumed.result
    assert again.result
    assert again.result.categories == resumed.result.categories


def test_a_reply_on_which_the_process_dies_once(
    project: Project,
    decision_log: DecisionLog,
    process: ModelProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the model process dies on a reply, it is asked again before the run fails."""
    died: list[str] = []
    replies = ModelWork.replies

    def dying(work: ModelWork, items: Any, prompt: Prompt, report: OnProgress) -> Any:
        if prompt.name in PAPER_PROMPTS and not died:
            died.append(prompt.name)
            raise ModelCrashed("The model process died.")
        return replies(work, items, prompt, report)

    monkeypatch.setattr(ModelWork, "replies", dying)
    made = stages(project, decision_log, process, 4, PaperMeasurements())
    outcomes = goal_runs.run(project, made)
    assert all(isinstance(one, JobDone) for one in outcomes), outcomes
    assert died == ["paper-label"]
