"""Which conversations a run works on: by a filter, by names, or so many."""

from __future__ import annotations

from pathlib import Path

from engine.conversations.filters import parse_filter
from engine.conversations.selection import Selection
from engine.project.project import Project
from tests.engine.project.support import fill, talk


def test_names_and_filter_select_before_the_limit_counts(tmp_path: Path) -> None:
    """A limit takes the first of those that match the filter and have one of the names; unknown names are no error."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk(f"c{n}", *[f"hi {n}", "ho"] * (1 + n % 2)) for n in range(1, 9)])
        with project.reading() as conn:
            assert list(Selection(limit=3).ids(conn)) == [1, 2, 3]
            named = Selection(names={"c2", "c4", "c5", "nobody"}, limit=2)
            assert list(named.ids(conn)) == [2, 4]
            assert list(Selection(parse_filter("messages>3"), limit=2).ids(conn)) == [1, 3]
            both = Selection(parse_filter("messages>3"), names={"c2", "c5", "c7"}, limit=1)
            assert list(both.ids(conn)) == [5]
