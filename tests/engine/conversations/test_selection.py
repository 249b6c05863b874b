"""Which conversations a run works on: by a filter, by names, so many, or a part for one of several machines."""

from __future__ import annotations

from pathlib import Path

from engine.conversations.filters import parse_filter
from engine.conversations.selection import Selection
from engine.jobs.contract import blocks
from engine.opener import conversations
from engine.project.project import Project
from tests.engine.project.support import fill, talk


def test_parts_share_the_blocks_of_the_whole(tmp_path: Path) -> None:
    """Three parts of a filtered selection hold each conversation once, and are read in the blocks of the whole."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk(f"c{n}", "x" * (50 * n), "an answer") for n in range(1, 151)])
        with project.reading() as conn:

            def cut(part: tuple[int, int] | None) -> list[list[int]]:
                ids = Selection(parse_filter("length>100"), part=part).ids(conn)
                return list(blocks(ids, [row.chars for row in conversations.rows(conn, ids)]))

            parts = [cut((number, 3)) for number in (1, 2, 3)]
            assert sorted(block for part in parts for block in part) == cut(None)
            assert min(map(len, parts)) > 1


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
