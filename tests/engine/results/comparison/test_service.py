"""Comparisons of a small project: parts by filter and by field."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from engine.base.conversation import Verdict
from engine.base.errors import UsageError
from engine.base.statistics.intervals import Interval
from engine.completeness.records import EndingTest
from engine.completeness.tables import score_sets
from engine.completeness.tables.score_sets import ScoreConfig
from engine.conversations.filters import ListQuery, parse_filter
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.runner import JobRunner
from engine.opener.conversations import ConversationService
from engine.project import runs
from engine.project.project import Project
from engine.questions.records import Answerer, ExampleProbe, MachineAnswer, NewAnswer
from engine.questions.service.questions import QuestionService
from engine.questions.service.triage import TriageService
from engine.questions.tables import answers, example_probes, machine_answers
from engine.results.comparison.differences import Comparison, Difference, Side, compare
from engine.results.comparison.formatting import (
    breakdown_table,
    change_sentences,
    comparison_table,
    sign_clauses,
)
from engine.results.comparison.measures import Measures
from engine.results.comparison.service import ComparisonService
from engine.signs.stages import SignStage
from tests.engine.goals.service.goal_project import cluster, stored_review, texts
from tests.engine.project.support import fill, give_scores, talk

PROBE = ExampleProbe("succeeded", 100, None)


def service_of(project: Project) -> ComparisonService:
    """The comparisons of a project."""
    return ComparisonService(project, MergeQueueCache(project, DecisionLog(project)))


@pytest.fixture
def better(tmp_path: Path) -> Iterator[Project]:
    """Two hundred conversations in two months; in the second nearly all end complete, in the first a half."""
    with Project.open(tmp_path / "better.wb", create=True) as opened:
        fill(
            opened,
            [
                talk(
                    f"t{n}",
                    f"fix my printer {n}",
                    "ok",
                    created_at=f"2026-0{1 + n % 2}-05",
                    meta={"team": "ab"[n % 2]},
                )
                for n in range(1, 201)
            ],
        )
        give_scores(opened, {n: 0.9 if n % 2 or n % 4 == 0 else 0.1 for n in range(1, 201)})
        yield opened


def found(comparison: Comparison, measure: str) -> Difference:
    """The difference of a measure over all conversations."""
    return next(one for one in comparison.differences if one.measure == measure)


class TestFilters:
    def test_a_difference_is_found(self, better: Project) -> None:
        """The change of the completion rate has its sign, interval and p value; its row leads to the side with the
        lower rate."""
        both = service_of(better).compare(
            parse_filter("date:2026-01"), parse_filter("date:2026-02")
        )
        completion = found(both, "completion")
        assert completion.values == (0.5, 1.0)
        assert completion.cases == (100, 100)
        assert completion.significant
        assert 0.39 < completion.change.low < 0.5 < completion.change.high < 0.62
        row = comparison_table(both).rows[0]
        assert row.cells[4] == "<.001*"
        assert row.details["filter"] == "date:2026-01"

    def test_verdicts_and_imported_outcomes_come_first(self, tmp_path: Path) -> None:
        """Where both sides have verdicts their share that succeeded stands before what ended, tested alone, and so does
        the share that failed by imported outcomes; what succeeded says, and leads to, the side where less did."""
        with Project.open(tmp_path / "p.wb", create=True) as opened:
            fill(
                opened,
                [
                    talk(
                        f"{n}",
                        f"hello {n}",
                        created_at=f"2026-0{1 + n % 2}-05",
                        truth={"reward": n % 2},
                    )
                    for n in range(1, 61)
                ],
            )
            give_scores(opened, dict.fromkeys(range(1, 61), 0.9))
            sides = [parse_filter(f"date:2026-0{month}") for month in (1, 2)]
            give = TriageService(opened).give
            for n in (1, 3, 5, 7):
                give(n, "yes" if n > 1 else "no")
            one_sided = service_of(opened).compare(*sides)
            for n in (2, 4, 6, 8):
                give(n, "yes" if n > 6 else "no")
            give(10, "unsure")
            both = service_of(opened).compare(*sides)
            by_month = service_of(opened).by("month")
        assert [part.outcomes for part in by_month.parts] == [(29, 30), (1, 30)]
        by_table = breakdown_table(by_month)
        assert [column.title for column in by_table.columns[:4]] == [
            "month",
            "conv.",
            "failed",
            "ended",
        ]
        assert by_table.rows[0].cells[2] == "29 of 30"
        assert [one.measure for one in one_sided.differences[:2]] == ["failed", "completion"]
        succeeded, failed, ended = both.differences[:3]
        assert (succeeded.measure, ended.measure) == ("succeeded", "completion")
        assert (succeeded.values, succeeded.cases) == ((0.25, 0.75), (4, 4))
        assert (failed.values, failed.cases) == ((1, 0), (30, 30))
        assert (succeeded.corrected, failed.corrected) == (succeeded.p, failed.p)
        table = comparison_table(both)
        assert table.rows[0].cells[:3] == ("succeeded (verdicts)", "25.0%", "75.0%")
        assert table.rows[1].cells[:3] == ("failed (imported outcomes)", "100.0%", "0.0%")
        assert table.rows[0].details["filter"] == "date:2026-01"
        assert "p of what succeeded and of what failed and of what ended is" in " ".join(
            table.notes
        )

    def test_scores_that_mean_little(self, better: Project) -> None:
        """Where the test of the scores says that they mean little, every comparison says so."""
        test = EndingTest(36, Interval(0.5, 0.4, 0.6), 0.9, 0.84, 0.6, None, 0)
        config = ScoreConfig("tested", "probe", "tiny.gguf", test=test)
        better.write(lambda conn: score_sets.register(conn, config))
        give_scores(better, {n: 0.9 if n % 2 else 0.1 for n in range(1, 201)}, "tested")
        service = service_of(better)
        sides = service.compare(parse_filter("date:2026-01"), parse_filter(""))
        for notes in (comparison_table(sides).notes, breakdown_table(service.by("month")).notes):
            assert notes[0].startswith("What ended: these scores mean little: whole and cut")

    def test_the_others(self, better: Project) -> None:
        """Without a second filter the side holds all others, and the filter that selects them is told."""
        both = service_of(better).compare(parse_filter("date:2026-01"), parse_filter(""))
        assert [side.rate.conversations for side in both.sides] == [100, 100]
        assert both.sides[1].filter == "-date:2026-01"

    def test_each_conversation_is_on_one_side(self, better: Project) -> None:
        """Filters that share conversations are refused, and so is one that matches nothing."""
        with pytest.raises(UsageError, match="100 conversations would be on both sides"):
            service_of(better).compare(parse_filter("date:2026"), parse_filter("date:2026-02"))
        with pytest.raises(UsageError, match="no conversation of"):
            service_of(better).compare(parse_filter("date:2025"), parse_filter("date:2026"))

    def test_goals(self, tmp_path: Path) -> None:
        """The goal that only one side has comes first; each goal is tested or counted as too rare."""
        with Project.open(tmp_path / "p.wb", create=True) as opened:
            fill(
                opened,
                [
                    talk(f"{n}-{word}", f"{text} {word}", "ok")
                    for n, (_, text) in enumerate(texts())
                    for word in ("please", "today")
                ],
            )
            cluster(opened, k=4)
            groups = stored_review(opened).goals.groups()
            both = service_of(opened).compare(parse_filter("wifi"), parse_filter(""))
        first = next(one for one in both.differences if one.goal is not None)
        assert first.significant
        assert first.measure == "share of goal"
        assert first.values[0] > 0.9
        assert first.values[1] == 0
        tested = {one.goal for one in both.differences if one.goal is not None}
        assert both.untested + len(tested) == len(groups)

    def test_random_halves(self, better: Project) -> None:
        """Of 200 random halves, at most 5 in 100 show a difference in what ended, and as many in anything else."""
        every = better.read(Measures.read, None)
        random = np.random.default_rng(3)
        alarms = other_alarms = 0
        for _ in range(200):
            half = random.permutation(len(every.ids)) < len(every.ids) // 2
            parts = every.part(half), every.part(~half)
            sides = tuple(Side("", "", part.rate()) for part in parts)
            both = compare((sides[0], sides[1]), *parts)
            ended, *others = both.differences
            alarms += ended.significant
            other_alarms += any(one.significant for one in others)
        assert max(alarms, other_alarms) <= 16  # 10 expected; more has a probability of 2%

    def test_success(self, better: Project) -> None:
        """Where a probability of success was fitted to verdicts, its means are compared; elsewhere it is no measure."""
        sides = parse_filter("date:2026-01"), parse_filter("date:2026-02")
        plain = service_of(better).compare(*sides)
        assert "success" not in {one.measure for one in plain.differences}
        values = [(n, 0.2 + 0.4 * (n % 2) + n / 2000, None) for n in range(1, 101)]
        better.write(lambda conn: example_probes.put(conn, PROBE, values))
        success = found(service_of(better).compare(*sides), "success")
        assert success.cases == (50, 50)
        assert success.values == pytest.approx((0.2255, 0.625))
        assert success.significant

    def test_answers_without_the_errors_of_a_machine(self, better: Project) -> None:
        """What a machine answered is compared as it answered until people checked it on both sides, then without its
        errors, which are all in the second month."""
        sides = parse_filter("date:2026-01"), parse_filter("date:2026-02")
        says = [MachineAnswer(n, "yes" if n % 4 < 2 else "no") for n in range(1, 201)]

        def store(conn: sqlite3.Connection) -> None:
            run_id = runs.create(conn, stage="ask", config_hash="c", params={}, fingerprints={})
            machine_answers.put(conn, Answerer("c", "refused", "model", "gpu1"), run_id, says)

        better.write(store)
        (row,) = comparison_table(service_of(better).compare(*sides)).rows[-1:]
        assert row.cells == ("refused: yes (gpu1, not corrected)", "50%", "50%", "", "")
        checking = QuestionService(better)
        for _ in range(10):
            checking.draw_check("refused")
            check = better.read(machine_answers.newest_check, "refused")
            assert check is not None
            acts = [
                NewAnswer(key, "refused", "yes" if key % 4 == 0 else "no") for key in check.drawn
            ]
            better.write(partial(answers.give_all, acts=acts))
        (change,) = service_of(better).compare(*sides).answer_changes
        assert change.change is not None
        assert [share.corrected and share.corrected.value for share in change.shares] == [0.5, 0]
        assert change.change.high < 0

    def test_trouble(self, tmp_path: Path) -> None:
        """Where signs of trouble were read, their sums are compared, over all and in each goal; elsewhere not."""
        sides = parse_filter("date:2026-01"), parse_filter("date:2026-02")
        first, _ = texts()[0]
        with Project.open(tmp_path / "p.wb", create=True) as opened:
            fill(
                opened,
                [
                    talk(
                        f"{n}-{word}-{month}",
                        f"{text} {word} {month}",
                        "Sorry, I cannot."
                        if (month, topic, word) == (2, first, "please")
                        else "Here you are.",
                        created_at=f"2026-0{month}-05",
                    )
                    for n, (topic, text) in enumerate(texts())
                    for word in ("please", "today")
                    for month in (1, 2)
                ],
            )
            cluster(opened, k=4)
            assert "trouble" not in {
                each.measure for each in service_of(opened).compare(*sides).differences
            }
            JobRunner(opened, lambda event: None).run(SignStage(opened))
            both = service_of(opened).compare(*sides)
        assert found(both, "trouble").change.value > 0
        significant = [each for each in both.differences if each.significant and each.goal]
        assert [each.measure for each in significant] == ["trouble in goal"]

    def test_signs_of_trouble(self, better: Project) -> None:
        """Signs that more conversations show in one month are told alike by a comparison of two filters and by months,
        each with its shares; both values of a field with two have one p; without signs nothing is told. By months all
        that changed in the last one is told, but for what verdicts say, which people pick."""
        assert service_of(better).by("month").parts[1].sign_changes == ()
        with Project.open(Path(better.path).with_name("signs.wb"), create=True) as opened:
            fill(
                opened,
                [
                    talk(
                        f"t{n}",
                        f"fix my printer {n}",
                        "Sorry, I cannot." if n % 2 or n % 20 == 0 else f"Press the button {n}.",
                        created_at=f"2026-0{1 + n % 2}-05",
                        meta={"team": "ab"[n % 2]},
                    )
                    for n in range(1, 101)
                ],
            )
            JobRunner(opened, lambda event: None).run(SignStage(opened))
            for key in range(1, 41):
                TriageService(opened).give(key, Verdict.NO if key % 2 else Verdict.YES)
            comparing = service_of(opened)
            months, teams = comparing.by("month"), comparing.by("meta.team")
            both = comparing.compare(parse_filter("date:2026-01"), parse_filter("date:2026-02"))
        clauses = sign_clauses(both.sign_changes)
        assert "“refusal or apology” in 100% against 10%" in clauses
        assert found(both, "succeeded").significant
        assert change_sentences(months) == [
            f"2026-02 against 2026-01: characters fell from 36 to 33; {'; '.join(clauses)}."
        ]
        rates = [row.cells[6] for row in breakdown_table(months).rows]
        assert rates == ["10% [4, 21]", "100% [93, 100]"]
        assert [[change.corrected for change in part.sign_changes] for part in teams.parts] == 2 * [
            [change.corrected for change in both.sign_changes]
        ]


class TestFields:
    def test_months(self, better: Project) -> None:
        """Each month is compared with the one before, and its filter selects its conversations."""
        months = service_of(better).by("month")
        assert [(part.value, part.against) for part in months.parts] == [
            ("2026-01", ""),
            ("2026-02", "2026-01"),
        ]
        change = months.parts[1].change
        assert change is not None
        assert change.significant
        assert months.parts[0].filter == "date:2026-01"
        assert [row.cells[0] for row in breakdown_table(months).rows] == ["2026-01", "2026-02"]

    def test_weeks(self, tmp_path: Path) -> None:
        """Weeks are those of ISO 8601, also where a year begins, and a filter selects the conversations of one."""
        days = [date(2020, 12, 20) + timedelta(n) for n in range(30)]
        with Project.open(tmp_path / "weeks.wb", create=True) as project:
            fill(project, [talk(f"{day}", f"{day}", created_at=f"{day}T23:59:59Z") for day in days])
            rows = ConversationService(project)
            parts = service_of(project).by("week").parts
            assert [part.value for part in parts[1:4]] == ["2020-W52", "2020-W53", "2021-W01"]
            for part in parts:
                ids = rows.ids(ListQuery(parse_filter(part.filter)))
                names = {row.external_id for row in rows.rows(ids)}
                assert names == {f"{day}" for day in days if f"{day:%G-W%V}" == part.value}
            found = [parse_filter(text) for text in ("date>2020-W53", "until:2020-W53")]
            assert [len(rows.ids(ListQuery(one))) for one in found] == [15, 15]

    def test_one_difference_has_one_p(self, better: Project) -> None:
        """Of two values that exclude each other, both rows have the p of a comparison of their filters."""
        team, other = service_of(better).by("meta.team").parts
        sides = service_of(better).compare(parse_filter(team.filter), parse_filter(other.filter))
        assert team.change is not None
        assert other.change is not None
        completion = found(sides, "completion")
        assert team.change.corrected == other.change.corrected == completion.corrected < 0.05

    @pytest.mark.parametrize("field", ["source", "month"])
    def test_parts_are_what_their_filters_select(self, clustered: Project, field: str) -> None:
        """The filter of a part selects as many conversations as the part has, and nothing is lost."""
        found = service_of(clustered).by(field)
        rows = ConversationService(clustered)
        for part in found.parts:
            ids = rows.ids(ListQuery(parse_filter(part.filter)))
            assert len(ids) == part.rate.conversations
        assert sum(part.rate.conversations for part in found.parts) + found.without == 33


class TestScores:
    def test_a_filter_by_score(self, better: Project) -> None:
        """Conversations that were selected by their score get no rate without its errors, and it says why."""
        found = service_of(better).compare(parse_filter("p<.5"), parse_filter(""))
        assert [side.rate.why for side in found.sides] == ["the filter goes by the score"] * 2
