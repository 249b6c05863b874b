"""`workbench validate PROJECT trees`, on stored trees of the toy model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.trees.records import TreeOptions
from tests.command_line import data, workbench
from tests.engine.project.support import fill, talk
from tests.screens.trees.tree_project import CONFIG, entry, give_trees, grown, run_of, store

COUNT = 12


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Conversations with reward 1, and after eight with 0; each has a tree, later ones with more leaves. A newer
    configuration has one tree."""
    path = tmp_path / "p.wb"
    numbers = range(1, COUNT + 1)
    with Project.open(path, create=True) as project:
        talks = [
            talk(f"c/{n}", f"Order {n}?", "Sent.", truth={"reward": float(n <= 8)}) for n in numbers
        ]
        fill(project, talks)
        give_trees(project, {n: (10 * n, -1.0) for n in numbers})
        newer = replace(CONFIG, config_hash="beef", alpha=0.5)
        tree = grown(b"1", TreeOptions(0.5, max_tokens=3), answer=[5, 6])
        store(project, [entry(1, tree, run_of(project, newer), newer)], newer)
    return path


def test_trees(path: Path) -> None:
    """Trees with more leaves where the reward is 0: leaves have an area of 1, with an interval that reaches below it, n
    and coverage. The newest configuration is taken, or that of a hash which begins so; an unknown one is an error that
    lists the known ones."""
    assert data(workbench("validate", path, "trees", "--json"))["trees"]["alpha"] == 0.5
    found = data(workbench("validate", path, "trees", "--config", "ca", "--json"))
    assert found["trees"]["trees"] == found["trees"]["conversations"] == COUNT
    (table,) = found["truths"]
    assert (table["claim"], table["holds"], table["fails"]) == ("reward 0", 4, 8)
    assert table["known"] == COUNT
    (leaves,) = [row for row in table["figures"] if row["figure"] == "leaves"]
    assert leaves["auroc"] == leaves["high"] == leaves["average_precision"] == 1
    assert 0.4 < leaves["low"] < 1
    refused = workbench("validate", path, "trees", "--config", "x")
    assert (refused.returncode, b"cafe (alpha 0.02" in refused.stderr) == (2, True)
