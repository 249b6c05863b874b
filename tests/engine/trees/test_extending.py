"""Growing a stored tree on with the real model."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.conversations.filters import parse_filter
from engine.conversations.selection import Selection
from engine.jobs.runner import JobDone, JobRunner
from engine.model.model_work import RunModel
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.record import TreeRecord, restore
from engine.trees.stages import Below, GrowOnStage, TreeStage
from engine.trees.tree import TreeOptions
from tests.engine.completeness import scored


def test_grown_on_below_a_node(tmp_path: Path) -> None:
    """A lower alpha below the most probable first token adds leaves there; the figures of the recorded answer stay."""
    scored.make(tmp_path / "p.wb")
    process = ModelProcess(tmp_path / "model.log")
    with Project.open(tmp_path / "p.wb") as project:
        runner = JobRunner(project, lambda event: None)
        selection = Selection(parse_filter("name:talk-02"))
        options = TreeOptions(alpha=0.2, max_tokens=3)
        stage = TreeStage(
            project, process, RunModel(scored.model()), options, "last-answer", selection=selection
        )
        runner.run(stage)
        with project.reading() as conn:
            (before,) = trees.measures(conn)
        grow = GrowOnStage(project, process, RunModel(scored.model()), before, Below(1, 0.0005))
        outcome = runner.run(grow)
        with project.reading() as conn:
            (after,) = trees.measures(conn)
            frame = trees.frame(conn, after.conversation_id, after.step)
        process.close()

    assert isinstance(outcome, JobDone)
    assert frame is not None
    tree = restore(TreeRecord.from_frame(frame))
    assert after.leaves > before.leaves
    assert after.config_hash == before.config_hash
    assert after.answer_log_prob == before.answer_log_prob
    assert len(frame["answer"]) == after.answer_tokens > 0
    assert sum(frame["answer_log_probs"]) == pytest.approx(after.answer_log_prob)
    assert after.covered + after.pruned + after.unexpanded == pytest.approx(1, abs=1e-4)
    for node in range(before.nodes, after.nodes):
        while node >= before.nodes:
            node = tree.nodes[node].parent
        while node > 1:
            node = tree.nodes[node].parent
        assert node == 1
