"""`workbench validate PROJECT trees`, on stored trees of the toy model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.project.project import Project
from engine.trees.records import TreeConfig, TreeOptions
from engine.trees.tables import TreeEntry
from tests.engine.project.support import fill, talk
from tests.screens.trees.tree_project import CONFIG, entry, grown, run_of, store
from workbench.cli import main

COUNT = 12


def imported(path: Path, truths: Sequence[dict[str, Any] | None]) -> Project:
    """A project with one conversation of two answers for each truth."""
    project = Project.open(path, create=True)
    fill(
        project,
        [
            talk(
                f"c/{number}",
                f"How long is the warranty of order {number}?",
                "Which product is it?",
                "The lamp" + " again" * number,
                "Two years from purchase.",
                truth=truth,
            )
            for number, truth in enumerate(truths, start=1)
        ],
    )
    return project


def tree(key: int, step: int, leaves: int, run_id: int, config: TreeConfig) -> TreeEntry:
    """A tree with this number of leaves."""
    made = entry(
        key, grown(b"%d" % key, TreeOptions(0.05, max_tokens=3), answer=[5, 6]), run_id, config
    )
    return replace(made, row=replace(made.row, step=step, leaves=leaves))


def with_trees(
    path: Path, truths: Sequence[dict[str, Any] | None], config: TreeConfig = CONFIG
) -> Path:
    """A project whose later conversations have trees with more leaves; with `every` two trees each."""
    with imported(path, truths) as project:
        run_id = run_of(project, config)
        steps = (2, 4) if config.place == "every" else (4,)
        entries = [
            tree(key, step, 10 * key + step, run_id, config)
            for key in range(1, len(truths) + 1)
            for step in steps
        ]
        store(project, entries, config)
    return path


def asked(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    code = main(["validate", *map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def as_json(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    """The result of a validation that succeeds."""
    code, out, _ = asked(capsys, *words, "--json")
    assert code == 0
    return json.loads(out)


def figures(found: Any, claim: str) -> dict[str, Any]:
    """The rows of one truth's table by figure."""
    (table,) = [one for one in found["truths"] if one["claim"] == claim]
    return {row["figure"]: row for row in table["figures"]}


class TestWholeConversations:
    def test_reward(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Trees with more leaves where the reward is 0: leaves have an area of 1, with an interval that reaches below
        it, n and coverage.
        """
        truths = [{"reward": 0.0 if n > 8 else 1.0} for n in range(1, COUNT + 1)]
        found = as_json(capsys, with_trees(tmp_path / "p.wb", truths), "trees")

        assert found["trees"]["trees"] == found["trees"]["conversations"] == COUNT
        (table,) = found["truths"]
        assert (table["claim"], table["holds"], table["fails"]) == ("reward 0", 4, 8)
        assert table["known"] == COUNT
        leaves = figures(found, "reward 0")["leaves"]
        assert leaves["auroc"] == leaves["high"] == leaves["average_precision"] == 1
        assert 0.4 < leaves["low"] < 1


class TestNothingToTell:
    def test_another_configuration(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The beginning of a hash selects another configuration's trees; an unknown one is an error that lists the
        known ones.
        """
        path = with_trees(tmp_path / "p.wb", [{"reward": n % 2} for n in range(COUNT)])
        with Project.open(path) as project:
            other = replace(CONFIG, config_hash="beef", alpha=0.5)
            run_id = run_of(project, other)
            store(project, [tree(key, 4, 1, run_id, other) for key in (1, 2)], other)

        assert as_json(capsys, path, "trees")["trees"]["alpha"] == 0.5
        assert as_json(capsys, path, "trees", "--config", "ca")["trees"]["trees"] == COUNT
        code, _, told = asked(capsys, path, "trees", "--config", "x")
        assert code == 2
        assert "cafe (alpha 0.02" in told
