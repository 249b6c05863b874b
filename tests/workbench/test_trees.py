"""`workbench run trees`, `trees` and `unusual-trees`: sets of response trees, and those that stand out."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.trees.options import TreeOptions
from tests.screens.trees.tree_project import CONFIG, entry, grown, run_of, store, with_trees
from workbench.cli import main


def test_another_set_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sets are listed with the one that is shown, and another is shown when asked for by the start of its hash; a
    hash of none changes nothing."""
    path = str(tmp_path / "t.wb")

    def asked(*words: str, code: int = 0) -> dict[str, Any]:
        assert main(["trees", path, *words, "--json"]) == code
        return json.loads(capsys.readouterr().out) if code == 0 else {}

    with with_trees(tmp_path / "t.wb", 2) as project:
        other = replace(CONFIG, config_hash="beef", alpha=0.1)
        tree = grown(b"Order 1?", TreeOptions(0.1, max_tokens=4))
        store(project, [entry(1, tree, run_of(project, other), other)], other)
    first = asked()
    assert {one["config_hash"]: one["trees"] for one in first["sets"]} == {"cafe": 2, "beef": 1}
    for shown in ("be", "cafe"):
        asked("--show", shown)
        assert str(asked()["shown"]).startswith(shown)
    asked("--show", "zz", code=2)
    assert asked()["shown"] == "cafe"
    assert main(["trees", path]) == 0
    assert "* cafe  alpha 0.02, path, last-answer, toy: 2 trees" in capsys.readouterr().out


def test_which_tree_grows_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be grown on is refused with what is there: no such step, text or alpha, or a model that is gone."""
    path = str(tmp_path / "t.wb")
    with_trees(tmp_path / "t.wb", 2).close()
    assert main(["export", path, "trees"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[0])["answers"]
    best = next(one["text"] for one in found if one["text"].isascii())

    def refused(*words: str) -> str:
        assert main(["trees", path, "--grow-on", "warranty/001", *words]) == 2
        return capsys.readouterr().err

    assert "Steps with a tree: 2." in refused("--step", "9")
    assert "go together" in refused("--below", best)
    assert "Alpha is 0.02" in refused("--below", best, "--alpha", ".5")
    assert "begins with 'nothing'" in refused("--below", "nothing", "--alpha", ".001")
    assert "toy" in refused("--below", best[:5], "--alpha", ".001")
    assert "toy" in refused()
    for words in (["--step", "2"], ["--below", best, "--alpha", ".001"]):
        assert main(["trees", path, *words]) == 2
        assert "Add --grow-on ID." in capsys.readouterr().err


def test_table_json_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree with the most leaves and the least probable best response is a row of the table, of the JSON and of the
    CSV, with the state of its conversation; a project without trees is told how they grow."""
    path = str(tmp_path / "t.wb")
    with with_trees(tmp_path / "t.wb", 12) as project:
        stands_out = "UPDATE tree SET leaves = 999, max_log_prob = -9.5 WHERE conversation_id = 5"
        project.write(lambda conn: conn.execute(stands_out))
    out = tmp_path / "unusual.csv"
    assert main(["unusual-trees", path, "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["of"], found["trees"][0]["branches"], found["trees"][0]["max_logprob"]) == (
        12,
        999,
        -9.5,
    )
    assert found["trees"][0]["completed"] == "unscored"
    with out.open(newline="") as lines:
        assert next(csv.DictReader(lines))["branches"] == "999"
    assert main(["unusual-trees", path]) == 0
    assert "12 trees" in capsys.readouterr().out
    assert main(["unusual-trees", path, "--filter", "no-such-word"]) == 2
    assert "run trees PROJECT --paper" in capsys.readouterr().err


def test_the_preset_of_the_paper() -> None:
    """`--paper` is token mode at the end of the log, with the adapter that scores completeness."""
    from workbench.cli import build_parser
    from workbench.commands.trees import tree_request

    found = tree_request(build_parser().parse_args(["run", "trees", "p.wb", "--paper"]))
    assert (found.tree.mode, found.at, found.tuned, found.model_request.tuned) == (
        "token",
        "end",
        True,
        True,
    )
