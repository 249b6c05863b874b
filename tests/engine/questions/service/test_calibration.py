"""Calibration on a project file: the decision rule follows the verdicts; pinning; rates of filters; the command."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from engine.base.conversation import Verdict
from engine.base.number_format import figure
from engine.completeness.records import DecisionRule
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.service.calibration import CalibrationService
from engine.questions.service.triage import TriageService
from engine.questions.tables import answers
from tests.command_line import result
from tests.engine.project.support import fill, give_scores, talk
from workbench.cli import main

COUNT = 200


def truth(number: int) -> Verdict:
    """The simulated person's verdict: complete from a score of .3 on."""
    return Verdict.YES if score(number) >= 0.3 else Verdict.NO


def score(number: int) -> float:
    """Stores the scores 0, .005 … .995, in an order independent of the ids."""
    return (number * 77 % COUNT) / COUNT


@pytest.fixture
def project(project: Project) -> Project:
    """Two hundred scored conversations, half of them short, and one that is not scored."""
    fill(
        project,
        [talk(f"c{n}", f"hi {n}", *["more"] * (n % 2 * 4)) for n in range(1, COUNT + 2)],
    )
    give_scores(project, {n: score(n) for n in range(1, COUNT + 1)})
    return project


def judge(project: Project, count: int) -> None:
    """Gives right verdicts to the first conversations of the calibration sample."""
    triage = TriageService(project)
    for item in triage.queue("sample").items[:count]:
        triage.give(item.conversation_id, truth(item.conversation_id))


class TestRule:
    def test_verdicts_propose_a_threshold_and_change_nothing(self, project: Project) -> None:
        """With the fortieth verdict a threshold between complete and incomplete ones is proposed, with the share of
        complete ones by both rules; the rule in force changes only when the proposal is taken over."""
        told: list[str] = []
        calibration = CalibrationService(project, lambda: told.append("rule"))
        judge(project, 39)
        assert calibration.report().proposal is None
        judge(project, 1)
        proposal = calibration.report().proposal
        assert proposal is not None
        assert proposal.rule.threshold == pytest.approx(0.3, abs=0.04)
        assert ConversationService(project).rule() == DecisionRule()
        counts = ConversationService(project).counts()
        assert proposal.now == counts.above / counts.scored
        assert told == []

        assert calibration.use(proposal.rule) == proposal.rule
        assert told == ["rule"]
        assert ConversationService(project).rule() == proposal.rule
        assert proposal.rule.source == "calibrated"
        counts = ConversationService(project).counts()
        assert proposal.then == counts.above / counts.scored
        assert calibration.report().proposal is None

    @pytest.mark.parametrize("seed", range(2))
    def test_verdicts_at_chance_propose_nothing(self, project: Project, seed: int) -> None:
        """Verdicts that have nothing to do with the scores propose no threshold, and the reason is told."""
        triage, coin = TriageService(project), random.Random(seed)
        for item in triage.queue("sample").items[:45]:
            triage.give(item.conversation_id, coin.choice([Verdict.YES, Verdict.NO]))
        report = CalibrationService(project).report()
        assert report.proposal is None
        assert "no better than chance" in report.not_proposed or not report.best

    def test_scores_that_point_the_other_way(self, project: Project) -> None:
        """An interval below chance says that what succeeded has the lower scores."""
        triage = TriageService(project)
        for item in triage.queue("sample").items[:45]:
            right = truth(item.conversation_id) is Verdict.YES
            triage.give(item.conversation_id, Verdict.NO if right else Verdict.YES)
        facts = dict(CalibrationService(project).report().facts())
        assert "it points the other way, what succeeded has the lower scores" in facts["AUROC"]

    def test_verdicts_that_contradict_the_share(self, project: Project) -> None:
        """No threshold is suggested whose share of ended ones is outside of what the verdicts say succeeded."""
        triage = TriageService(project)
        for item in triage.queue("sample").items[:COUNT]:
            number = item.conversation_id
            fails = score(number) < 0.6 and number % 5 < 2
            triage.give(number, Verdict.NO if fails else Verdict.YES)
        report = CalibrationService(project).report()
        assert report.proposal is None
        assert "would count as ended" in report.not_proposed

    def test_verdicts_on_the_most_trouble(self, project: Project) -> None:
        """Verdicts that are mostly on conversations with much trouble suggest no threshold and no rate, but what is
        needed."""
        judge(project, 60)
        assert CalibrationService(project).report().proposal is not None
        judged = {key for key, *_ in project.read(answers.judged_pairs)}

        def give_trouble(conn: sqlite3.Connection) -> None:
            conn.execute("DELETE FROM trouble")
            rows = [(key, float(key in judged and key % 4 > 0)) for key in range(1, COUNT + 1)]
            conn.executemany("INSERT INTO trouble (conversation_id, total) VALUES (?, ?)", rows)

        project.write(give_trouble)
        assert CalibrationService(project).is_picked_by_trouble()
        report = CalibrationService(project).report()
        assert report.proposal is None
        assert "40 drawn at random are needed" in report.no_proposal
        part = ListQuery(parse_filter("draw<1"))
        assert CalibrationService(project).report(part).rate.corrected is None


class TestReport:
    def test_rates(self, project: Project) -> None:
        """The corrected rate is right for all and for a filter; for a filter on scores or states there is none."""
        judge(project, 60)
        report = CalibrationService(project).report()
        assert report.rate.conversations == COUNT + 1
        assert report.rate.scored == COUNT
        assert report.rate.corrected is not None
        assert report.rate.corrected.low <= 0.7 <= report.rate.corrected.high
        short = [n for n in range(1, COUNT + 1) if n % 2 == 0]
        real = sum(truth(n) is Verdict.YES for n in short) / len(short)
        part = CalibrationService(project).report(ListQuery(parse_filter("messages<3"))).rate
        assert part.corrected is not None
        assert part.corrected.low <= real <= part.corrected.high
        low = CalibrationService(project).report(ListQuery(parse_filter("p<.4"))).rate
        assert (low.corrected, low.why) == (None, "the filter goes by the score")

    def test_agreement(self, project: Project) -> None:
        """Agreement with the model is over decided scores, agreement with oneself over the blind repeats in force."""
        triage = TriageService(project)
        for n in range(1, 41):
            triage.give(n, truth(n))
        decided = [n for n in range(1, 41) if not 0.4 < score(n) < 0.6]
        same = [n for n in decided if (score(n) >= 0.5) == (truth(n) is Verdict.YES)]
        for n, verdict in ((1, truth(1)), (2, Verdict.UNSURE)):
            triage.repeat(n, verdict)
        service = CalibrationService(project)
        model, itself = service.report().model, service.agreement_of_repeats()
        assert model.same is not None
        assert model.n == pytest.approx(len(decided), abs=1)
        assert model.same.part == pytest.approx(len(same), abs=1)
        assert itself.same is not None
        assert (itself.same.part, itself.n) == (1, 2)
        triage.undo()
        assert service.agreement_of_repeats().n == 1


class TestCommand:
    def test_json_and_apply(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        """The command prints the figures as JSON and what a proposed threshold would do; --apply puts it in force, and
        --free the default again."""
        judge(project, 50)
        path = project.path
        project.close()
        found = result("calibrate", path)
        assert found["rule"]["source"] == "default"
        assert found["best"] == pytest.approx(0.3, abs=0.04)
        now, then = found["proposal"]["now"], found["proposal"]["then"]
        assert main(["calibrate", path]) == 0
        out = capsys.readouterr().out
        assert f"{now:.0%} → {then:.0%} ended" in out
        assert f"AUROC              {figure(found['auroc']['value'])} (" in out
        assert main(["calibrate", path, "--apply", "--filter", "messages<3"]) == 0
        out = capsys.readouterr().out
        assert "in force (calibrated)" in out
        assert "succeeded   " in out
        with Project.open(Path(path), read_only=True) as again:
            assert ConversationService(again).rule().source == "calibrated"
        assert main(["calibrate", path, "--free"]) == 0
        with Project.open(Path(path), read_only=True) as again:
            assert ConversationService(again).rule() == DecisionRule()


# Several people


def test_three_people(tmp_path: Path) -> None:
    """Of twelve conversations that ann judged bob agrees on nine, cy judged none of theirs. Pairs have Cohen's kappa
    over what both judged, all have Krippendorff's alpha, and what is open is counted."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk(f"c{number}", f"Lamp {number}, please.") for number in range(16)])
        triage = TriageService(project)
        triage.annotator = "ann"
        for n in range(1, 13):
            triage.give(n, Verdict.YES if n <= 6 else Verdict.NO)
        triage.annotator = "bob"
        for n in range(1, 13):
            triage.repeat(n, Verdict.YES if n <= 3 else Verdict.NO)
        triage.annotator = "cy"
        triage.give(14, Verdict.UNSURE)
        found = CalibrationService(project).people()
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
    assert any("3 conversations to decide on" in sentence for sentence in found.sentences())
    assert found.sentences()[1].startswith("ann and bob agree on 75% of 12 conversations, κ .50 (")
    assert found.of_pairs("cy") == [
        "ann and cy judged no conversation in common.",
        "bob and cy judged no conversation in common.",
    ]


def test_a_pattern_is_no_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where only a pattern answered, the command says so; before anybody did, that nobody has; where one person did,
    that."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        fill(project, [talk(f"c{number}", f"Lamp {number}, please.") for number in range(3)])
        TriageService(project).give(1, Verdict.YES)
    assert main(["questions", str(path), "--agreement", "succeeded"]) == 0
    assert capsys.readouterr().out.startswith("One person has judged 1 conversation by succeeded")
    assert main(["questions", str(path), "--agreement", "refused"]) == 0
    assert capsys.readouterr().out.startswith("Nobody has answered refused here.")
    assert main(["ask", str(path), "refused", "--by", "pattern"]) == 0
    capsys.readouterr()
    assert main(["questions", str(path), "--agreement", "refused"]) == 0
    said = capsys.readouterr().out
    assert "answers refused on 3 conversations here, and no person does" in said
