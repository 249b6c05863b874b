"""`workbench analyse trees`: the trees that stand out, as a table and a file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.screens.trees.tree_project import with_trees
from workbench.cli import main


def test_table_json_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree with the most leaves and the least probable best response is a row of the table, of the JSON and of the
    CSV, with the state of its conversation; a project without trees is told how they grow."""
    path = str(tmp_path / "t.wb")
    with with_trees(tmp_path / "t.wb", 12) as project:
        stands_out = "UPDATE tree SET leaves = 999, max_log_prob = -9.5 WHERE conversation_id = 5"
        project.write(lambda conn: conn.execute(stands_out))
    out = tmp_path / "unusual.csv"
    assert main(["analyse", "trees", path, "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["of"], found["trees"][0]["branches"], found["trees"][0]["max_logprob"]) == (
        12,
        999,
        -9.5,
    )
    assert found["trees"][0]["completed"] == "unscored"
    with out.open(newline="") as lines:
        assert next(csv.DictReader(lines))["branches"] == "999"
    assert main(["analyse", "trees", path]) == 0
    assert "12 trees" in capsys.readouterr().out
    assert main(["analyse", "trees", path, "--filter", "no-such-word"]) == 2
    assert "run trees PROJECT --paper" in capsys.readouterr().err
    words = ["--filter", "no-such-word", "--property", "contains yes"]
    assert main(["analyse", "trees", path, *words]) == 2
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


def test_property_over_conversations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bounds of a property over all conversations are the means of those of each tree; what these are a sample of
    is less certain; a text that names no property is refused."""
    path = str(tmp_path / "t.wb")
    with with_trees(tmp_path / "t.wb", 12):
        pass
    words = ["analyse", "trees", path, "--property"]
    assert main([*words, "contains batteries", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["property"]
    lows = [one["low"] for one in found["conversations"]]
    assert (found["n"], found["sample"]["low"]) == (12, pytest.approx(sum(lows) / 12))
    assert 0 <= found["population"]["low"] < found["sample"]["low"] <= found["sample"]["high"]
    assert found["sample"]["high"] < found["population"]["high"] <= 1
    assert main([*words, "contains batteries"]) == 0
    assert "of conversations like them" in capsys.readouterr().out
    assert main([*words, "nice"]) == 2
