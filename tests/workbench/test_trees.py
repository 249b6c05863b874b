"""`workbench trees`: which set of trees is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.trees.tree import TreeOptions
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
