"""`workbench answers`, and `workbench filters`: what keys do in triage and in the list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Verdict
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from tests.command_line import result
from tests.engine.project.support import fill, talk
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk(f"c{n}", f"Lamp {n}?", "Yes." * n) for n in range(1, 7)])
    return str(tmp_path / "p.wb")


def state(path: str, key: int) -> tuple[Any, ...]:
    with Project.open(path, read_only=True) as project:
        now = TriageService(project).current(key)
    if now is None:
        return None, "", (), ""
    return now.verdict, now.note, tuple(name for name, _ in now.answers), now.annotator


def test_answers(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdicts, notes and tags are answers; each is given under a name, taken away by an empty one, and undone."""
    give = ["answers", path]
    assert main([*give, "succeeded", "--give", "c2", "no", "--annotator", "ann"]) == 0
    assert main([*give, "note", "--give", "c2", "no lamp"]) == 0
    assert main([*give, "late"]) == 2
    assert "There is no question “late”" in capsys.readouterr().err
    assert main([*give, "late", "--give", "c2", "yes", "--give", "c3", "No"]) == 0
    assert main([*give, "late", "--give", "c2", "perhaps"]) == 2
    assert state(path, 2) == (Verdict.NO, "no lamp", ("late",), "ann")
    listed = result(*give, "late")["answers"]
    assert [(row["conversation"], row["value"]) for row in listed] == [("c2", "yes"), ("c3", "no")]
    assert main([*give, "note", "--give", "c2", ""]) == 0
    assert state(path, 2)[1] == ""
    assert main([*give, "note", "--undo"]) == 0
    assert main([*give, "late", "--undo"]) == 0
    assert "late on 2 conversations taken back." in capsys.readouterr().out
    assert state(path, 2)[1:3] == ("no lamp", ())
    assert main([*give, "late", "--redo"]) == 0
    assert state(path, 2)[2] == ("late",)


def test_a_blind_verdict(path: str) -> None:
    """A verdict that was given blind leaves the one in force, and agreement is measured on it."""
    give = ["answers", path, "succeeded", "--annotator"]
    assert main([*give, "ann", "--give", "c2", "yes"]) == 0
    assert main([*give, "bob", "--give", "c2", "no", "--blind"]) == 0
    assert state(path, 2)[0] is Verdict.YES
    with Project.open(path, read_only=True) as project, project.reading() as conn:
        kinds = conn.execute("SELECT kind, annotator FROM answer ORDER BY id").fetchall()
    assert kinds == [("give", "ann"), ("repeat", "bob")]


@pytest.mark.parametrize(
    "words",
    [
        ["succeeded", "--give", "nobody", "yes"],
        ["???", "--give", "c1", "yes"],
        ["succeeded", "--give", "c1", "complete"],
    ],
)
def test_what_is_missing(path: str, words: list[str]) -> None:
    """An id or a question that is not here, and an answer that the question cannot have are refused."""
    assert main(["answers", path, *words]) == 2
