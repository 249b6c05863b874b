"""Plays, and the cached replies that they were made of, in the project file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.simulate import tables as plays
from engine.simulate.records import PlayRow, PlaySetting, TranscriptLine
from tests.engine.project.support import begin_run, fill, talk

SETTING = PlaySetting("c", "forms", {"form": "MED"}, {"assistant": "tiny", "user": "other"})
LINE = TranscriptLine(
    "parser", "assistant", (("system", "Fill in.\x1b"), ("user", "卖掉了")), "{", '"a": 1}', "stop",
    "1 of 3 messages left out", 4, {"temperature": 0.5, "json_schema": "{}"},
)  # fmt: skip
PLAY = PlayRow(0, "c", "forms", "forms/MED/0", 1, 1, None, {"score": 0.5})
TRANSCRIPT = (LINE, replace(LINE, note=None))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one conversation, one run and one setting."""
    made = Project.open(tmp_path / "p.wb", create=True)
    fill(made, [talk("a", "hello", "hi")])
    made.write(lambda conn: begin_run(conn, "simulate", "c"))
    made.write(lambda conn: plays.register(conn, SETTING))
    return made


class TestPlays:
    def test_one_that_broke_off_is_played_again(self, project: Project) -> None:
        """An interrupted play has not ended; another one of the same number replaces it."""
        broken = replace(PLAY, conversation_id=None, reason="it was refused", result={})
        project.write(lambda conn: plays.add(conn, broken, ()))
        with project.reading() as conn:
            assert plays.ended_keys(conn, "c") == set()
            (setting,) = plays.settings_of(conn)
            assert (setting.played, setting.broken) == (0, 1)
            (before,) = plays.rows(conn, "c")
        project.write(lambda conn: plays.add(conn, PLAY, TRANSCRIPT))
        with project.reading() as conn:
            assert plays.ended_keys(conn, "c") == {"forms/MED/0"}
            (after,) = plays.rows(conn, "c")
            assert after.id == before.id
            assert plays.settings_of(conn) == [replace(SETTING, played=1)]

    def test_numbers_in_keys_count_by_their_value(self, project: Project) -> None:
        """Keys sort numbers by value: the tenth run of a form comes after the ninth."""
        for key in ("forms/MED/10", "forms/MED/9", "forms/EPA/2"):
            play = replace(PLAY, key=key)
            project.write(partial(plays.add, play=play, transcript=()))
        with project.reading() as conn:
            found = [row.key for row in plays.rows(conn, "c")]
        assert found == ["forms/EPA/2", "forms/MED/9", "forms/MED/10"]
