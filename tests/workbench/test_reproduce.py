"""`workbench reproduce`: one report over several data sets; what was finished is not done again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.run_directory.events import locked
from engine.store import settings
from engine.store.project import Project
from tests.engine.services.training.training_project import bare_run
from tests.screens.trees.tree_project import with_trees
from workbench.cli import main
from workbench.commands.reproduce import DONE_KEY, RUN, run_once, share_filter

TREES = 12
LINE = '{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]}\n'


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
    words = ["reproduce", str(project), "-o", str(out), "--compare-with", "shop=WebShop", "--json"]
    words += ["--model", "no-such-model", "--no-train"]
    before = project.read_bytes()
    assert main(words) == 3
    found = json.loads(capsys.readouterr().out)
    assert project.read_bytes() == before
    [shop] = found["data_sets"]
    assert shop["paper_data_set"] == "WebShop"
    assert len(shop["trees"]) == TREES
    assert any("no-such-model" in one for one in shop["missing"])
    one, _, three, _ = (table["rows"] for table in found["tables"])
    assert [row["data_set"] for row in one[:3]] == ["shop", "paper: WebShop", "paper: LMSYS-Chat-1M"]  # fmt: skip
    assert (three[0]["trees"], three[0]["coverage"]) == (TREES, 1.0)
    assert (three[1]["length"], three[1]["leaves"]) == (0.16, -0.19)
    page = (out / "report.html").read_text("utf-8")
    assert all(f"Figure {number} of" in page for number in (6, 12, 13))
    assert "the training did not read" not in page
    with Project.open(out / "shop.wb") as copy:
        copy.write(lambda conn: settings.put(conn, DONE_KEY, found["commands"]))
    assert main(words) == 3
    again = capsys.readouterr()
    assert "no-such-model" not in again.err
    [shop] = json.loads(again.out)["data_sets"]
    assert not any("no-such-model" in one for one in shop["missing"])


def done(project: Path) -> list[str]:
    """The commands that a project has as finished."""
    with Project.open(project, read_only=True) as opened, opened.reading() as conn:
        found: list[str] = settings.get(conn, DONE_KEY, [])
        return found


def test_gaps_are_no_end(project: Path, tmp_path: Path) -> None:
    """A command that ended with gaps is run again the next time, and one without is not."""
    logs = tmp_path / "logs.jsonl"
    logs.write_text(LINE + "{\n", "utf-8")
    words = ["import", str(project), str(logs)]
    run_once(project, words)
    assert done(project) == []
    logs.write_text(LINE, "utf-8")
    run_once(project, words)
    assert done(project) == [f"import {project} {logs}"]
    logs.unlink()
    run_once(project, words)


def test_training_that_is_there(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A training run that is running is left alone, and one that has finished is done; after other options it is
    refused."""
    out = tmp_path / "out"
    words = ["reproduce", str(project), "-o", str(out), "--model", "no-such-model", "--json"]
    run = bare_run(out / "shop.wb", RUN)
    with locked(run):
        assert main(words) == 3
    [shop] = json.loads(capsys.readouterr().out)["data_sets"]
    assert any(f"The training run {RUN} of" in one for one in shop["missing"])
    assert done(out / "shop.wb") == []
    run.events.write_text(json.dumps({"event": "done", "step": 1, "time": 1.0}) + "\n", "utf-8")
    assert main(words) == 3
    [shop] = json.loads(capsys.readouterr().out)["data_sets"]
    assert not any("train start" in one for one in shop["missing"])
    [training] = done(out / "shop.wb")
    assert training.startswith("train start")
    assert main([*words, "--set", "epochs=1"]) == 3
    [shop] = json.loads(capsys.readouterr().out)["data_sets"]
    assert any("with other options" in one for one in shop["missing"])


def test_import_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An import that was stopped goes on where it was, and is not taken as whole."""
    out, logs = tmp_path / "out", tmp_path / "logs.jsonl"
    out.mkdir()
    logs.write_text(LINE, "utf-8")
    part = out / ".logs.part.wb"
    with Project.open(part, create=True):
        pass
    words = ["reproduce", str(logs), "-o", str(out), "--model", "no-such-model", "--no-train"]
    assert main([*words, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["tables"][0]["rows"][0]["size"] == 1
    assert found["commands"][0] == f"import {out / 'logs.wb'} {logs}"
    assert not part.exists()


def test_nothing_to_take(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A draw of no conversation is refused before the first step, and so is a project without any, which no limit can
    help; a small share of many conversations keeps its digits."""
    words = ["reproduce", "-o", str(tmp_path / "out"), "--no-train", "--limit", "1"]
    assert main([*words, str(project)]) == 2
    assert "draws none of the 12" in capsys.readouterr().err
    with Project.open(tmp_path / "empty.wb", create=True):
        pass
    assert main([*words, str(tmp_path / "empty.wb")]) == 2
    error = capsys.readouterr().err
    assert "has no conversation" in error
    assert "Raise --limit" not in error
    assert share_filter(20, 1_000_000) == "draw<0.000020000"
    assert share_filter(3, 12) == "draw<0.2500"


def test_refusals(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two data sets of one name, one that is not there, and a data set that the paper does not have are refused before
    anything is made."""
    out = ["-o", str(tmp_path / "out")]
    assert main(["reproduce", str(project), str(project), *out]) == 2
    assert main(["reproduce", str(tmp_path / "none.jsonl"), *out]) == 2
    assert main(["reproduce", str(project), *out, "--compare-with", "shop=Shop"]) == 2
    assert "The paper's: LMSYS" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
