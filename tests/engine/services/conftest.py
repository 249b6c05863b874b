"""A clustered project, and a catalogue in which the default model is tuned."""

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
    """Eight conversations on each of four topics, in about eight clusters, and one without user text."""
    with Project.open(tmp_path / "p.wb", create=True) as opened:
        fill_topics(opened)
        cluster(opened)
        yield opened


@pytest.fixture
def goals(clustered: Project) -> GoalService:
    """The goal service of the clustered project."""
    return stored_goals(clustered)


@pytest.fixture
def tuned(quick_weights: Path) -> None:
    """Records in the catalogue that the default model was tuned."""
    tune(quick_weights, folders.data_dir(), folders.cache_dir())


@pytest.fixture
def tuned_shallow(shallow_weights: Path) -> None:
    """The same with the shallow model, for what happens around replies; an adapter does not fit it."""
    tune(shallow_weights, folders.data_dir(), folders.cache_dir())
