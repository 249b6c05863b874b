"""`workbench tree` on the real model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.simulate.demo import write_jsonl
from tests.command_line import data, workbench


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One conversation with an answer, one without, one with two."""
    asked = Message("user", "What is the capital of France?")
    told = Message("assistant", "The capital of France is Paris.")
    more = (Message("user", "And of Italy?"), Message("assistant", "Rome."))
    talks = [
        Conversation("paris/1", (asked, told)),
        Conversation("nobody", (asked,)),
        Conversation("rome/2", (asked, told, *more)),
    ]
    write_jsonl(talks, tmp_path / "talks.jsonl")
    made = tmp_path / "p.wb"
    assert workbench("import", made, tmp_path / "talks.jsonl").returncode == 0
    return made


@pytest.mark.usefixtures("tuned_shallow")
class TestTree:
    def test_as_json(self, project: Path) -> None:
        """The JSON line has the masses, the measures, the answers and the bounds of a property."""
        size = ("--alpha", "0.05", "--max-tokens", "12", "--line")
        asked = ("--property", "contains Paris", "--json")
        done = workbench("tree", project, "paris/1", *size, *asked)
        line = data(done)

        assert done.returncode == 0
        assert (line["id"], line["step"], line["alpha"], line["mode"]) == (
            "paris/1",
            2,
            0.05,
            "path",
        )
        assert line["covered"] + line["pruned"] + line["unexpanded"] == pytest.approx(1, abs=1e-4)
        assert line["leaves"] >= len(line["answers"]) > 0
        assert sum(a["probability"] for a in line["answers"]) == pytest.approx(line["covered"])
        assert line["max_logprob"] >= math.log(0.05)
        assert 0 <= line["property"]["low"] <= line["property"]["high"] <= 1

    def test_a_run_over_the_project(self, project: Path) -> None:
        """`run trees` grows all trees and reports the conversation without one; `export trees` writes a line
        for each.
        """
        size = ("--alpha", "0.05", "--max-tokens", "4")
        done = workbench("run", "trees", project, *size, "--json")
        lines = [
            json.loads(line) for line in workbench("export", project, "trees").stdout.splitlines()
        ]

        assert done.returncode == 3
        assert (data(done)["trees"], data(done)["without"]) == (2, 1)
        assert [(line["id"], line["step"]) for line in lines] == [
            ("paris/1", 2),
            ("nobody", 0),
            ("rome/2", 4),
        ]
        assert lines[0]["answers"]
        assert lines[1]["reason"]

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (("paris",), "No conversation has the id"),
            (("paris/1", "--property", "nice"), "no property"),
            (("rome/2", "--step", "3"), "The assistant's steps are 2, 4"),
        ],
    )
    def test_mistakes(self, project: Path, words: tuple[str, ...], told: str) -> None:
        """An unknown name, an invalid place, property or alpha is an error with exit code 2."""
        done = workbench("tree", project, *words)

        assert done.returncode == 2
        assert told in done.stderr.decode()
