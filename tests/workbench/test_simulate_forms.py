"""`workbench simulate forms`: from a form to a table and conversations with truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.conversations.tables import conversations
from engine.project.project import Project
from engine.simulate.forms.form_session import Rules
from engine.simulate.service.forms import forms_of, profiles_of, rules_of
from engine.simulate.simulation_request import SimulationRequest
from workbench.arguments import read_request
from workbench.cli import build_parser, main

FORM = {
    "Town": {"type": "text", "required": True, "answer": None},
    'Colour of the "car"': {
        "type": "choice",
        "required": True,
        "answer": None,
        "options": ["red", "blue"],
    },
}
ANNA = {
    "description": "a weaver",
    "answers": {"permit": {"Town": "Ulm", 'Colour of the "car"': "red"}},
}


@pytest.fixture
def permit(tmp_path: Path) -> Path:
    """A form of two fields, one with a quote in its label."""
    path = tmp_path / "permit.json"
    path.write_text(json.dumps(FORM), "utf-8")
    return path


class TestPlaying:
    def test_table_and_conversations(
        self, tuned_shallow: None, permit: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A form is filled with layers of the default model as the user; a second run calls no model and prints the
        same.
        """
        project = permit.parent / "p.wb"
        people = permit.parent / "people.json"
        people.write_text(json.dumps([ANNA]), "utf-8")
        words = ["simulate", "forms", str(project), "--form", str(permit), "--profile", "run"]
        words += ["--profiles", str(people), "--context", "2048"]
        words += ["--variant", "modular", "--dummies", "all", "--json"]
        assert main(words) == 0
        first = capsys.readouterr()
        told = json.loads(first.out)
        assert [(row["variant"], row["form"]) for row in told["rows"]] == [
            ("modular", "permit"),
            ("modular", ""),
        ]
        assert all(row["fields"] == 2 for row in told["rows"])
        assert all(0 <= row["success"] <= 1 and 0 <= row["score"] <= 1 for row in told["rows"])
        assert {run["ended"] for run in told["runs"]} <= {
            "stop", "filled", "turns", "decisions", "bad outputs",
        }  # fmt: skip

        assert main(words) == 0
        second = capsys.readouterr()
        assert json.loads(second.out) == told
        assert "1 were played before" in second.err

        with Project.open(project, read_only=True) as opened, opened.reading() as conn:
            for run in told["runs"]:
                record = json.loads(conversations.original(conn, run["conversation"]))
                assert record["truth"]["complete"] == run["complete"]
                assert record["messages"][0]["role"] == "assistant"


class TestWords:
    def test_all_forms_by_both_variants_unless_said(self) -> None:
        """The default is that of Hakimov et al.: four forms, modules and baseline, a user drawn for each question."""
        request = read_request(
            SimulationRequest,
            build_parser().parse_args(["simulate", "forms", "p.wb"]),
            kind="forms",
        )
        assert request == SimulationRequest("forms")
        assert (request.variants, request.profile) == ((), "question")
        assert [form.name for form in forms_of(request)] == ["ss5", "epa", "med", "inv"]
        assert len(profiles_of(request)) == 10
        assert rules_of(request) == Rules()

    @pytest.mark.parametrize("option", ["--form", "--profiles"])
    def test_what_cannot_be_read_is_refused(
        self, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A missing file is an error before a project is created or a model called."""
        project = tmp_path / "p.wb"
        assert main(["simulate", "forms", str(project), option, "no-such.json"]) == 2
        assert "no-such.json cannot be read" in capsys.readouterr().err
        assert not project.exists()
