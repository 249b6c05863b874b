"""Teaching on a project file: success by verdicts, tags by tagging; in the background, and by the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.conversation import SUCCEEDED, Verdict
from engine.base.events import DataChanged, Event
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.key_figures import MAX_TO_READ, conversations_to_read
from engine.opener.open_project import OpenProject
from engine.opener.table_export import table_lines
from engine.project.project import Project
from engine.questions.question import YES
from engine.questions.records import MIN_EXAMPLES_OF_EACH, NewAnswer, TriagePlace
from engine.questions.tables import example_probes
from engine.results.associations.formatting import notes
from tests.command_line import result
from tests.engine.project.support import fill, give_scores, give_states, talk
from workbench.cli import main

COUNT = 80


def succeeded(number: int) -> bool:
    """Whether a conversation succeeded, by its id: every other one."""
    return number % 2 == 0


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Eighty conversations with hidden states that tell success by half of their dimensions, and one without states."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(
            project,
            [talk(f"c{n}", f"hello {n} {n * 7} {n * 13}", f"so {n}") for n in range(1, COUNT + 2)],
        )
        give_scores(project, dict.fromkeys(range(1, COUNT + 1), 0.5))
        give_states(project, {n: succeeded(n) for n in range(1, COUNT + 1)})
    return str(tmp_path / "p.wb")


@pytest.fixture
def workspace(path: str) -> Iterator[OpenProject]:
    """The project, opened."""
    with OpenProject(Path(path)) as workspace:
        yield workspace


def judge(workspace: OpenProject, count: int) -> None:
    """Gives right verdicts to what the order of triage asks first, one after the other."""
    for _ in range(count):
        workspace.example_probes.prepare()
        key = workspace.triage.queue("informative").items[0].conversation_id
        workspace.triage.give(key, Verdict.YES if succeeded(key) else Verdict.NO)
        workspace.example_probes.wait()


def matching(workspace: OpenProject, text: str) -> list[int]:
    """Ids that a filter matches."""
    return list(workspace.conversations.ids(ListQuery(parse_filter(text))))


class TestSuccess:
    def test_a_share_of_all(self, workspace: OpenProject) -> None:
        """Verdicts that a person chose tell no share of all conversations; so many as are drawn at random do, and the
        report of the verdicts has the same one."""
        for item in workspace.triage.queue("lowest").items[:12]:
            workspace.triage.give(item.conversation_id, Verdict.NO)
        for item in workspace.triage.queue("sample").items[:20]:
            key = item.conversation_id
            workspace.triage.give(key, Verdict.YES if succeeded(key) else Verdict.NO)
        found = workspace.example_probes.fit(SUCCEEDED)
        assert found.test is not None
        assert found.test.rate.corrected is not None
        assert found.test.rate.corrected.low < 0.5 < found.test.rate.corrected.high
        rate = workspace.calibration.report().rate
        assert rate.corrected == found.test.rate.corrected
        assert "by 2" in rate.corrected_text
        contradicted = replace(found, test=replace(found.test, above=0))
        assert "not told: it would be 0%" in dict(contradicted.facts())["predicted yes"]
        for _ in range(15):
            workspace.triage.undo()
        facts = dict(workspace.example_probes.fit(SUCCEEDED).facts())
        assert workspace.calibration.report().rate.corrected is None
        assert "not told" in facts["predicted yes"]

    def test_verdicts_teach_it_while_they_are_given(self, workspace: OpenProject) -> None:
        """From enough verdicts of both kinds there is a probability of success for every conversation, tested out of
        fold; the completeness scores stay as they were, and screens are told."""
        told: list[Event] = []
        workspace.subscribe(told.append)
        judge(workspace, 25)
        found = workspace.example_probes.in_force()
        assert found is not None
        assert found.test is not None
        assert min(found.test.positive, found.test.negative) >= MIN_EXAMPLES_OF_EACH
        assert found.test.auroc.value > 0.8
        assert found.test.rate.corrected is None
        rows = workspace.conversations.rows(list(range(1, COUNT + 2)))
        right = [(row.success or 0) > 0.5 for row in rows[:-1]]
        assert sum(a == succeeded(n) for n, a in enumerate(right, start=1)) > 0.9 * COUNT
        assert rows[-1].success is not None
        assert {row.p_end_normalised for row in rows[:-1]} == {0.5}
        assert DataChanged(frozenset({"example probes"})) in told

    def test_its_check_goes_on_when_it_is_fitted_anew(self, workspace: OpenProject) -> None:
        """What was drawn to check the probe counts to the end, though the verdicts on it fit the probe anew."""
        judge(workspace, 25)
        workspace.questions.draw_check(SUCCEEDED)
        for item in workspace.triage.queue("check").items:
            key = item.conversation_id
            is_yes = succeeded(key) and key % 3 > 0  # some verdicts surprise it
            workspace.triage.give(key, Verdict.YES if is_yes else Verdict.NO)
            workspace.example_probes.wait()
        (check,) = workspace.questions.checks(SUCCEEDED)
        assert check.answered == check.drawn == 20

    def test_at_chance_nothing_shows_it(self, workspace: OpenProject) -> None:
        """Where the interval of the AUROC includes .5, no row, filter, table or reason in triage has a probability;
        with verdicts that tell the two apart all have."""
        for key in range(1, 31):
            workspace.triage.give(key, Verdict.YES if key % 4 < 2 else Verdict.NO)
        workspace.example_probes.wait()
        workspace.example_probes.fit(SUCCEEDED)
        found = workspace.example_probes.in_force()
        assert found is not None
        assert found.test is not None
        assert found.test.enough
        assert not found.tells
        assert {row.success for row in workspace.conversations.rows(range(1, COUNT + 2))} == {None}
        assert matching(workspace, "success>=0") == []
        with workspace.project.reading() as conn:
            found_rows = list(table_lines(conn, None))
        assert {row["p_succeeded"] for row in found_rows} == {None}
        assert not [name for row in found_rows for name in row if name == "success"]
        queue = workspace.triage.queue("informative")
        assert not [item for item in queue.items if "%" in item.why]

        for key in range(1, 61):
            right = Verdict.YES if succeeded(key) else Verdict.NO
            workspace.triage.give(key, right)
        workspace.example_probes.fit(SUCCEEDED)
        assert matching(workspace, "success>=.5")
        assert "likely to have succeeded" in workspace.triage.queue("informative").items[0].why

    def test_what_goes_with_probable_failure(self, workspace: OpenProject) -> None:
        """Where too few verdicts of a kind are known, but verdicts tell failures, `why` takes what probably failed."""
        judge(workspace, 16)
        split = workspace.associations.split()
        assert (str(split.first), split.outcome) == ("success<0.4", "probable failure")
        found = workspace.associations.associations(split)
        assert "predicted from your verdicts" in " ".join(notes(found))

    def test_triage_and_what_to_read_first_go_by_it(self, workspace: OpenProject) -> None:
        """Once verdicts tell failures, triage begins with the least likely to have succeeded, also in the place of an
        order that nobody chose, and so do the conversations to read first; before, and after undos, signs do."""
        triage = workspace.triage
        assert triage.better_order("trouble", SUCCEEDED) == "trouble"
        judge(workspace, 25)
        assert triage.start(SUCCEEDED).order == "failures"
        assert triage.better_order("trouble", SUCCEEDED) == "failures"
        page = triage.queue("failures")
        first = page.items[0]
        assert re.fullmatch(
            r"\d+% likely to have succeeded, fitted to 25 verdicts yes or no", first.why
        )
        ids = [item.conversation_id for item in page.items]
        p = [row.success or 0 for row in workspace.conversations.rows(ids)]
        assert (len(ids), p) == (COUNT + 1 - 25, sorted(p))
        readings = conversations_to_read(workspace)
        assert [reading.row.id for reading in readings] == ids[:MAX_TO_READ]
        assert "% likely to have succeeded" in readings[0].reason
        triage.keep_place(TriagePlace("sample", chosen=True))
        assert triage.place().chosen
        while triage.undo() is not None:
            pass
        workspace.example_probes.fit(SUCCEEDED)
        assert triage.better_order("failures", SUCCEEDED) == "threshold"
        assert conversations_to_read(workspace) == []
        assert {item.why for item in triage.queue("failures").items} == {"no sign of trouble"}

    def test_what_has_no_place_in_the_order_says_why(self, workspace: OpenProject) -> None:
        """Before three verdicts of each kind no reason has a probability; one whose verdict was undone says why it is
        not ranked."""
        for key in (1, 2, 3, 5, 7):
            right = Verdict.YES if succeeded(key) else Verdict.NO
            workspace.triage.give(key, right)
        workspace.example_probes.fit(SUCCEEDED)
        workspace.triage.undo()
        why = {
            item.conversation_id: item.why for item in workspace.triage.queue("informative").items
        }
        assert why[7] == "not ranked: it had an answer when the order was made"
        assert not [reason for reason in why.values() if "%" in reason]

    def test_without_states(self, tmp_path: Path) -> None:
        """Without hidden states the words of the conversations teach as well."""
        with OpenProject(tmp_path / "n.wb", create=True) as workspace:
            talks = [
                talk(f"c{n}", f"Book room {n}", "It is booked" if succeeded(n) else "None is free")
                for n in range(1, 41)
            ]
            fill(workspace.project, talks)
            for key in range(1, 21):
                right = Verdict.YES if succeeded(key) else Verdict.NO
                workspace.triage.give(key, right)
            workspace.example_probes.fit(SUCCEEDED)
            assert matching(workspace, "success>.5") == list(filter(succeeded, range(1, 41)))


class TestTag:
    def test_marks(self, workspace: OpenProject) -> None:
        """The answers yes and no to a question are its examples; what was taken away, and `unsure`, are none."""
        triage = workspace.triage
        triage.answer([NewAnswer(key, "rude", YES) for key in (3, 4)])
        triage.answer(
            [NewAnswer(5, "rude", "no"), NewAnswer(6, "rude", "unsure"), NewAnswer(4, "rude", None)]
        )
        with workspace.project.reading() as conn:
            assert example_probes.examples(conn, "rude") == {3: True, 5: False}
            assert example_probes.examples(conn, "never-used") == {}

    def test_it_proposes_and_tags_nothing(self, workspace: OpenProject) -> None:
        """`NAME@examples:yes` finds what is like those answered yes and not answered; that gives no answer."""
        workspace.triage.answer([NewAnswer(key, "good", YES) for key in (2, 4, 6, 8, 10)])
        workspace.triage.answer([NewAnswer(key, "good", "no") for key in (1, 3, 5, 7, 9)])
        workspace.example_probes.wait()
        found = matching(workspace, "good@examples:yes")
        assert len(found) > 20
        assert sum(map(succeeded, found)) > 0.9 * len(found)
        assert not set(found) & set(range(1, 11))
        assert matching(workspace, "good:yes") == [2, 4, 6, 8, 10]
        p = matching(workspace, "good@examples>=.5")
        assert set(found) <= set(p)

    def test_command(
        self, path: str, capsys: pytest.CaptureFixture[str], workspace: OpenProject
    ) -> None:
        """`ask --by examples` prints its test out of fold."""
        workspace.triage.answer([NewAnswer(key, "good", YES) for key in (2, 4)])
        workspace.triage.answer([NewAnswer(key, "good", "no") for key in (1, 3)])
        workspace.close()
        assert main(["ask", path, "good", "--by", "examples"]) == 0
        out = capsys.readouterr().out
        assert "2 yes, 2 no" in out
        assert "so this says little" in out
        assert main(["ask", path, "goood", "--by", "examples"]) == 2
        assert "There is no question “goood”" in capsys.readouterr().err


def test_the_command_for_success(
    path: str, capsys: pytest.CaptureFixture[str], workspace: OpenProject
) -> None:
    """`ask succeeded --by examples` fits to all verdicts, and says what shows the probabilities."""
    judge(workspace, 30)
    workspace.close()
    assert main(["ask", path, "succeeded", "--by", "examples"]) == 0
    assert "in force           the success column" in capsys.readouterr().out
    assert result("ask", path, "succeeded", "--by", "examples")["marks"] == 30
