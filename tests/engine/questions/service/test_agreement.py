"""The agreement of several people, as the service, the command and the sentences have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.conversation import Verdict
from engine.project.project import Project
from engine.questions.service.calibration import people_agreement
from engine.questions.service.triage import TriageService
from tests.engine.project.support import fill, talk
from workbench.cli import main


def judged(path: Path, people: int) -> Project:
    """Twelve conversations that ann judged; bob, the second, agrees on nine of them, cy judged none of theirs."""
    project = Project.open(path, create=True)
    fill(project, [talk(f"c{number}", f"Lamp {number}, please.") for number in range(16)])
    triage = TriageService(project)
    triage.annotator = "ann"
    for n in range(1, 13):
        triage.give(n, Verdict.YES if n <= 6 else Verdict.NO)
    if people > 1:
        triage.annotator = "bob"
        for n in range(1, 13):
            triage.repeat(n, Verdict.YES if n <= 3 else Verdict.NO)
        triage.annotator = "cy"
        triage.give(14, Verdict.UNSURE)
    return project


def test_three_people(tmp_path: Path) -> None:
    """Pairs have Cohen's kappa over what both judged, all have Krippendorff's alpha, and what is open is counted."""
    project = judged(tmp_path / "p.wb", people=3)
    found = people_agreement(project)
    project.close()
    assert found.people == {"ann": 12, "bob": 12, "cy": 1}
    first, *others = found.pairs
    assert first.found is not None
    assert (first.one, first.other, first.found.count) == ("ann", "bob", 12)
    assert first.found.accuracy.value == 0.75
    assert first.found.kappa is not None
    assert first.found.kappa.value == 0.5
    assert [pair.found for pair in others] == [None, None]
    assert (found.shared, found.disagreements) == (12, 3)
    # alpha by hand: 6 of 24 pairable values differ, by chance 2 * 9 * 15 of 24 * 23
    assert found.alpha is not None
    assert found.alpha.value == pytest.approx(1 - (6 / 24) / (270 / 552))
    assert found.sentences()[1].startswith("ann and bob agree on 75% of 12 conversations, κ .50 (")
    assert found.of_pairs("cy") == [
        "ann and cy judged no conversation in common.",
        "bob and cy judged no conversation in common.",
    ]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints the sentences, or JSON; with one person it says how others come to judge."""
    judged(tmp_path / "p.wb", people=3).close()
    assert main(["questions", str(tmp_path / "p.wb"), "--agreement", "succeeded"]) == 0
    assert "3 conversations to decide on (disagreement:people)." in capsys.readouterr().out
    assert main(["questions", str(tmp_path / "p.wb"), "--agreement", "succeeded", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["disagreements"] == 3
    judged(tmp_path / "q.wb", people=1).close()
    assert main(["questions", str(tmp_path / "q.wb"), "--agreement", "succeeded"]) == 0
    assert capsys.readouterr().out.startswith(
        "One person has judged 12 conversations by succeeded here."
    )
