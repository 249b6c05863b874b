"""A fake project whose conversations are clustered."""

from __future__ import annotations

from tests.screens.fakes import FakeProject, project
from tests.screens.goals.fake_goals import CLUSTERS, OUTLIERS


def clustered() -> FakeProject:
    """Seven clusters, some of them alike."""
    fake = project()
    fake.goals.clusters, fake.goals.outliers = CLUSTERS, OUTLIERS
    return fake
