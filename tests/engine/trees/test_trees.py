"""Trees in the project file, of several configurations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.records import TreeOptions
from tests.screens.trees.tree_project import CONFIG, entry, grown, imported, run_of, store

OTHER = replace(CONFIG, config_hash="beef", alpha=0.1, model="toy-two")
OPTIONS = TreeOptions(0.05, max_tokens=3)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Two conversations with a tree each, the first one with another under a later configuration."""
    with imported(tmp_path / "p.wb", 3) as made:
        run_id = run_of(made, CONFIG)
        store(made, [entry(n, grown(b"a%d" % n, OPTIONS), run_id) for n in (1, 2)])
        store(made, [entry(1, grown(b"b", OPTIONS), run_id, OTHER)], OTHER)
        yield made


def test_the_one_that_is_shown(project: Project) -> None:
    """The newest configuration is shown; a tree of any can be read."""
    with project.reading() as conn:
        assert [row.model for row in trees.rows(conn)] == ["toy-two"]
        assert trees.trees(conn, 2) == []
        assert len(trees.trees(conn, 2, "cafe")) == 1
        assert trees.frame(conn, 2, 2) is None
        assert trees.frame(conn, 2, 2, "cafe") is not None
    project.write(lambda conn: trees.register(conn, CONFIG))
    assert [row.conversation_id for row in project.read(trees.rows)] == [1, 2]


def test_seconds(project: Project) -> None:
    """The mean time of a conversation, all its trees together, of this configuration only."""
    every = replace(CONFIG, config_hash="f00d", place="every")
    run_id = run_of(project, every)
    several = [entry(1, grown(b"c%d" % n, OPTIONS), run_id, every) for n in (1, 2, 3)]
    steps = [replace(e, row=replace(e.row, step=2 * n)) for n, e in enumerate(several, 1)]
    store(project, steps, every)
    with project.reading() as conn:
        assert trees.seconds(conn, "cafe") == 0.25
        assert trees.seconds(conn, "f00d") == 0.75
        assert trees.seconds(conn, "of another model") is None
