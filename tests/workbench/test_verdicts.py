"""`workbench verdicts give` and `undo`, and `workbench filters`: what keys do in triage and in the list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Verdict
from engine.project.project import Project
from engine.questions.service.triage import TriageService
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
    return (None, "", (), "") if now is None else (now.verdict, now.note, now.tags, now.annotator)


def test_one_conversation(path: str) -> None:
    """Verdict, note and tags come together, under a name, and one undo takes them back."""
    words = ["verdicts", "give", path, "c2", "--verdict", "incomplete", "--note", "no lamp"]
    assert main([*words, "--tag", "late", "--tag", "rude", "--annotator", "ann"]) == 0
    assert state(path, 2) == (Verdict.INCOMPLETE, "no lamp", ("late", "rude"), "ann")
    assert main(["verdicts", "give", path, "c2", "--untag", "rude", "--note", ""]) == 0
    assert state(path, 2) == (Verdict.INCOMPLETE, "", ("late",), "ann")
    assert main(["verdicts", "undo", path]) == 0
    assert state(path, 2)[1:3] == ("no lamp", ("late", "rude"))
    assert main(["verdicts", "undo", path]) == 0
    assert state(path, 2) == (None, "", (), "")
    assert main(["verdicts", "undo", path]) == 2
    assert main(["verdicts", "undo", path, "--redo"]) == 0
    assert state(path, 2)[0] is Verdict.INCOMPLETE


def test_a_blind_verdict(path: str) -> None:
    """A verdict that was given blind leaves the one in force, and agreement is measured on it; only verdicts can be."""
    give = ["verdicts", "give", path, "c2", "--annotator"]
    assert main([*give, "ann", "--verdict", "complete"]) == 0
    assert main([*give, "bob", "--verdict", "incomplete", "--blind"]) == 0
    assert state(path, 2)[0] is Verdict.COMPLETE
    with Project.open(path, read_only=True) as project, project.reading() as conn:
        kinds = conn.execute("SELECT kind, annotator FROM verdict ORDER BY id").fetchall()
    assert kinds == [("give", "ann"), ("repeat", "bob")]
    assert main([*give, "bob", "--tag", "late", "--blind"]) == 2


def test_all_of_a_filter(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All that a filter matches is judged only with --yes, as one act."""
    words = ["verdicts", "give", path, "--filter", "name:c", "--tag", "seen"]
    assert main(words) == 2
    assert "matches 6 conversations; nothing was stored" in capsys.readouterr().err
    assert state(path, 1) == (None, "", (), "")
    assert main([*words, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"conversations": 6, "stored": 6}
    assert main([*words, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"conversations": 6, "stored": 0}
    assert main(["verdicts", "undo", path]) == 0
    assert "Tag on 6 conversations taken back." in capsys.readouterr().out
    assert state(path, 6) == (None, "", (), "")


@pytest.mark.parametrize(
    "words",
    [
        ["c1"],
        ["--verdict", "complete"],
        ["c1", "--filter", "p>1", "--tag", "x"],
        ["nobody", "--tag", "x"],
    ],
)
def test_what_is_missing(path: str, words: list[str]) -> None:
    """Nothing said, nobody named, both ways of naming and an id that is not here are refused."""
    assert main(["verdicts", "give", path, *words]) == 2


def test_filters(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Filters are saved, listed and deleted by name; one that cannot be read is not saved."""
    assert main(["filters", path, "--save", "late", "tag:late  turns>2"]) == 0
    assert capsys.readouterr().out == "late: tag:late turns>2\n"
    assert main(["filters", path, "--save", "bad", "nothing:x"]) == 2
    assert main(["filters", path, "--delete", "bad"]) == 2
    capsys.readouterr()
    assert main(["filters", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"filters": {"late": "tag:late turns>2"}}
    assert main(["filters", path, "--delete", "late"]) == 0
    assert capsys.readouterr().out == "No filters are saved.\n"
