"""`workbench simulate forms`: from a form to a table and conversations with truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.conversations.tables import conversations
from engine.project.project import Project
from engine.simulate.forms import form_session
from workbench.cli import main

FORM = {
    'Colour of the "car"': {
        "type": "choice",
        "required": True,
        "answer": None,
        "options": ["red", "blue"],
    },
}


@pytest.fixture
def permit(tmp_path: Path) -> Path:
    """A form of one field, with a quote in its label."""
    path = tmp_path / "permit.json"
    path.write_text(json.dumps(FORM), "utf-8")
    return path


def test_table_and_conversations(
    tuned_shallow: None,
    permit: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A form is filled with layers of the default model; a second run calls no model and prints the same."""
    monkeypatch.setattr(form_session, "TEXT_CHARS", 30)
    project = permit.parent / "p.wb"
    words = ["simulate", "forms", str(project), "--form", str(permit), "--variant", "baseline"]
    words += ["--context", "2048", "--json"]
    assert main(words) == 0
    first = capsys.readouterr()
    told = json.loads(first.out)
    assert [(row["variant"], row["form"]) for row in told["forms"]] == [
        ("baseline", "permit"),
        ("baseline", ""),
    ]
    assert all(row["fields"] in (1, None) for row in told["forms"])
    assert {play["ended"] for play in told["plays"]} <= {"stop", "filled", "turns", "bad outputs"}

    assert main(words) == 0
    second = capsys.readouterr()
    assert json.loads(second.out) == told

    with Project.open(project, read_only=True) as opened, opened.reading() as conn:
        for play in told["plays"]:
            record = json.loads(conversations.original(conn, play["conversation"]))
            assert record["truth"]["complete"] == play["complete"]
            assert record["messages"][0]["role"] == "assistant"


def test_a_form_that_cannot_be_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file is an error before a project is created or a model called."""
    project = tmp_path / "p.wb"
    assert main(["simulate", "forms", str(project), "--form", "no-such.json"]) == 2
    assert "no-such.json cannot be read" in capsys.readouterr().err
    assert not project.exists()
