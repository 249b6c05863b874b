"""A fake project whose conversations are clustered."""

from __future__ import annotations

from tests.screens.fake_goals import CLUSTERS, OUTLIERS
from tests.screens.fakes import FakeProject, project


def clustered() -> FakeProject:
    """Seven clusters, some of them alike."""
    fake = project()
    fake.goals.clusters, fake.goals.outliers = CLUSTERS, OUTLIERS
    return fake
