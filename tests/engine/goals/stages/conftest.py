"""Weights for quick stages, and a project whose goals can be clustered."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.goals.views.decision_log import DecisionLog
from engine.project.project import Project
from tests.engine.completeness import scored
from tests.engine.goals import goal_runs


@pytest.fixture(scope="session", autouse=True)
def weights(quick_weights: Path) -> Iterator[None]:
    """Stages, also of programs that tests start, run on the shipped weights in Q8_0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(quick_weights))
        yield


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without a clustering."""
    path = tmp_path_factory.mktemp("project") / "p.wb"
    goal_runs.make(path)
    return path


@pytest.fixture
def project(imported: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of the imported project, opened."""
    with Project.open(Path(shutil.copy(imported, tmp_path / "p.wb"))) as opened:
        yield opened


@pytest.fixture
def decision_log(project: Project) -> DecisionLog:
    """The decision logs of the project."""
    return DecisionLog(project)
