"""`workbench second-goals`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.conversations.filters import ListQuery, parse_filter
from tests.screens.goals.goal_project import clustered
from workbench.cli import main


def test_confirm_remove_undo(capsys: pytest.CaptureFixture[str]) -> None:
    """A second goal is confirmed or removed by its label and taken back; what is not one is refused with those that
    are."""
    project = clustered()
    conversations = project.services().conversations
    key = conversations.ids(ListQuery(parse_filter("also:any")))[0]
    [name] = [row.external_id for row in conversations.rows([key])]
    label = project.goals.second_goals(key)[0].label
    path = str(Path(project.file.path))
    project.file.close()

    def listed(*options: str) -> str:
        assert main(["second-goals", path, name, *options, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["second_goals"]
        return str(found[0]["state"])

    assert listed() == "proposed"
    assert listed("--remove", label.upper()) == "removed"
    assert listed("--confirm", label) == "confirmed"
    assert main(["second-goals", path, "--undo"]) == 0
    assert f"“{label}” is no longer confirmed." in capsys.readouterr().err
    assert listed() == "removed"
    assert main(["second-goals", path, "--undo"]) == 0
    assert listed() == "proposed"
    assert main(["second-goals", path, "--undo"]) == 2
    assert "There is nothing to undo." in capsys.readouterr().err
    assert main(["second-goals", path, name, "--confirm", "nothing"]) == 2
    assert f"Second goals: “{label}”." in capsys.readouterr().err
    assert main(["second-goals", path, "nobody"]) == 2


def test_small_shares_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    """--all lists second goals of any share, in order; one below .15 cannot be confirmed."""
    project = clustered()
    conversations = project.services().conversations
    key = conversations.ids(ListQuery(parse_filter("also:none")))[0]
    [name] = [row.external_id for row in conversations.rows([key])]
    path = str(Path(project.file.path))
    project.file.close()

    def listed(*options: str) -> list[dict[str, Any]]:
        assert main(["second-goals", path, name, *options, "--json"]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["second_goals"]
        return found

    assert listed() == []
    [small] = listed("--all")
    assert 0 < small["share"] < 0.15
    assert main(["second-goals", path, name, "--all", "--confirm", small["label"]]) == 2
    assert "Second goals: none." in capsys.readouterr().err
