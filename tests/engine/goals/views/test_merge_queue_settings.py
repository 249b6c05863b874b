"""The stored order and least similarity of the merge queue."""

from pathlib import Path

from engine.goals.views.merge_queue import SETTING, put_least_similarity, put_order, queue_settings
from engine.project import settings
from engine.project.project import Project


def test_projects_keep_the_former_names(tmp_path: Path) -> None:
    """The order `informative` is stored as `teaching`, the least similarity as `floor`, as in older projects."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        project.write(lambda conn: settings.put(conn, SETTING, {"order": "probability"}))
        project.write(lambda conn: put_order(conn, "informative"))
        project.write(lambda conn: put_least_similarity(conn, 0.5))
        with project.reading() as conn:
            assert settings.get(conn, "desk", {}) == {"order": "teaching", "floor": 0.5}
            assert queue_settings(conn) == ("informative", 0.5)
