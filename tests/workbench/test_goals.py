"""`workbench goals`: each command does what its key does, and one undo takes it back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.goals.records import GoalDecision
from engine.goals.service.merge_review import MergeReviewService
from engine.goals.views.decision_log import DecisionLog
from engine.project.project import Project
from tests.command_line import result
from workbench.cli import main
from workbench.command_result import EXIT_USAGE

Run = Callable[..., Any]


@pytest.fixture
def run(clustered: Project, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command of `goals` on the clustered project, and returns its JSON, or its error and exit code."""
    path = str(clustered.path)
    clustered.close()

    def go(*words: str) -> Any:
        code = main(["goals", words[0], path, *words[1:], "--json"])
        shown = capsys.readouterr()
        return (
            json.loads(shown.out) if code == 0 else (code, json.loads(shown.err.splitlines()[-1]))
        )

    return go


def labels(run: Run) -> dict[str, str]:
    return {one["id"]: one["label"] for one in run("list")["groups"]}


def test_how_often_a_model_agrees(
    clustered: Project, review: MergeReviewService, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list says how often the answers of a model to a prompt agree with what a person decided, with an interval."""
    first, second, *_ = (group.id for group in review.goals.groups())
    merge = GoalDecision(
        "merge", (first, second), model="m", evidence={"yes": 0.9, "prompt": "merge-json"}
    )
    key = review.goals.view().stored.id
    DecisionLog(clustered).decide(key, lambda state: [merge])
    path = str(clustered.path)
    clustered.close()
    (agreement,) = result("goals", "list", path)["agreement"]
    assert (agreement["model"], agreement["prompt"], agreement["n"]) == ("m", "merge-json", 1)
    assert main(["goals", "list", path]) == 0
    assert "m, asked with merge-json, agrees with your decisions: " in capsys.readouterr().out


def test_merge_rename_pin_and_undo(run: Run) -> None:
    """Groups are named by number, id or label; every act is taken back by `undo`."""
    before = labels(run)
    first, second = list(before)[:2]
    assert run("merge", first, second, "--label", "pay bills")["groups"] == len(before) - 1
    assert "pay bills" in labels(run).values()
    decision = run("rename", "pay bills", "pay")["decision"]
    assert (decision["kind"], decision["names"][0][0]) == ("rename", "pay")
    run("pin", "pay")
    assert [one["label"] for one in run("list")["groups"] if one["pinned"]] == ["pay"]
    run("pin", "pay", "--off")
    for _ in range(4):
        run("undo")
    assert labels(run) == before


def test_split_and_move(run: Run, clustered: Project) -> None:
    """A group is split into no more parts than it has members; conversations move to a group by their ids, or out of
    all."""
    code, error = run("split", "1", "--parts", "999")
    assert (code, "cannot be split into 999 parts" in error["error"]) == (EXIT_USAGE, True)
    largest = run("list")["groups"][0]
    count = len(labels(run))
    done = run("split", "1")
    assert (sum(done["parts"]), done["groups"]) == (largest["size"], count + 1)
    run("undo")
    with Project.open(clustered.path, read_only=True) as project, project.reading() as conn:
        (name,) = conn.execute("SELECT external_id FROM conversation WHERE id = 1").fetchone()
    before = {one["id"]: one["size"] for one in run("list")["groups"]}
    run("move", "none", name)
    after = {one["id"]: one["size"] for one in run("list")["groups"]}
    assert sum(before.values()) - sum(after.values()) == 1
    assert run("move", "1", "nobody")[0] == 2


def test_themes(run: Run) -> None:
    """Goals are put under themes, and one under a theme of a person's, which lists, JSON and filters know."""
    groups = run("themes", "--group", "1", "--under", "Travel")["groups"]
    assert [group["theme"] for group in groups if group["number"] == 1] == ["Travel"]
    (theme,) = [theme for theme in run("themes")["themes"] if theme["label"] == "Travel"]
    assert (theme["groups"], theme["size"]) == ([groups[0]["id"]], groups[0]["size"])
    assert run("themes", "--group", "1", "--under", "none")["groups"][0]["theme"] == ""
    assert run("themes", "--group", "1")[0] == EXIT_USAGE


def test_all_pairs_by_their_probability(run: Run) -> None:
    """Pairs above a probability are merged as one act."""
    before = labels(run)
    left = run("proposals", "--limit", "200")["proposals"]
    high = max(one["evidence"]["probability"] for one in left)
    done = run("decide", "--merge-above", str(high))
    assert done["merged"] == sum(one["evidence"]["probability"] >= high for one in left) > 0
    assert done["groups"] == len(before) - done["merged"]
    run("undo")
    assert labels(run) == before


def test_proposals_and_refusals(run: Run) -> None:
    """Proposals come with their evidence; one that is refused does not come again."""
    found = run("proposals", "--limit", "3")
    assert len(found["proposals"]) == 3
    one = found["proposals"][0]
    assert 0 <= one["evidence"]["probability"] <= 1
    run("apart", one["a"]["id"], one["b"]["id"])
    again = run("proposals", "--limit", "3")
    assert again["left"] == found["left"] - 1
    assert (one["a"]["id"], one["b"]["id"]) not in [
        (other["a"]["id"], other["b"]["id"]) for other in again["proposals"]
    ]
