"""The merge queue: its settings."""

from __future__ import annotations

from engine.goals.views.merge_queue import (
    QUEUE_SETTING,
    put_least_similarity,
    put_order,
    queue_settings,
)
from engine.project import settings
from engine.project.project import Project


def test_settings_are_stored_side_by_side(project: Project) -> None:
    """A new order keeps the least similarity, and the other way round."""
    project.write(lambda conn: settings.put(conn, QUEUE_SETTING, {"order": "informative"}))
    project.write(lambda conn: put_order(conn, "similarity"))
    project.write(lambda conn: put_least_similarity(conn, 0.5))
    with project.reading() as conn:
        assert settings.get(conn, "desk", {}) == {"order": "similarity", "floor": 0.5}
        assert queue_settings(conn, paper=False) == ("similarity", 0.5)
