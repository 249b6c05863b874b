"""`workbench run trees` and `unusual-trees`: response trees, and those that stand out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import result
from tests.screens.trees.tree_project import with_trees
from workbench.cli import main


def test_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree with the most leaves and the least probable best response is a row of the table and of the JSON, with
    the state of its conversation; a project without trees is told how they grow."""
    path = str(tmp_path / "t.wb")
    with with_trees(tmp_path / "t.wb", 12) as project:
        stands_out = "UPDATE tree SET leaves = 999, max_log_prob = -9.5 WHERE conversation_id = 5"
        project.write(lambda conn: conn.execute(stands_out))
    found = result("unusual-trees", path)
    assert (found["of"], found["trees"][0]["branches"], found["trees"][0]["max_logprob"]) == (
        12,
        999,
        -9.5,
    )
    assert found["trees"][0]["completed"] == "unscored"
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
