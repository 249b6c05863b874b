"""`workbench requests` and its export, and `workbench second-goals`."""

from __future__ import annotations

import json
import sqlite3
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from engine.completeness.records import CurvePoint
from engine.completeness.tables import requests, score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.project import runs
from engine.project.project import Project
from tests.engine.goals import goal_runs
from tests.engine.project.support import fill, talk
from workbench.cli import main

TALKS = (
    talk(
        "two",
        "Weather in Ulm on Monday?", "Monday in Ulm is sunny.",
        "And Tuesday in Ulm?", "Ulm on Tuesday: rain.",
        "Book me a dentist appointment", "Your dentist appointment is booked",
        truth={"goal": "secret"},
    ),
    talk("one", "Where is my parcel?", "Which parcel?", "The parcel of May.", "It is lost."),
    talk("unscored", "Hello?"),
)  # fmt: skip
CURVES = {1: (0.9, 0.8, 0.3), 2: (0.1, 0.2)}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A project with a conversation of two requests, one of one, and one without a score."""
    path = tmp_path / "p.wb"

    def score(conn: sqlite3.Connection) -> None:
        run = runs.create(
            conn, stage="score", config_hash="c", params={}, fingerprints={}, code_version="test"
        )
        score_sets.register(conn, ScoreConfig("c", "base", "tiny.gguf"))
        score_sets.replace_keeping_rule(conn, "c")
        entries = [
            ScoreEntry(
                key,
                tuple(
                    CurvePoint(2 * at + 1, 2 * at + 2, at + 1, p, 1 - p)
                    for at, p in enumerate(curve)
                ),
                None,
                10,
            )
            for key, curve in CURVES.items()
        ]
        scores.add(conn, "c", run, entries)

    with Project.open(path, create=True) as project:
        fill(project, TALKS)
        project.write(score)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command prints as JSON."""
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def found(capsys: pytest.CaptureFixture[str], path: str) -> dict[str, list[tuple[int, int, Any]]]:
    """First and last message and completeness of each request, by conversation."""
    listed = printed(capsys, "requests", "list", path)["conversations"]
    return {
        one["conversation"]: [(each["first"], each["last"], each["p"]) for each in one["requests"]]
        for one in listed
    }


class TestFinding:
    def test_requests_have_completeness(
        self, path: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Each request has the score of its own last boundary; what is not scored is one request."""
        assert printed(capsys, "requests", "find", path) == {
            "conversations": 2, "further_requests": 1,
        }  # fmt: skip
        assert found(capsys, path) == {
            "two": [(0, 3, 0.8), (4, 5, 0.3)],
            "one": [(0, 3, 0.2)],
            "unscored": [(0, 0, None)],
        }
        assert printed(capsys, "requests", "find", path, "--fall", ".6")["further_requests"] == 0
        assert main(["requests", "find", path]) == 0
        capsys.readouterr()
        assert main(["list", path, "--filter", "requests>1"]) == 0
        assert "two" in (out := capsys.readouterr().out)
        assert "one" not in out.split()
        assert main(["export", path, "table"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {row["id"]: row["requests"] for row in rows} == {"two": 2, "one": 1, "unscored": 1}

    def test_a_person_corrects_and_finding_anew_keeps_it(
        self, path: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A mark adds a request, `--not` takes one away, and neither is undone by what is found later."""
        assert main(["requests", "find", path]) == 0
        assert main(["requests", "mark", path, "two", "3", "--not"]) == 0
        assert main(["requests", "mark", path, "two", "2", "--annotator", "ann"]) == 0
        assert main(["requests", "find", path]) == 0
        assert found(capsys, path)["two"] == [(0, 1, 0.9), (2, 5, 0.3)]
        assert main(["requests", "mark", path, "two", "1"]) == 2
        assert "Turns in which the user speaks again: 2, 3" in capsys.readouterr().err

    def test_undo(self, path: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Each undo takes back the newest mark; what was found is there again, and then there is nothing to undo."""
        assert main(["requests", "find", path]) == 0
        assert main(["requests", "mark", path, "two", "3", "--not"]) == 0
        assert main(["requests", "mark", path, "one", "2"]) == 0
        assert main(["requests", "mark", path, "one", "2", "--not"]) == 0
        counts = {"two": 1, "one": 1, "unscored": 1}
        for name, turn, begins in (("one", 2, False), ("one", 2, True), ("two", 3, False)):
            said = {"conversation": name, "turn": turn, "begins": begins}
            assert printed(capsys, "requests", "undo", path) == {"undone": said}
            counts[name] += 1 if not begins else -1
            assert {key: len(each) for key, each in found(capsys, path).items()} == counts
        assert main(["requests", "undo", path]) == 2
        assert "There is nothing to undo." in capsys.readouterr().err

    def test_what_is_counted_is_what_is_listed(
        self, path: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The first message of a user, one of the assistant and one that is not there begin no further request."""
        with Project.open(Path(path)) as project:
            project.write(lambda conn: requests.put_found(conn, [(2, [0, 1, 99])]))
        assert len(found(capsys, path)["one"]) == 1
        assert main(["list", path, "--filter", "requests>1", "--json"]) == 0
        assert capsys.readouterr().out == ""


class TestGoals:
    def test_each_request_has_a_goal(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Conversations of two goals have both, each by its own request, and those of one keep theirs. A mark makes
        other requests, its undo brings the goals back, and a merge of goals is one of requests too."""
        path = str(tmp_path / "goals.wb")
        one = {
            each.external_id: [message.content for message in each.messages]
            for each in goal_runs.conversations(24)
        }
        two = {(a, b): f"{a}+{b}" for a, b in combinations(list(one)[:4], 2)}
        joined = [talk(name, *one[a], *one[b]) for (a, b), name in two.items()]
        with Project.open(path, create=True) as project:
            fill(project, [*(talk(name, *said) for name, said in one.items()), *joined])
            found = [(len(one) + number, [2]) for number in range(1, len(two) + 1)]
            project.write(lambda conn: requests.put_found(conn, found))
        assert main(["requests", "goals", path]) == 2
        assert "workbench run cluster" in capsys.readouterr().err
        cluster = ["--k1", "4", "--no-labels", "--decide", "none"]
        assert main(["run", "cluster", path, *cluster]) == 0
        first = printed(capsys, "requests", "goals", path)
        assert (first["assigned"], first["novel"]) == (2 * len(two), 0)
        assert sum(each["requests"] for each in first["goals"]) == len(one) + 2 * len(two)
        assert sum(each["further"] for each in first["goals"]) == len(two)
        goals = self.goals(capsys, path)
        for (a, b), name in two.items():
            assert goals[name] == [*goals[a], *goals[b]]
        assert len({*goals["goal-000"], *goals["goal-001"], None}) == 3
        name = two["goal-000", "goal-001"]
        assert main(["requests", "mark", path, name, "2", "--not"]) == 0
        assert len(self.goals(capsys, path)[name]) == 1
        assert main(["requests", "undo", path]) == 0
        assert self.goals(capsys, path) == goals
        assert printed(capsys, "requests", "goals", path)["assigned"] == 0
        assert (
            main(["goals", "merge", path, *filter(None, goals[name]), "--label", "Two in one"]) == 0
        )
        assert self.goals(capsys, path)[name] == ["Two in one"] * 2

    @staticmethod
    def goals(capsys: pytest.CaptureFixture[str], path: str) -> dict[str, list[str | None]]:
        """The goals of the requests of each conversation."""
        listed = printed(capsys, "requests", "list", path)["conversations"]
        return {one["conversation"]: [each["goal"] for each in one["requests"]] for one in listed}


def test_requests_become_a_project(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The export has each request as a conversation, without truth; an import makes a project of requests of it."""
    assert main(["requests", "find", path]) == 0
    out, other = str(tmp_path / "requests.jsonl"), str(tmp_path / "requests.wb")
    assert main(["export", path, "requests", "-o", out]) == 0
    lines = [json.loads(line) for line in Path(out).read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["two#1", "two#2", "one#1", "unscored#1"]
    assert [len(line["messages"]) for line in lines] == [4, 2, 4, 1]
    assert lines[1]["workbench"] == {
        "conversation": "two", "request": 2, "requests": 2, "goal": None, "p": pytest.approx(0.3),
        "state": "incomplete",
    }  # fmt: skip
    assert all(line["truth"] is None for line in lines)
    capsys.readouterr()
    assert main(["import", other, out]) == 0
    capsys.readouterr()
    assert main(["list", other]) == 0
    assert "two#2" in capsys.readouterr().out
