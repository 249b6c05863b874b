"""Growing trees over a project with the real model, and growing one of them further."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.conversations.filters import parse_filter
from engine.conversations.selection import Selection
from engine.jobs.runner import JobRunner, RunOutcome
from engine.model.process.process import ModelProcess
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.records import TreeOptions, TreePlace, TreeRequest, TreeRow
from engine.trees.stages import TreeStage
from tests.engine.completeness import scored

OPTIONS = TreeOptions(alpha=0.05, max_tokens=4)


@pytest.fixture(scope="module", autouse=True)
def weights(shallow_weights: Path) -> Iterator[None]:
    """Trees of five layers of the shipped weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(shallow_weights))
        yield


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    scored.make(tmp_path / "p.wb")
    with Project.open(tmp_path / "p.wb") as opened:
        yield opened


def grow(
    project: Project, process: ModelProcess, query: str = "", at: TreePlace = "last-answer"
) -> RunOutcome:
    selection = Selection(parse_filter(query))
    stage = TreeStage(project, process, scored.model(), OPTIONS, at, selection=selection)
    return JobRunner(project, lambda event: None).run(stage)


def stored(project: Project) -> list[TreeRow]:
    return project.read(trees.rows)


class TestGrowing:
    def test_every_conversation_has_a_tree_or_a_reason(
        self, project: Project, process: ModelProcess
    ) -> None:
        """Measures are stored with the tree; a conversation without an answer has the reason instead."""
        outcome = grow(project, process)
        rows = stored(project)

        assert outcome.state == "done"
        assert len(rows) == 12
        (none,) = [row for row in rows if row.reason is not None]
        assert "no assistant step" in (none.reason or "")
        for row in rows:
            if row.reason is None:
                assert row.leaves >= 1
                assert row.covered + row.pruned + row.unexpanded == pytest.approx(1, abs=1e-4)
                assert row.answer_tokens > 0
                assert (row.alpha, row.place) == (0.05, "last-answer")

    def test_again_only_what_is_missing(self, project: Project, process: ModelProcess) -> None:
        """A second run over more conversations leaves stored trees unchanged."""
        grow(project, process, "name:talk-00")
        before = stored(project)
        grow(project, process, "name:talk-00,talk-01")
        after = stored(project)

        assert len(before) == 1
        assert len(after) == 2
        assert before[0] in after

    def test_an_estimate_counts_what_the_run_would_grow(self, project: Project) -> None:
        """Of the first conversations of a limited run, as the run itself takes them."""
        with OpenProject(Path(project.path)) as opened:
            assert opened.trees.estimate(TreeRequest(OPTIONS, limit=2)).items == 2
