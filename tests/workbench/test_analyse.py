"""`workbench analyse turns`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engine.store.project import Project
from tests.engine.store.support import fill, talk
from tests.shared_data import shared_file
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three conversations of one and two turns, two of them rated."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        fill(
            project,
            [
                talk("a", "hi", "ho", truth={"rating": {"质量": 1}}),
                talk("b", "hi", "ho", "and?", "so", truth={"rating": {"质量": 2}}),
                talk("c", "hi", "ho", "why?", "so"),
            ],
        )
    return path


def test_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each number of turns, aligned in cells whatever the script."""
    assert main(["analyse", "turns", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "turns  conversations    质量",
        "    1              1  1.0000",
        "    2              2  2.0000",
    ]


def test_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the number of conversations behind each mean, of those that the filter matches."""
    assert main(["analyse", "turns", str(path), "--json", "--filter", "turns>1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["turns"]
    assert row == {"turns": 2, "conversations": 2, "means": {"质量": 2.0}, "counts": {"质量": 1}}


def test_nothing_matches(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is an error of usage."""
    assert main(["analyse", "turns", str(path), "--filter", "turns>9"]) == 2
    assert "No conversation matches" in capsys.readouterr().err


SIMULATED = shared_file("recllmsim_agent")

if SIMULATED is not None:

    def test_the_table_of_the_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """As computed from the file itself: pairs of messages, and the mean of each rating, digit for digit."""
        assert SIMULATED is not None
        with gzip.open(SIMULATED) as file:
            records = list(map(json.loads, file))
        assert main(["import", str(tmp_path / "p.wb"), str(SIMULATED)]) == 0
        capsys.readouterr()
        assert main(["analyse", "turns", str(tmp_path / "p.wb"), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["turns"]
        assert sum(row["conversations"] for row in rows) == len(records)
        for row in rows:
            rated = [
                one["truth"]["rating"]
                for one in records
                if len(one["messages"]) // 2 == row["turns"]
            ]
            assert row["conversations"] == len(rated)
            for name in rated[0]:
                mean = sum(one[name] for one in rated) / len(rated)
                assert f"{row['means'][name]:.4f}" == f"{mean:.4f}"
