"""Scoring runs with the paper's decision: their mode, and what is asked for the remaining tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.runs import MAX_REMAINING_TOKENS_OF_PAPER
from engine.completeness.stages.remaining import RemainingStage
from engine.model.service.run_setup import use_adapter
from engine.opener.open_project import OpenProject
from tests.engine.model.small_adapters import adapter_file
from tests.engine.project.support import fill, talk


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[OpenProject]:
    """A project with one conversation."""
    with OpenProject(tmp_path / "p.wb", create=True) as opened:
        fill(opened.project, [talk("one", "Hello.", "Hello.")])
        yield opened


def remaining(workspace: OpenProject, request: ScoringRequest) -> RemainingStage:
    """The stage of a run that writes remaining tasks."""
    stages = workspace.scoring_runs.make_run(request).stages
    return next(stage for stage in stages if isinstance(stage, RemainingStage))


def test_the_scored_prompt_is_answered(workspace: OpenProject) -> None:
    """In mode `base` the remaining tasks answer the prompt that was scored, with room for a list; without the preset
    they answer a question of their own."""
    asked = remaining(workspace, ScoringRequest(mode="base", tune=False, paper=True))
    plain = remaining(workspace, ScoringRequest(mode="base", tune=False))
    assert "output <end of system logs>" in asked.params["prompt"]["question"]
    assert asked.params["prompt"]["max_tokens"] == MAX_REMAINING_TOKENS_OF_PAPER
    assert "output <end of system logs>" not in plain.params["prompt"]["question"]


def test_the_adapter_decides_where_there_is_one(workspace: OpenProject, tmp_path: Path) -> None:
    """Without a mode the run is `tuned` with an adapter in use, and `base` without one."""
    request = ScoringRequest(tune=False, paper=True)
    assert workspace.scoring_runs.mode_for(request) == "base"
    use_adapter(workspace.project, str(adapter_file(tmp_path / "mine.gguf")))
    assert workspace.scoring_runs.mode_for(request) == "tuned"


def test_a_probe_generates_nothing(workspace: OpenProject) -> None:
    """Modes in which no text is written are refused."""
    with pytest.raises(UsageError, match="Nothing is generated in mode `probe`"):
        workspace.scoring_runs.make_run(ScoringRequest(mode="probe", paper=True))
