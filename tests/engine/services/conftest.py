"""A clustered project, and a machine on which the default model was tuned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import folders
from engine.services.goals.service import GoalService
from engine.store.project import Project
from tests.engine.services.goals.goal_project import cluster, fill_topics, stored_goals
from tests.engine.services.tuned import tune


@pytest.fixture
def clustered(tmp_path: Path) -> Iterator[Project]:
    """Eight conversations on each of four topics, in eight clusters or so, and one that says nothing."""
    with Project.open(tmp_path / "p.wb", create=True) as opened:
        fill_topics(opened)
        cluster(opened)
        yield opened


@pytest.fixture
def goals(clustered: Project) -> GoalService:
    """Its goals."""
    return stored_goals(clustered)


@pytest.fixture
def tuned(quick_weights: Path) -> None:
    """The default model was tuned on this machine before."""
    tune(quick_weights, folders.data_dir(), folders.cache_dir())
