"""The merge queue: its settings, and the stored index of neighbors, used only for its own vectors."""

from pathlib import Path

import numpy as np
import pytest

from engine.goals.clusters import neighbors as neighbours
from engine.goals.clusters.neighbors import NearestRows
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.views import merge_queue
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import (
    QUEUE_SETTING,
    MergeQueueCache,
    put_least_similarity,
    put_order,
    queue_settings,
)
from engine.project import settings
from engine.project.project import Project
from tests.engine.goals import goal_runs


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the number from which on the index is used."""
    monkeypatch.setattr(merge_queue, "MIN_STORED_INDEX_SIZE", 10)
    monkeypatch.setattr(neighbours, "MIN_INDEXED_ROWS", 10)


def near(
    project: Project, decision_log: DecisionLog, folder: Path | None, upto: int, built: list[int]
) -> NearestRows:
    """The neighbours of the first conversations, with nothing in memory."""
    queue_cache = MergeQueueCache(project, decision_log, folder)
    with project.reading() as conn:
        stored = stored_clustering(conn, None)
    ids = np.arange(1, upto + 1, dtype=np.int64)
    found = queue_cache.neighbours(stored, ids, lambda done, total: built.append(done))
    return found.of_rows(np.arange(upto), 3)


class TestNeighbours:
    def test_kept(self, project: Project, decision_log: DecisionLog, tmp_path: Path) -> None:
        """An index that was built is loaded the next time; other conversations of the project have another index."""
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
        first, again, other = list[int](), list[int](), list[int]()
        folder = tmp_path / "cache" / "neighbours"
        found = near(project, decision_log, folder, 48, first)
        same = near(project, decision_log, folder, 48, again)
        near(project, decision_log, folder, 40, other)
        assert (found.rows == same.rows).all()
        assert (bool(first), bool(again), bool(other)) == (True, False, True)
        assert len(list(folder.iterdir())) == 2

    def test_no_room(self, project: Project, decision_log: DecisionLog, tmp_path: Path) -> None:
        """Where the index cannot be written it is built each time, and the neighbours are the same."""
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
        (tmp_path / "cache").write_text("no folder")
        built = list[int]()
        found = near(project, decision_log, tmp_path / "cache" / "neighbours", 48, built)
        assert built
        assert (found.rows == near(project, decision_log, None, 48, []).rows).all()


def test_settings_are_stored_side_by_side(tmp_path: Path) -> None:
    """A new order keeps the least similarity, and the other way round."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        project.write(lambda conn: settings.put(conn, QUEUE_SETTING, {"order": "informative"}))
        project.write(lambda conn: put_order(conn, "similarity"))
        project.write(lambda conn: put_least_similarity(conn, 0.5))
        with project.reading() as conn:
            assert settings.get(conn, "desk", {}) == {"order": "similarity", "floor": 0.5}
            assert queue_settings(conn) == ("similarity", 0.5)
