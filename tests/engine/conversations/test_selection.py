"""Parts of a selection, for several machines that share one job."""

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
