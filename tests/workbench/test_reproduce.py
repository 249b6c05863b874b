"""`workbench reproduce`: one report over several data sets; what was finished is not done again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.store import settings
from engine.store.project import Project
from tests.screens.trees.tree_project import with_trees
from workbench.cli import main
from workbench.commands.reproduce import DONE_KEY

TREES = 12


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with trees and no scores."""
    with with_trees(tmp_path / "shop.wb", TREES):
        return tmp_path / "shop.wb"


def test_report_and_resume(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A project is copied; steps that fail are named, and what it held is in the tables beside the paper's figures.
    Commands that were finished are not run again."""
    out = tmp_path / "out"
    words = ["reproduce", str(project), "-o", str(out), "--beside", "shop=WebShop", "--json"]
    words += ["--model", "no-such-model", "--no-train"]
    before = project.read_bytes()
    assert main(words) == 3
    found = json.loads(capsys.readouterr().out)
    assert project.read_bytes() == before
    [shop] = found["data_sets"]
    assert len(shop["trees"]) == TREES
    assert any("no-such-model" in one for one in shop["missing"])
    one, _, three, _ = (table["rows"] for table in found["tables"])
    assert [row["data_set"] for row in one[:3]] == ["shop", "paper: WebShop", "paper: LMSYS-Chat-1M"]  # fmt: skip
    assert (three[0]["trees"], three[0]["coverage"]) == (TREES, 1.0)
    assert (three[1]["length"], three[1]["leaves"]) == (0.16, -0.19)
    page = (out / "report.html").read_text("utf-8")
    assert all(f"Figure {number} of" in page for number in (6, 12, 13))
    with Project.open(out / "shop.wb") as copy:
        copy.write(lambda conn: settings.put(conn, DONE_KEY, found["commands"]))
    assert main(words) == 3
    again = capsys.readouterr()
    assert "no-such-model" not in again.err
    [shop] = json.loads(again.out)["data_sets"]
    assert not any("no-such-model" in one for one in shop["missing"])


def test_refusals(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two data sets of one name, one that is not there, and a data set that the paper does not have are refused."""
    out = ["-o", str(tmp_path / "out")]
    assert main(["reproduce", str(project), str(project), *out]) == 2
    assert main(["reproduce", str(tmp_path / "none.jsonl"), *out]) == 2
    assert main(["reproduce", str(project), *out, "--beside", "shop=Shop"]) == 2
    assert "The paper's: LMSYS" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
