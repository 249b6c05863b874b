"""`workbench goals`: each command does what its key does, and one undo takes it back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.goals.records import GoalDecision
from engine.goals.service.merge_review import MergeReviewService
from engine.goals.views.decision_log import DecisionLog
from engine.project.project import Project
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
    assert main(["goals", "list", path, "--json"]) == 0
    (agreement,) = json.loads(capsys.readouterr().out)["agreement"]
    assert (agreement["model"], agreement["prompt"], agreement["n"]) == ("m", "merge-json", 1)
    assert main(["goals", "list", path]) == 0
    assert "m, asked with merge-json, agrees with your decisions: " in capsys.readouterr().out


def test_merge_rename_pin_and_undo(run: Run) -> None:
    """Groups are named by number, id or label; every act is taken back by `undo` and given again by `--redo`."""
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
    run("undo", "--redo")
    assert "pay bills" in labels(run).values()


def test_split_and_move(run: Run, clustered: Project) -> None:
    """A split is shown before it is made, into no more parts than there are members; conversations move to a group by
    their ids, or out of all."""
    code, error = run("split", "1", "--parts", "999")
    assert (code, "cannot be split into 999 parts" in error["error"]) == (EXIT_USAGE, True)
    largest = run("list")["groups"][0]
    parts = run("split", "1", "--dry-run")
    assert sum(parts["parts"]) == largest["size"]
    count = len(labels(run))
    assert run("split", "1")["groups"] == count + 1
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


def test_members_split_off(run: Run, clustered: Project) -> None:
    """Members that are named become a group of their own; conversations of other groups do not."""
    groups = run("list")["groups"]
    with Project.open(clustered.path, read_only=True) as project, project.reading() as conn:
        cluster = int(groups[0]["id"].removeprefix("c"))
        names = [
            name
            for (name,) in conn.execute(
                "SELECT external_id FROM conversation JOIN membership ON conversation_id = id"
                " WHERE cluster = ? ORDER BY id",
                (cluster,),
            )
        ]
        (other,) = conn.execute(
            "SELECT external_id FROM conversation JOIN membership ON conversation_id = id"
            " WHERE cluster <> ? LIMIT 1",
            (cluster,),
        ).fetchone()
    assert run("split", groups[0]["id"], "--members", *names, "--dry-run")[0] == EXIT_USAGE
    found = run("split", groups[0]["id"], "--members", *names[:2])
    assert found["parts"] == [2, groups[0]["size"] - 2]
    assert 2 in [one["size"] for one in run("list")["groups"]]
    code, error = run("split", groups[1]["id"], "--members", names[0])
    assert code == 2
    assert "does not have all of these" in error["error"]
    assert run("split", groups[0]["id"], "--members", other)[0] == 2


def test_all_pairs_by_their_probability(run: Run) -> None:
    """Pairs above one probability are merged and those below another refused, each as one act; a dry run says how many
    and stores nothing; nothing or a contradiction is refused."""
    before = labels(run)
    left = run("proposals", "--limit", "200")["proposals"]
    chances = sorted(one["evidence"]["probability"] for one in left)
    low, high = chances[len(chances) // 2], chances[-1]
    planned = run("decide", "--merge-above", str(high), "--refuse-below", str(low), "--dry-run")
    assert planned["refused"] == sum(one < low for one in chances) > 0
    assert planned["merged"] == sum(one >= high for one in chances) > 0
    assert labels(run) == before
    done = run("decide", "--merge-above", str(high), "--refuse-below", str(low))
    assert done["groups"] < len(before)
    assert done["refused"] == planned["refused"]
    run("undo")
    run("undo")
    assert labels(run) == before
    assert run("decide")[0] == EXIT_USAGE
    assert run("decide", "--merge-above", ".2", "--refuse-below", ".5")[0] == EXIT_USAGE


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


def test_decisions_by_file(
    run: Run, clustered: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exported decisions are repeated on a project with the same labels, as one act; what cannot be is named."""
    before = labels(run)
    first, second, third = list(before)[:3]
    run("rename", third, "third")
    run("merge", first, second, "--label", "both")
    run("apart", "both", "third")
    file = tmp_path / "decisions.jsonl"
    assert main(["export", str(clustered.path), "decisions", "-o", str(file), "--json"]) == 0
    capsys.readouterr()
    decided = labels(run)
    for _ in range(3):
        run("undo")
    assert labels(run) == before
    assert run("import", str(file))["repeated"] == 3
    assert sorted(labels(run).values()) == sorted(decided.values())
    run("undo")
    assert labels(run) == before
    file.write_text(
        json.dumps({"kind": "merge", "labels": ["third", "nobody"]})
        + "\n"
        + json.dumps({"kind": "split", "labels": [before[third]]})
        + "\n"
        + json.dumps({"kind": "pin", "labels": [before[third]]})
        + "\n"
    )
    assert main(["goals", "import", str(clustered.path), str(file)]) == 3
    capsys.readouterr()
    assert main(["goals", "import", str(clustered.path), str(file), "--json"]) == 3
    again = json.loads(capsys.readouterr().out)
    assert again["repeated"] == 0
    assert again["left_out"][2] == "Line 3: the group is pinned here already."
