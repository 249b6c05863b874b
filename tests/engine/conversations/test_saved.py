"""The stored view settings of the conversation list."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import ProjectReadOnly
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.service import SavedViews
from engine.project import settings
from engine.project.project import Project

VIEW = ListQuery(parse_filter('state:incomplete "desk lamp"'), "p", True)


class TestView:
    def test_comes_back_when_opened_again(self, tmp_path: Path) -> None:
        """Filter, order, cursor and columns are restored when the project is opened again."""
        with Project.open(tmp_path / "p.wb", create=True) as project:
            saved = SavedViews(project)
            assert saved.view() == (ListQuery(), None)
            assert saved.columns() is None
            saved.save_view(VIEW, 17)
            saved.save_columns(["state", "date"])

        with Project.open(tmp_path / "p.wb", read_only=True) as again:
            assert SavedViews(again).view() == (VIEW, 17)
            assert SavedViews(again).columns() == ["state", "date"]
            with pytest.raises(ProjectReadOnly):
                SavedViews(again).save_view(VIEW, 1)

    @pytest.mark.parametrize(
        "view", [5, "x", {}, {"filter": "turnz:3", "sort": "p"}, {"filter": '"', "conversation": 3}]
    )
    def test_what_is_not_understood_is_absent(self, project: Project, view: object) -> None:
        """A view of another version, or a damaged one, counts as none."""
        project.write(lambda conn: settings.put(conn, "list.view", view))

        assert SavedViews(project).view() == (ListQuery(), None)
