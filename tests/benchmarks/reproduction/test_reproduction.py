"""The reproduction: one report over several data sets; what was finished is not done again."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from engine.completeness.tables import scores
from engine.project import settings
from engine.project.project import Project
from engine.training import service
from engine.training.run_directory import lock_run
from tests.benchmarks.reproduction.__main__ import DONE_KEY, main
from tests.benchmarks.reproduction.data_sets import RUN, RUN_WITHOUT_TAG
from tests.engine.project.support import fill
from tests.engine.results.validation.test_completeness import (
    COUNT,
    config,
    flat,
    record,
    score,
    training_run,
)
from tests.engine.training.training_project import bare_run, fake_trainers
from tests.screens.trees.tree_project import with_trees

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
    words = [str(project), "-o", str(out), "--compare-with", "shop=WebShop", "--json"]
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
    assert (out / "figure-12-shop.svg").read_text("utf-8").count('class="dot"') == TREES
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


def test_training_that_is_there(
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training run that is running is left alone, one that was stopped goes on, and one that has finished is done;
    after other options it is refused. The one without the end tag is trained beside it."""
    monkeypatch.setattr(service, "Trainers", fake_trainers)
    monkeypatch.setenv("FAKE_TRAINER", "finishes")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    out = tmp_path / "out"
    words = [str(project), "-o", str(out), "--model", "no-such-model", "--json"]
    finished = {"event": "done", "reason": "finished", "step": 1, "time": 1.0}
    bare_run(out / "shop.wb", RUN_WITHOUT_TAG).events.write_text(
        json.dumps(finished) + "\n", "utf-8"
    )
    run = bare_run(out / "shop.wb", RUN)

    def missing(*more: str) -> str:
        assert main([*words, *more]) == 3
        [shop] = json.loads(capsys.readouterr().out)["data_sets"]
        return "\n".join(shop["missing"])

    with lock_run(run):
        assert f"The training run {RUN} of" in missing()
    [ablation] = done(out / "shop.wb")
    assert f"--recipe no-end-tag --name {RUN_WITHOUT_TAG}" in ablation
    stopped = {"event": "done", "reason": "stopped", "step": 1, "time": 1.0}
    run.events.write_text(json.dumps(stopped) + "\n", "utf-8")
    for _ in ("it goes on to its end", "it has finished"):
        assert "train start" not in missing()
        training = next(one for one in done(out / "shop.wb") if f"--name {RUN} " in f"{one} ")
        assert training.startswith("train start")
        assert run.events.read_text("utf-8").count('"finished"') == 1
        with Project.open(out / "shop.wb") as copy:
            copy.write(lambda conn: settings.put(conn, DONE_KEY, []))
    with Project.open(out / "shop.wb") as copy:
        copy.write(lambda conn: settings.put(conn, DONE_KEY, [training]))
    assert "with other options" in missing("--set", "epochs=1")


def test_ablation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table 2 has a row for the adapter that was trained without the end tag, before the other one's as in the
    paper."""
    logs, out = tmp_path / "talks.wb", tmp_path / "out"
    keys = range(1, COUNT + 1)
    with Project.open(logs, create=True) as project:
        fill(project, [record(key) for key in keys])
        for name in (RUN, RUN_WITHOUT_TAG):
            score(project, config("tuned", name), flat)
        places = [(key, turn) for key in keys for turn in range(3)]

        def ends(conn: sqlite3.Connection) -> None:
            for name, last in ((RUN, 2), (RUN_WITHOUT_TAG, 3)):
                rows = [(key, 2 * turn + 1, turn == last) for key, turn in places]
                scores.add_generated_ends(conn, config("tuned", name).config_hash, rows)

        project.write(ends)
    words = [str(logs), "-o", str(out), "--model", "no-such-model", "--no-train"]
    assert main(words) == 3
    training_run(out / "talks.wb", RUN, range(1, 11), recipe="paper")
    training_run(out / "talks.wb", RUN_WITHOUT_TAG, range(1, 11), recipe="no-end-tag")
    capsys.readouterr()
    assert main([*words, "--json"]) == 3
    rows = json.loads(capsys.readouterr().out)["tables"][1]["rows"]
    assert [
        (row["evaluator"].partition(", ")[2], row["recall"])
        for row in rows
        if row["data_set"] == "talks" and "tuned" in row["evaluator"]
    ] == [("fine-tuned without end tag", 0), ("fine-tuned", 1)]


def test_refusals(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two data sets of one name, one that is not there, and a data set that the paper does not have are refused before
    anything is made."""
    out = ["-o", str(tmp_path / "out")]
    assert main([str(project), str(project), *out]) == 2
    assert main([str(tmp_path / "none.jsonl"), *out]) == 2
    assert main([str(project), *out, "--compare-with", "shop=Shop"]) == 2
    assert "The paper's: LMSYS" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
