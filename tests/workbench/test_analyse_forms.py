"""`workbench analyse forms`: models by form, of runs that were played and imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.simulate.forms.table import ModelRow, draw_forms
from tests.engine.simulate.forms.playing import Script, as_reply, played
from tests.engine.simulate.forms.test_run_files import files_of
from workbench.cli import main


def test_imported_runs_are_tabulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of several projects are one table (here twice the same), and Figure 2 shows its figures; a project
    without a run is told in words.
    """
    over = played(Script({"user": as_reply({"answer": "Ulm"})}), run=2)
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, value in files_of(over, dummies=frozenset()).items():
        (folder / name).write_text(json.dumps(value))
    project = str(tmp_path / "a.wb")
    assert main(["import", project, str(folder)]) == 0
    capsys.readouterr()
    picture = tmp_path / "forms.svg"
    assert main(["analyse", "forms", project, project, "--json", "--plot", str(picture)]) == 0
    row, mean = json.loads(capsys.readouterr().out)["forms"]
    assert (row["model"], row["form"], row["runs"], row["failed"]) == ("small-model", "small", 2, 0)
    filled = pytest.approx(over.ending.result["filled_score"])
    assert (row["filled_score"], mean["filled_score"], row["score"]) == (filled, filled, None)
    drawn = picture.read_text("utf-8")
    for shown in ("small-model", f"{row['turns']:.2g}", f"{mean['filled_score']:.2g}"):
        assert f">{shown}<" in drawn
    assert ">small: fields and turns" in drawn
    Project.open(tmp_path / "c.wb", create=True).close()
    assert main(["analyse", "forms", str(tmp_path / "c.wb")]) == 2
    assert "simulate forms" in capsys.readouterr().err


def test_models_whose_names_begin_alike_have_bars_of_their_own(tmp_path: Path) -> None:
    """Only the labels are shortened, and they keep the end of a name, which tells such models apart."""
    begin = "a-family-of-models-with-a-long-name-instruct"
    rows = [
        ModelRow(f"{begin}-{size}", "modular", form, 1, 0, 2.0, 3.0, mean, mean, mean, mean, mean)
        for size, mean in (("8b", 0.25), ("70b", 0.75))
        for form in ("small", "")
    ]
    draw_forms(rows, tmp_path / "forms.svg")
    drawn = (tmp_path / "forms.svg").read_text("utf-8")
    for shown in ("instruct-8b<", "instruct-70b<", ">0.25<", ">0.75<"):
        assert shown in drawn
