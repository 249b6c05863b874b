"""Plays in the project file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.simulate import tables
from engine.simulate.play import StoredPlay
from tests.engine.project.support import begin_run, fill, talk

PLAY = StoredPlay("sharded/T/full/0", 1, None, {
    "task": "math", "task_id": "T", "condition": "full", "assistant_model": "tiny", "score": None,
})  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one conversation, one run and one setting."""
    made = Project.open(tmp_path / "p.wb", create=True)
    fill(made, [talk("a", "hello", "hi")])
    made.write(lambda conn: begin_run(conn, "simulate", "c"))
    made.write(lambda conn: tables.register(conn, "c", "sharded", {"assistant": "tiny"}))
    return made


def test_one_that_broke_off_is_replaced(project: Project) -> None:
    """A play that broke off has no score; another one of the same key replaces it."""
    broken = replace(PLAY, conversation_id=None, reason="it was refused", result={})
    for play in (broken, PLAY):
        project.write(partial(tables.add, config_hash="c", run_id=1, play=play))
        with project.reading() as conn:
            assert tables.plays(conn, "c") == {play.key: play}
            scores = [score.score for score in tables.scores(conn, "c")]
        assert scores == ([0.0] if play is PLAY else [])
    with project.reading() as conn:
        assert (tables.scores(conn, "other"), tables.filled_forms(conn, "c")) == ([], [])
