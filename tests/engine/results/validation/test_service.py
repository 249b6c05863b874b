"""The validation service on real project files, and its screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import ProjectError
from engine.base.report_table import ReportRow, ReportTable
from engine.base.statistics.intervals import Interval
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.results.records import ValidationProgress, ValidationReport
from tests.engine.goals.service.goal_project import cluster, texts
from tests.engine.project.support import fill, talk
from tests.engine.results.validation.test_completeness import config, rising, score
from tests.workbench.test_validate import with_trees
from workbench.cli import main

TRUTHS: list[dict[str, Any]] = [{"reward": float(n % 3 > 0)} for n in range(36)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """36 conversations with rewards and a tree each; nothing is scored or clustered."""
    return with_trees(tmp_path / "p.wb", TRUTHS)


def figure_of(row: ReportRow, nth: int) -> float:
    """A figure of a row, without its interval."""
    cell = row.cells[nth]
    assert isinstance(cell, Interval)
    return cell.value


def report(path: Path) -> ValidationReport:
    """The report of the service."""
    with OpenProject(path) as workspace:
        return workspace.validation.report(ValidationProgress())


def test_tables_tell_what_the_command_tells(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table on rewards has the figures of `validate`, with curves for its plot; text and JSON are the same."""
    found = report(path)
    assert main(["validate", str(path), "all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert json.loads(found.text) == told
    (sheet,) = found.tables
    assert (sheet.metric, sheet.title) == ("trees", "reward 0")
    (table,) = told["truths"]
    for row, figure in zip(sheet.rows, table["figures"], strict=True):
        assert row.name == figure["figure"]
        assert figure_of(row, 1) == figure["auroc"]
        assert figure_of(row, 2) == figure["average_precision"]
        assert row.p_value == figure["p_corrected"]
        assert len(row.curves) == len(sheet.plots) == 1
    assert set(table["conclusions"]) >= set(sheet.conclusions)
    kinds = {row.name: row.kind for row in sheet.rows}
    assert (kinds["leaves"], kinds["length"]) == ("measure", "baseline")


def test_export(path: Path, tmp_path: Path) -> None:
    """A report is written whole to a new file; an existing file is unchanged."""
    with OpenProject(path) as workspace:
        port = workspace.validation
        found = port.report(ValidationProgress())
        port.export(found, str(tmp_path / "a.json"))
        with pytest.raises(ProjectError, match="is there already"):
            port.export(found, str(tmp_path / "a.json"))
        with pytest.raises(ProjectError, match="cannot be written"):
            port.export(found, str(tmp_path / "none" / "a.json"))
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == json.loads(found.text)


def test_completeness_and_goals(tmp_path: Path) -> None:
    """Scores and clusters have tables of their own; a sentence sets the best scores against the best baseline."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        records = [
            talk(
                f"{n}", body, "a", "b", "c", "d", "e", truth={"goal": topic, "complete": n % 2 == 0}
            )
            for n, (topic, body) in enumerate(texts())
        ]
        fill(project, records)
        keys = range(1, len(records) + 1)
        score(project, config("tuned", "x"), rising, keys)
        score(project, config("base"), lambda key, turn: 0.5, keys)
        cluster(project)
    found = report(path)
    tables: dict[str, ReportTable] = {f"{one.metric} {one.title}": one for one in found.tables}
    assert list(tables) == [
        "goals gold goals",
        "completeness whole against cut",
        "completeness not complete",
    ]
    goals, cut, truth = tables.values()
    assert [row.name for row in goals.rows] == ["as clustered", "as it stands"]
    assert goals.plots == ()
    assert [row.name for row in cut.rows] == ["base", "tuned (x)", "keyword rule"]
    (said,) = cut.conclusions
    assert said.startswith("tuned (x) 1.00 against keyword rule .50: better")
    assert cut.rows[1].curves[0][-1][1] == 1
    assert [one.title for one in truth.columns[1:]] == ["AUROC", "AP"]
    assert {one.metric for one in found.missing} == {"trees"}
