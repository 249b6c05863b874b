"""Sets of scores against verdicts of people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.conversation import Verdict
from engine.base.errors import UsageError
from engine.base.statistics.bootstrap import classify
from engine.conversations.filters import ListQuery, parse_filter
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from engine.results.validation import verdicts
from tests.engine.project.support import fill, give_scores, talk
from workbench.cli import main

COUNT = 30


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Conversations of which every third is incomplete; one set of scores knows it, the other does not."""
    project = Project.open(tmp_path / "p.wb", create=True)
    fill(project, [talk(f"c{number}", f"Lamp {number}, please.") for number in range(COUNT)])
    good: dict[int, float | None] = {
        n: 0.9 - n / 100 if n % 3 else 0.1 + n / 100 for n in range(1, COUNT + 1)
    }
    give_scores(project, good)
    give_scores(project, {n: n * 7 % 30 / 30 for n in range(1, COUNT + 1)}, "b", make_current=False)
    give_scores(project, {1: 0.5}, "few", make_current=False)
    yield project
    project.close()


def judge(project: Project, count: int) -> None:
    triage = TriageService(project)
    for n in range(1, count + 1):
        triage.give(n, Verdict.YES if n % 3 else Verdict.NO)
    triage.give(1, Verdict.UNSURE)


def test_rows(project: Project) -> None:
    """Each set has a row over what all rows score, equal to the classifier's figures; unsure verdicts are left out."""
    judge(project, COUNT)
    found = verdicts.verdict_validation(project, ListQuery())
    assert (found.judged, found.unsure, found.n, found.complete) == (29, 1, 29, 19)
    assert [count for _, count in found.left_out] == [0]
    good, other, keywords = found.rows
    labels = [bool(n % 3) for n in range(2, COUNT + 1)]
    values = [n * 7 % 30 / 30 for n in range(2, COUNT + 1)]
    assert other.metrics == classify(values, labels)
    assert good.metrics.auroc.value == 1.0
    assert (keywords.name, keywords.rule) == ("keyword rule", None)
    assert {(one.one, one.other) for one in found.contrasts} == {
        (good.name, other.name), (good.name, keywords.name), (other.name, keywords.name),
    }  # fmt: skip
    made = verdicts.verdicts_json(found)["verdicts"]
    assert made["rows"][1]["auroc"] == other.metrics.auroc.value
    assert "a person chose" in verdicts.verdict_table(found).notes[1]


def test_of_a_filter(project: Project) -> None:
    """Only what the filter matches is compared."""
    judge(project, COUNT)
    found = verdicts.verdict_validation(project, ListQuery(parse_filter("-name:c29")))
    assert found.n == 28


def test_too_few(project: Project) -> None:
    """Without five verdicts of each kind there is no table but a reason, and the command exits with it."""
    judge(project, 12)
    with pytest.raises(UsageError, match="7 verdicts complete and 4 incomplete"):
        verdicts.verdict_validation(project, ListQuery())


def test_command(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """`validate verdicts` prints the table, or JSON."""
    judge(project, COUNT)
    path = str(project.path)
    project.close()
    assert main(["validate", path, "verdicts"]) == 0
    out = capsys.readouterr().out
    assert "19 complete and 10 incomplete" in out
    assert "keyword rule" in out
    assert main(["validate", path, "verdicts", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["verdicts"]["rows"]) == 3
