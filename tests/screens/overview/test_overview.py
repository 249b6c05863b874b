"""The overview: figures, what to do next, and that it follows what jobs write."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from engine.base.conversation import Conversation, Message
from engine.base.events import DataChanged, JobEnded, JobProgress
from engine.base.statistics.intervals import Interval
from engine.completeness.records import CurvePoint, DecisionRule, EndingTest
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.tables import shared_text, sources
from engine.formats.records import Parsed, Rejected
from engine.opener.key_figures import FirstReading
from engine.project import runs
from engine.project.records import RunRow
from screens.conversations.screen import ConversationsBehindScreen, ConversationsScreen
from screens.overview.facts import (
    AnswerLine,
    Overview,
    SlowFigures,
    answer_content,
    answer_lines,
    figures_of,
    load_overview,
    rate_content,
    verdicts_content,
)
from screens.overview.screen import OverviewScreen
from screens.shell.dialogs import ChoiceDialog
from screens.shell.reading_dialogs import QuarantineDialog
from screens.triage.screen import TriageScreen
from screens.widgets.controls import Choices
from tests.engine.project.support import fill, talk
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.project import ScreenProject, project, project_of
from tests.screens.samples import conversation
from workbench.app import WorkbenchApp


def found(support: ScreenProject) -> Overview:
    """What the overview reads."""
    return load_overview(support.services())


class TestFigures:
    async def test_first_screen(self) -> None:
        """The program begins with three questions, each answered on a line with its range, and what to do; how that was
        measured is a key away."""
        async with opened(project(), mode="1") as pilot:
            assert isinstance(pilot.app.screen, OverviewScreen)
            answers = [
                line for line in lines(pilot) if line[1:].lstrip().startswith(("What", "Did"))
            ]
            assert [" ".join(line.strip("│ ").split()) for line in answers] == [
                "What is here? 36 conversations",
                "What did they want? nothing is clustered yet",
                "Did it end? 55% (38% to 70%) ended · 12 broken off · 6 open · 3 not scored",
                "Did it go wrong? who failed, only verdicts say",
            ]
            assert "AUROC" not in text(pilot)
            await press(pilot, "v")
            shown = text(pilot)
            assert "55% [38, 70] ended, ≥ .50  (n 33 · 92% scored)" in shown
            assert "● 15 ended" in shown
            assert "· 3 not scored" in shown
            assert "No verdicts yet." in shown
            assert "▲ .50" in shown

    async def test_scores_at_chance_are_not_to_come(self) -> None:
        """Where a set of scores is in force that scores nothing because it is at chance, the card says that, once, and
        not that scores are to come."""
        support = project_of([conversation(number, None) for number in range(1, 37)])
        chance = "whole and cut are not told apart better than by chance, so none is scored"
        with_probe(support, Interval(0.5, 0.46, 0.54), at_chance=True)
        support.file.write(lambda conn: score_sets.replace_keeping_rule(conn, "f1"))
        async with opened(support, size=(80, 24), mode="1") as pilot:
            await press(pilot, "v")
            shown = text(pilot)
            assert "No scores yet" not in shown
            assert shown.count(chance) == 1
            assert "scores mean little" not in shown

    def test_what_was_kept_out(self) -> None:
        """Quarantined records, duplicates and hidden endings are counted in words."""
        some = found(project())
        some = replace(some, counts=replace(some.counts, quarantined=14, duplicates=212, leaks=3))
        [here, *_] = answer_lines(some, None, None, SlowFigures())
        assert here.clauses == [
            "36 conversations",
            "14 records not read (Q says why)",
            "212 duplicates left out",
            "3 endings hidden from the model",
        ]

    def test_imported_outcomes_stand_in_for_verdicts(self) -> None:
        """Without verdicts the card says what failed by the outcomes that came with the logs."""
        shown = verdicts_content(found(project()), (81, 300)).plain
        assert shown == "27% (22% to 32%) failed, by imported outcomes"

    def test_an_answer_that_does_not_fit_goes_on_below(self) -> None:
        """The first clause of an answer is wrapped, not cut, since its end may be its figure."""
        line = AnswerLine(
            "change", "What changed?", ["share of “Printer” rose from 9.0% to 27.3%", "more"]
        )
        assert answer_content(line, 50).plain.splitlines() == [
            "What changed?        share of “Printer” rose from",
            "                     9.0% to 27.3%",
        ]


async def test_what_arrives_behind_another_screen_has_its_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Conversations to read first that were read while another screen was in front have their reasons whole."""
    support, is_away = project(), threading.Event()
    reading = FirstReading(support.conversations.rows([1])[0], "the same answer 2 times")
    monkeypatch.setattr(
        "screens.overview.screen.conversations_to_read", lambda _: [reading] * is_away.wait()
    )
    app = WorkbenchApp(support.services(), support.subscribe)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        is_away.set()
        await settle(pilot)
        await press(pilot, "1")
        assert reading.reason in text(pilot)


class TestNext:
    async def test_arrows_go_through_all_lists(self) -> None:
        """Down from the last line of a list goes to the first of the next list, up leads back; no line is skipped. The
        last step asks what to write."""
        async with opened(project(), size=(80, 24), mode="1") as pilot:
            await press(pilot, "up")
            answers = pilot.app.screen.query_one("#answers", Choices)
            assert answers.has_focus
            assert answers.highlighted == answers.option_count - 1
            await press(pilot, "down")
            steps = pilot.app.screen.query_one("#next", Choices)
            assert steps.has_focus
            assert steps.highlighted == 0
            await choose(pilot, "Export scores")
            assert "what people answered" in text(pilot)

    async def test_the_report_can_be_redacted(self, tmp_path: Path) -> None:
        """`p` asks whether personal data is replaced, then for the file; what was replaced is counted."""
        support = project()
        fill(support.file, [talk("mail", "Hello?", "Thanks.")], "a.person@example.org.jsonl")
        path, said = tmp_path / "r.html", "Replaced e-mail address: 1."
        async with opened(support, size=(80, 24), mode="1") as pilot:
            await press(pilot, "p")
            assert "without e-mail addresses" in text(pilot)
            await press(pilot, "down", "enter")
            pilot.app.screen.query_one(Input).value = str(path)
            await pilot.press("enter")  # the notice may be gone when all work is over
            # its lines break where the path is long
            await until(pilot, lambda: any(said in one.message for one in pilot.app._notifications))
        written = path.read_text("utf-8")
        assert "[email 1]" in written
        assert "example.org" not in written

    async def test_records_that_were_kept_out(self) -> None:
        """`Q` shows file, line, reason and text of the records in the quarantine, and copies them."""
        support = project()

        def reject(conn: sqlite3.Connection) -> None:
            source = sources.put_source(
                conn, "logs.jsonl", "logs.jsonl", "uniform", "it looked like it"
            )
            raw = b'{"id": "x2", "messages": "\x1b[2Jno list"}'
            found = [Rejected(7, raw, "messages: not a list")]
            sources.put_rejected(conn, source, found)

        support.file.write(reject)
        async with opened(support, size=(80, 24), mode="1") as pilot:
            assert "1 record not read (Q says why)" in text(pilot)
            await press(pilot, "Q")
            assert isinstance(pilot.app.screen, QuarantineDialog)
            await until(pilot, lambda: "logs.jsonl, line 7: messages: not a list" in text(pilot))
            assert '{"id": "x2"' in text(pilot)
            await press(pilot, "y")
            assert "line 7" in pilot.app.clipboard
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, OverviewScreen)

    async def test_shared_text(self) -> None:
        """`T` shows whole what conversations share, which the overview names and lists leave out."""
        prompt = "You are the agent of a shop. Every round I will give you an observation." * 4
        support = project()
        records = [
            Parsed(n, b"{}", Conversation(f"s{n}", (Message("user", f"{prompt}\nbuy {n} lamps"),)))
            for n in range(6)
        ]
        fill(support.file, records, "agents.jsonl")
        shared = support.file.read(shared_text.find)
        support.file.write(lambda conn: shared_text.put(conn, shared))
        async with opened(support, size=(80, 24), mode="1") as pilot:
            assert "6 share a text (B shows it)" in text(pilot)
            await press(pilot, "B", "y")
            assert f"── the user, in 6 of 42\n{prompt}" in pilot.app.clipboard
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, OverviewScreen)

    async def test_folder_to_import_is_chosen_in_a_tree(self, tmp_path: Path) -> None:
        """In the import dialog down shows the folder that was typed; space takes the folder at the cursor, enter opens
        it or takes a file, backspace shows the folder above. Of a long name both ends are shown."""
        (tmp_path / "logs" / "april").mkdir(parents=True)
        (tmp_path / "logs" / "a.jsonl").write_text("{}")
        (tmp_path / "logs" / f"A-chats-{'of-the-support-desk-' * 5}north.jsonl").write_text("{}")
        support = project_of([])
        async with opened(support, mode="1") as pilot:
            await press(pilot, "i")
            field = pilot.app.screen.query_one(Input)
            field.value = str(tmp_path / "logs" / "apr")
            # not `press`, for the tree has a worker that never ends
            await pilot.press("down")
            await until(pilot, lambda: "april" in text(pilot) and "a.jsonl" in text(pilot))
            assert "A-chats-" in text(pilot)
            assert "desk-north.jsonl" in text(pilot)
            await pilot.press("down", "space")
            await until(pilot, lambda: field.value == str(tmp_path / "logs" / "april"))
            await pilot.press("down", "backspace")
            await until(pilot, lambda: "a.jsonl" in text(pilot))
            await pilot.press("end", "enter")
            await until(pilot, lambda: field.value == str(tmp_path / "logs" / "a.jsonl"))

    async def test_interrupted_import_is_resumed_with_its_paths(self) -> None:
        """Enter on an interrupted run starts it again with what it was started with."""
        support = project()
        params = {"paths": ["/a.jsonl"], "format": "openai"}
        support.jobs.left = [
            RunRow(3, "import", "interrupted", "h", params, {}, "t", None, 5, 9, None)
        ]
        async with opened(support, mode="1") as pilot:
            assert "Resume import, interrupted at 5 of 9" in text(pilot)
            await press(pilot, "enter")
            assert support.jobs.started == [["/a.jsonl", "openai"]]

    async def test_interrupted_scoring_opens_its_form(self) -> None:
        """Nothing starts before a person sees with which model and which conversations."""
        support = project()
        support.jobs.left = [
            RunRow(3, "complete", "interrupted", "h", {"mode": "base"}, {}, "t", None, 5, 9, None)
        ]
        async with opened(support, mode="1") as pilot:
            await press(pilot, "enter")
            assert "Score conversations" in text(pilot)
            assert not support.jobs.started


class TestLive:
    async def test_follows_what_a_job_writes(self) -> None:
        """New scores are counted while the job runs, and the step that scores is gone meanwhile."""
        support = project()
        async with opened(support, mode="1") as pilot:
            await press(pilot, "v")
            support.emit(JobProgress(7, "complete", "Scoring", 1, 9, "c", None, None, ""))
            support.rescore(3, 0.99)
            support.emit(DataChanged(frozenset({"score"})))
            await until(pilot, lambda: "● 16 ended" in text(pilot))
            await press(pilot, "v")
            assert "Score 812" not in text(pilot)

            support.emit(JobEnded(7, "complete", "Scoring", "done", "Done."))
            await until(pilot, lambda: "Score 812" in text(pilot))

    async def test_catches_up_when_it_comes_to_the_front(self) -> None:
        """What changed while another mode was in front is shown on return."""
        support = project()
        async with opened(support, mode="2") as pilot:
            support.rescore(3, 0.99)
            support.emit(DataChanged(frozenset({"score"})))
            await press(pilot, "1", "v")
            await until(pilot, lambda: "● 16 ended" in text(pilot))


async def choose(pilot: Pilot[None], title: str) -> None:
    """Goes to the step whose title begins so, by keys, and presses enter."""
    choices = pilot.app.screen.query_one("#next", Choices)

    def titles() -> list[str]:
        return [str(option.prompt)[2:] for option in choices.options]

    await until(pilot, lambda: any(found.startswith(title) for found in titles()))
    choices.focus()
    await press(pilot, "home")
    at = next(nth for nth, found in enumerate(titles()) if found.startswith(title))
    await press(pilot, *["down"] * at, "enter")


def with_probe(
    support: ScreenProject, auroc: Interval, position: float = 0.6, *, at_chance: bool = False
) -> None:
    """Stores the scores of a probe beside those of the project, with this result of its test; at chance no
    conversation has a score."""

    def work(conn: sqlite3.Connection) -> None:
        run = runs.create(conn, stage="fit", config_hash="f1", params={}, fingerprints={})
        test = EndingTest(36, auroc, 0.9, 0.84, position, None, 0)
        score_sets.register(conn, ScoreConfig("f1", "probe", "smollm2-135m (bf16)", test=test))
        entries = [
            ScoreEntry(key, (), "at chance", 10)
            if at_chance
            else ScoreEntry(key, (CurvePoint(1, 2, 1, 0.9, 0.1),), None, 10)
            for key in range(1, 37)
        ]
        scores.add_scores(conn, "f1", run, entries)
        score_sets.put_in_force_if_due(conn, "f1")

    support.file.write(work)


class TestSets:
    async def test_the_set_in_force_is_named(self) -> None:
        """The card names mode and model of the scores that are shown, says that they are not tested and what would
        help; on the smallest terminal in one line. Before a run the form begins with the mode in force, and says that
        another one stores beside it."""
        async with opened(project(), size=(200, 60), mode="1") as pilot:
            await press(pilot, "v")
            for size in ((200, 60), (120, 36), (80, 24)):
                await pilot.resize_terminal(*size)
                await settle(pilot)
                shown = text(pilot)
                assert "base · SmolLM2-135M-Instruct" in shown
                assert "not tested on these conversations" in shown
                assert ("`run complete --mode probe`" in shown) is (size[0] > 80)

            await press(pilot, "r")
            await until(pilot, lambda: "in force: base · SmolLM2-135M-Instruct" in text(pilot))
            shown = text(pilot)
            assert "stored beside them" in shown
            assert "often near chance" in shown

    async def test_another_set_is_chosen_and_gone_back_to(self) -> None:
        """A set stored beside changes nothing; `S` chooses it with its own threshold, `S` again goes back."""
        support = project()
        support.calibration.use(DecisionRule(0.7, source="calibrated"))
        with_probe(support, Interval(0.98, 0.96, 0.99))
        async with opened(support, size=(120, 36), mode="1") as pilot:
            assert "Choose the scores of set 2, which are tested" in text(pilot)
            await press(pilot, "v")
            await until(pilot, lambda: "1 more" in text(pilot))
            assert "▲ .70" in text(pilot)
            await press(pilot, "S", "down", "enter")
            await until(pilot, lambda: "probe · smollm2-135m (bf16)" in text(pilot))
            shown = " ".join(text(pilot).split())
            assert "whole against cut: AUROC .98 (.96 to .99), 36 conversations" in shown
            assert "100% [90, 100]" in shown
            assert "▲ .50" in shown
            await press(pilot, "S", "up", "enter")
            await until(pilot, lambda: "base · SmolLM2-135M-Instruct" in text(pilot))
            assert "▲ .70" in text(pilot)
        assert support.jobs.started == []

    async def test_scores_that_mean_little(self) -> None:
        """Where a simple rule does as well, the card says so and what would help, and the rate is dim."""
        support = project()
        assert rate_content(found(support)).spans[0].style == "bold $tone-complete"
        with_probe(support, Interval(0.9, 0.86, 0.94), 0.95)
        support.score_sets.use("f1")
        assert rate_content(found(support)).spans[0].style == "$tone-muted"
        async with opened(support, size=(200, 50), mode="1") as pilot:
            assert "the scores mean little" in text(pilot)
            await press(pilot, "v")
            assert "these scores mean little" in text(pilot)
            assert "position alone tells whole from cut as well" in text(pilot)
            assert "what would help: more conversations" in text(pilot)


class TestCards:
    async def test_a_figure_leads_to_its_conversations_and_they_to_triage(self) -> None:
        """A click on the rate lists its figures; enter opens the conversations behind one, `J` triage of just these,
        and escape goes back each time. What the list showed before is kept."""
        support = project()
        async with opened(support, mode="1") as pilot:
            await press(pilot, "v")
            await pilot.click("#rate-text")
            await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceDialog))
            await until(pilot, lambda: "broken off" in text(pilot))
            await press(pilot, "down", "enter")
            behind = pilot.app.screen
            assert isinstance(behind, ConversationsBehindScreen)
            wanted = support.conversations.ids(ListQuery(parse_filter("state:broken-off")))
            await until(pilot, lambda: list(behind.table.ids) == list(wanted))
            await press(pilot, "J")
            triage = pilot.app.screen
            assert isinstance(triage, TriageScreen)
            await until(pilot, lambda: triage.queue.total > 0)
            only = triage.only
            assert only is not None
            assert only.ids == tuple(wanted)
            await press(pilot, "escape")
            await until(pilot, lambda: pilot.app.screen is behind)
            assert triage.only is None
            await press(pilot, "escape")
            overview = pilot.app.screen
            assert isinstance(overview, OverviewScreen)
            await press(pilot, "2")
            listed = pilot.app.screen
            assert isinstance(listed, ConversationsScreen)
            assert listed.query_shown == ListQuery()

    async def test_every_count_of_a_figure_is_what_it_opens(self) -> None:
        """The filter behind each figure of each card matches as many conversations as the card says."""
        support = project()
        services = support.services()
        found = load_overview(services)
        figures = [
            figure
            for card in ("project", "rate", "verdicts")
            for figure in figures_of(services, card, found)
        ]
        assert len(figures) > 20
        for figure in figures:
            if figure.count is not None:
                ids = support.conversations.ids(ListQuery(figure.filter))
                assert (figure.label, len(ids)) == (figure.label, figure.count)
