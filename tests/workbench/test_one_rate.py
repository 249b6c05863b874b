"""Every surface of one project gives the same figures: rates, counts, thresholds, groups, verdicts, duplicates."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import State
from engine.completeness.records import DecisionRule
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from screens.conversations.query import Listing, read_counts, summary_content
from screens.goals.formatting import rate_of
from screens.overview.facts import load_overview, rate_content
from tests.command_line import data, workbench
from tests.engine.project.support import give_scores
from tests.plain_html import plain_text
from workbench.api.project import Project, open
from workbench.commands.goal_runs import shown_clustering

WISHES = ("book a table for two", "cancel my order", "reset my password", "find a cheap flight")
COUNT, DUPLICATES = 40, 7
SILENT, ALONE = "silent", "alone"
RULE = DecisionRule(0.6, 0.1, "calibrated")
P = {f"c{nth}": 0.5 + 0.01 * nth if nth % 3 else 0.2 for nth in range(COUNT)}
"""Scores on both sides of the threshold, and on both sides within the band."""


def _logs() -> list[dict[str, Any]]:
    made = [
        {
            "id": f"c{nth}",
            "created_at": f"2026-0{1 + nth % 2}-03T10:00:00Z",
            "messages": [
                {
                    "role": "user",
                    "content": f"Please {WISHES[nth % (2 if nth < COUNT // 2 else 4)]}, number {nth}.",
                },
                {"role": "assistant", "content": f"Done, that was number {nth}."},
            ],
        }
        for nth in range(COUNT)
    ]
    copies = [{**one, "id": f"copy of {one['id']}"} for one in made[:DUPLICATES]]
    silent = [{"role": "user", "content": ""}, {"role": "assistant", "content": " "}]
    alone = [{"role": "user", "content": "Is anybody there?"}]
    return [*made, *copies, {"id": SILENT, "messages": silent}, {"id": ALONE, "messages": alone}]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with groups, scores in every state, a calibrated threshold, verdicts and duplicates."""
    folder = tmp_path_factory.mktemp("rate")
    path, logs = folder / "p.wb", folder / "logs.jsonl"
    logs.write_text("".join(json.dumps(one) + "\n" for one in _logs()), "utf-8")
    done = workbench("import", path, logs)
    assert done.returncode in (0, 3), done.stderr.decode()
    with OpenProject(path) as opened:
        keys = {row.external_id: row.id for row in opened.conversations.rows(range(1, COUNT + 3))}
        p_by_key = {keys[name]: p for name, p in P.items()}
        give_scores(opened.project, {**p_by_key, keys[SILENT]: None})
        opened.calibration.use(RULE)
    for words in (
        ("run", "cluster", path, "--no-labels", "--decide", "none", "--k", "4"),
        ("answers", path, "succeeded", "--give", "c0", "no"),
        ("answers", path, "succeeded", "--give", "c8", "yes", "--give", "c9", "yes"),
    ):
        done = workbench(*words)
        assert done.returncode in (0, 3), done.stderr.decode()
    return path


@pytest.fixture
def workspace(project: Path) -> Iterator[OpenProject]:
    with OpenProject(project, read_only=True) as opened:
        yield opened


@pytest.fixture
def api(project: Path) -> Iterator[Project]:
    with open(project, read_only=True) as opened:
        yield opened


STATES = Counter(str(RULE.state(P.get(one["id"]))) for one in _logs() if "copy" not in one["id"])
ABOVE = sum(p >= RULE.threshold for p in P.values())
SCORED, ALL = len(P), COUNT + 2
RATE = ABOVE / SCORED
PERCENT = f"{RATE:.0%}"


def exported(project: Path, what: str) -> list[dict[str, Any]]:
    done = workbench("export", project, what)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_figures_can_differ() -> None:
    """The borderline ones lie on both sides, so that each definition of the rate would give another figure."""
    near = [p for p in P.values() if RULE.state(p) is State.BORDERLINE]
    assert 0 < sum(p >= RULE.threshold for p in near) < len(near)
    assert len({STATES["complete"], ABOVE, STATES["complete"] + STATES["borderline"]}) == 3


def test_commands(project: Path) -> None:
    """`status`, `calibrate`, `compare` and the list give one rate with one interval, threshold, n and states."""
    status = data(workbench("status", project, "--json"))
    counts = status["counts"]
    assert {state: counts[state] for state in map(str, State)} == STATES
    assert (counts["above"], counts["conversations"], counts["verdicts"]) == (ABOVE, ALL, 3)
    assert (status["scored"], counts["duplicates"]) == (SCORED, DUPLICATES)
    assert status["verdicts"] == {"yes": 2, "no": 1, "unsure": 0}
    assert status["rate"]["value"] == pytest.approx(RATE)
    assert (status["rule"]["threshold"], status["rule"]["band"]) == (RULE.threshold, RULE.band)
    assert f"{PERCENT} ended" in workbench("status", project).stdout.decode()

    calibrated = data(workbench("calibrate", project, "--json"))
    assert (calibrated["rule"], calibrated["rate"]["borderline"]) == (
        status["rule"],
        STATES["borderline"],
    )
    assert (calibrated["complete"], calibrated["incomplete"]) == (2, 1)
    (part,) = data(workbench("compare", project, "--by", "source", "--json"))["parts"]
    for found in (calibrated["rate"], part["rate"]):
        assert (found["conversations"], found["scored"]) == (ALL, SCORED)
        assert (found["apparent"], found["low"], found["high"]) == (
            status["rate"]["value"], status["rate"]["low"], status["rate"]["high"],
        )  # fmt: skip
    sides = data(workbench("compare", project, "--a", "date:2026-01", "--json"))["sides"]
    above = sum(round(one["rate"]["apparent"] * one["rate"]["scored"]) for one in sides)
    assert (above, sum(one["rate"]["scored"] for one in sides)) == (ABOVE, SCORED)

    listed = [json.loads(line) for line in workbench("list", project, "--json").stdout.splitlines()]
    assert Counter(one["state"] for one in listed) == STATES


def test_screens(workspace: OpenProject) -> None:
    """The overview, the list and the calibration show the rate of `status`, and at which threshold."""
    found = load_overview(workspace)
    assert (found.counts.above, found.counts.scored, found.rule.threshold) == (ABOVE, SCORED, 0.6)
    shown = rate_content(found).plain
    assert shown.startswith(f"{PERCENT} [")
    assert "ended, ≥ .60" in shown
    for state, number in STATES.items():
        assert f"{number} {State(state).word}" in shown
    every = ListQuery()
    listing = Listing(every, workspace.conversations.ids(every), read_counts(workspace, every))
    summary = summary_content(listing, 0).plain
    assert f"{PERCENT} [" in summary
    assert "ended, ≥ .60" in summary
    facts = dict(workspace.calibration.report().facts())
    assert facts["ended"].startswith(f"{PERCENT} [")
    assert f"of {SCORED} scored" in facts["ended"]


def test_groups(project: Path, workspace: OpenProject) -> None:
    """Goals, their export, the report, the table, the assignments and `run cluster` agree on groups: number, order,
    sizes, and the rate of each."""
    groups = workspace.goals.groups()
    listed = data(workbench("goals", "list", project, "--json"))["groups"]
    clusters = exported(project, "clusters")
    order = [(one.id, one.size) for one in groups]
    assert len(groups) > 1
    assert [(one["id"], one["size"]) for one in listed] == order
    assert [(one["cluster"], one["size"]) for one in clusters] == order
    made = shown_clustering(workspace)["groups"]
    assert [(one["id"], one["size"]) for one in made] == order
    members: dict[str, list[str]] = {}
    for line in exported(project, "assignments"):
        members.setdefault(line["cluster"], []).append(line["id"])
    for one, line in zip(groups, clusters, strict=True):
        states = {
            name: line[name]
            for name in ("complete", "incomplete", "borderline", "unscored", "above")
        }
        assert states == {name: getattr(one.states, name) for name in states}
        of = [P[name] for name in members[one.id] if name in P]
        assert len(members[one.id]) == one.size
        assert rate_of(one) == pytest.approx(sum(p >= RULE.threshold for p in of) / len(of))
    labels = {one.id: one.label for one in groups}
    table = Counter(line["goal"] for line in exported(project, "table") if line["goal"])
    assert table == Counter({labels[key]: size for key, size in order})
    done = workbench("report", project, "-o", project.with_suffix(".html"))
    assert done.returncode == 0, done.stderr.decode()
    report = plain_text(project.with_suffix(".html").read_text("utf-8"))
    rows = re.findall(
        r"^([^|\n]+) \| (\d+) \| \d+% \([^)]*\) \| [^|]+ \| (\d+%|not scored)", report, re.MULTILINE
    )
    assert rows == [
        (
            one.label,
            str(one.size),
            "not scored" if (rate := rate_of(one)) is None else f"{rate:.0%}",
        )
        for one in groups
    ]
    assert f"{PERCENT} of the scored conversations ended" in report
    assert f"{ABOVE} have .60 or more; {SCORED} of {ALL} are scored" in report
    project.with_suffix(".html").unlink()


def test_exports(project: Path, api: Project) -> None:
    """Each export and the API have one line a conversation, with the states and verdicts of `status`, and name the
    duplicates that it counts."""
    lines = {
        what: exported(project, what)
        for what in ("table", "scores", "answers", "assignments", "conversations")
    }
    names = [one["id"] for one in _logs() if "copy" not in one["id"]]
    for what in ("table", "scores", "assignments", "conversations"):
        assert [line["id"] for line in lines[what]] == names
    for what in ("table", "scores"):
        assert Counter(line["state"] for line in lines[what]) == STATES
        p = "p" if what == "table" else "p_end_normalised"
        assert (
            sum(line[p] is not None and line[p] >= RULE.threshold for line in lines[what]) == ABOVE
        )
    for what in ("scores", "assignments"):
        assert sum(len(line["duplicates"]) for line in lines[what]) == DUPLICATES
    assert Counter(line["succeeded"] for line in lines["answers"]) == {"yes": 2, "no": 1}
    assert (api.curves(), api.assignments()) == (lines["scores"], lines["assignments"])
    assert Counter(answer.value for answer in api.answers("succeeded")) == {"yes": 2, "no": 1}
    assert Counter(line["state"] for line in api.table()) == STATES
    assert api.counts() == {"conversations": ALL, **STATES, "above": ABOVE}
    assert [one.size for one in api.goals()] == [
        line["size"] for line in exported(project, "clusters")
    ]
