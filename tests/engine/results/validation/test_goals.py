"""`workbench validate PROJECT goals`, and all metrics at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.statistics import agreement
from engine.project.project import Project
from tests.command_line import result
from tests.engine.goals.service.goal_project import cluster, merge_rightly, stored_review, texts
from tests.engine.project.support import fill, talk
from workbench.cli import main


@pytest.fixture(autouse=True)
def few_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals stand on 20 random halves in place of 400, of which each takes milliseconds."""
    monkeypatch.setattr(agreement, "_HALF_DRAWS", 20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """32 conversations with gold goals and one without, in 8 clusters, none merged."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        records = [
            talk(f"{topic}-{n}", text, "ok", truth={"goal": topic})
            for n, (topic, text) in enumerate(texts())
        ]
        fill(project, [*records, talk("unknown", "book a flight ticket to nowhere", "ok")])
        cluster(project)
    return path


def test_before_and_after(path: Path) -> None:
    """Clusters split the gold goals; after a person's merges the groups agree with them exactly."""
    first = result("validate", str(path), "goals")["goals"]
    assert (first["n"], first["asked"], first["goals"]) == (32, 32, 4)
    before, now = first["rows"]
    assert (before["name"], now["name"]) == ("as clustered", "as it stands")
    assert before["groups"] == now["groups"] == 8
    assert before["v"] == before["nmi"] == now["v"] < 0.9
    assert before["ci"]["ari"][0] <= before["ari"] <= before["ci"]["ari"][1]

    with Project.open(path) as project:
        assert merge_rightly(stored_review(project)) < 100
    before, now = result("validate", str(path), "goals")["goals"]["rows"]
    assert before == first["rows"][0]
    assert (now["groups"], now["v"], now["ari"]) == (4, 1, 1)


def test_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text has the same rows as the JSON; a filter selects the conversations."""
    assert main(["validate", str(path), "goals", "--filter", "rome"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "4 conversations of 4 gold goals" in lines[0]
    assert lines[-1].startswith("as it stands")


def test_all_tells_what_there_is(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`validate all` prints the metrics with results and names the others; with none it is an error."""
    assert main(["validate", str(path), "all", "--json"]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert list(found) == ["goals", "missing"]
    assert [(one["metric"], one["what"]) for one in found["missing"]] == [
        ("completeness", "Nothing is scored yet."),
        ("trees", "The project has no response trees."),
    ]
    assert "workbench run trees" in found["missing"][1]["how"]
    assert "completeness: Nothing is scored yet." in told.err
    assert "trees: The project has no response trees." in told.err
    assert main(["validate", str(path), "all", "--seed", "1"]) == 2
