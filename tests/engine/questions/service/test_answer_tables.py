"""Answers of a file to one question, and nothing in the file is lost without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.errors import FormatError, NotFound, UsageError
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.question import parse_question, read_built_in
from engine.questions.service.answer_tables import import_field_answers, import_file_answers
from engine.questions.service.questions import QuestionService
from tests.command_line import result
from tests.engine.project.support import fill, talk
from workbench.cli import main

COUNT = 6
GOOD = read_built_in()["succeeded"]


@pytest.fixture
def project(project: Project) -> Project:
    fill(
        project, [talk(f"c{number}", f"Lamp {number}, please.", "Here.") for number in range(COUNT)]
    )
    return project


def values(project: Project, question: str) -> dict[str, tuple[str, str, str]]:
    rows = QuestionService(project).answers(question, ListQuery())
    return {row.conversation: (row.value, row.by, row.explanation) for row in rows}


def matching(project: Project, text: str) -> list[int]:
    return list(ConversationService(project).ids(ListQuery(parse_filter(text))))


def test_stars(project: Project, tmp_path: Path) -> None:
    """Ratings answer a question for a number; every line that is not taken is counted with its reason."""
    stars = parse_question("stars", 'text = "How many stars?"\nkind = "number"')
    file = tmp_path / "rated.csv"
    text = "conversation,stars,explanation\nc0,1,slow\nc1,5,\nc2,2,\nc2,4,\nc3,,\nc4,six,\nelsewhere,3,\n"
    file.write_text(text, "utf-8")
    import_file_answers(project, file, stars, dry_run=True)
    assert values(project, "stars") == {}
    report = import_file_answers(project, file, stars)
    assert report.outcomes.counts == {
        "taken": 3, "repeated": 1, "empty": 1, "not_understood": 1, "unknown": 1,
    }  # fmt: skip
    assert (report.without, report.outcomes.has_gaps) == (COUNT - 3, True)
    assert values(project, "stars")["c0"] == ("1", "rated", "slow")
    assert matching(project, "stars>1") == [2, 3]
    assert matching(project, "stars@rated:5") == [2]


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "c0", "label": "complete"}\n{"id": "c1", "label": "failed"}',
        '[{"id": "c0", "passed": true}, {"id": "c1", "passed": false}]',
        "id,score\r\nc0,.7\r\nc1,0\r\n",
        "id,value\r\nc0,Yes\r\nc1,no\r\n",
    ],
)
def test_words_and_forms(project: Project, tmp_path: Path, text: str) -> None:
    """JSON Lines, JSON and CSV are read; words, truth values and probabilities answer yes-no questions."""
    file = tmp_path / "judge.txt"
    file.write_text(text, "utf-8")
    assert import_file_answers(project, file, GOOD).outcomes.counts == {"taken": 2}
    assert matching(project, "succeeded@judge:yes") == [1]
    assert matching(project, "succeeded@file:no") == [2]
    assert matching(project, "succeeded:yes") == []  # a verdict is a person's


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_explanation_of_several_lines(project: Project, tmp_path: Path, form: str) -> None:
    """A long explanation is kept as it is, with line feeds and separators of Unicode."""
    file, explanation = tmp_path / "judge", "slow\nand\u2028late\x85too" + 2**18 * "."
    line = {"id": "c0", "value": "no", "explanation": explanation}
    jsonl = 2 * (json.dumps(line, ensure_ascii=False) + "\n")
    text = f'id,value,explanation\nc0,no,"{explanation}"\n' if form == "csv" else jsonl
    file.write_text(text, "utf-8")
    import_file_answers(project, file, GOOD)
    assert values(project, "succeeded")["c0"] == ("no", "judge", explanation)


def test_a_name_answers_once(project: Project, tmp_path: Path) -> None:
    """The same name is replaced only when asked to; another one stands beside it."""
    file = tmp_path / "judge.json"
    file.write_text(json.dumps([{"id": "c0", "value": "yes"}]), "utf-8")
    import_file_answers(project, file, GOOD)
    with pytest.raises(UsageError, match="'judge' has answered"):
        import_file_answers(project, file, GOOD)
    file.write_text(json.dumps([{"id": "c1", "value": "yes"}]), "utf-8")
    import_file_answers(project, file, GOOD, name="second")
    import_file_answers(project, file, GOOD, replace=True)
    assert (
        matching(project, "succeeded@judge:yes") == matching(project, "succeeded@second:yes") == [2]
    )


def test_a_check_ends_with_the_answers_that_it_checked(project: Project, tmp_path: Path) -> None:
    """Answers in place of others, though as many, are not reported with the check of the others."""
    file, question = tmp_path / "judge.csv", read_built_in()["refused"]
    file.write_text("id,answer\nc0,yes\nc1,no\n")
    import_file_answers(project, file, question)
    service = QuestionService(project)
    service.draw_check("refused")
    assert [check.drawn for check in service.checks("refused")] == [2]
    file.write_text("id,answer\nc0,no\nc1,yes\n")
    import_file_answers(project, file, question, replace=True)
    assert service.checks("refused") == []


def test_what_came_with_the_conversations(tmp_path: Path) -> None:
    """A field of truth or metadata answers; lists of messages are joined by the kind of the question, and cite the
    messages; what cannot be an answer is counted, and a field that no conversation has is refused."""
    truths: list[dict[str, object]] = [
        {"rating": {"Detail Level": 2}, "made_up": [False, True], "marks": [4, None, 5]},
        {"rating": {"Detail Level": 7}, "made_up": [None, False]},
        {"made_up": [None, None]},
    ]
    marks = parse_question("marks", 'text = "How good?"\nkind = "number"')
    with Project.open(tmp_path / "t.wb", create=True) as project:
        records = [
            talk(f"c{n}", f"Lamp {n}?", "Ulm.", "And?", "Bonn.", truth=truth, meta={"stars": n})
            for n, truth in enumerate(truths)
        ]
        fill(project, records)
        detail, fact = read_built_in()["detail-level"], read_built_in()["invented-a-fact"]
        report = import_field_answers(project, "truth.rating.Detail Level", detail)
        assert report.outcomes.counts == {"taken": 1, "not_understood": 1}
        assert (report.without, report.name) == (2, "truth")
        assert matching(project, "detail-level@truth:2") == [1]
        import_field_answers(project, "truth.made_up", fact, dry_run=True)
        assert values(project, fact.name) == {}
        import_field_answers(project, "truth.made_up", fact)
        rows = QuestionService(project).answers(fact.name, ListQuery())
        assert [(row.value, row.cites) for row in rows] == [("yes", (3,)), ("no", (3,))]
        import_field_answers(project, "truth.marks", marks)
        import_field_answers(project, "meta.stars", marks, name="stars")
        assert matching(project, "marks@stars>0") == [2, 3]
        assert matching(project, "marks@truth:4.5") == [1]
        with pytest.raises(NotFound, match=r"truth\.nothing") as unknown:
            import_field_answers(project, "truth.nothing", fact)
        assert "truth.rating.Detail Level" in unknown.value.hint


@pytest.mark.parametrize(
    "text", ["", "[1, 2", '[{"id": "c0"}]', "name,score\nc0,1\n", "\x80", "9" * 5_000]
)
def test_files_without_answers(project: Project, tmp_path: Path, text: str) -> None:
    """A file without ids or answers is refused, and nothing changes."""
    file = tmp_path / "x.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError):
        import_file_answers(project, file, GOOD)
    assert values(project, "succeeded") == {}


def test_command(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`answers --import` says what it took and exits with 3 where something was not."""
    file = tmp_path / "judge.json"
    file.write_text(
        json.dumps([{"id": "c0", "mark": "yes"}, {"id": "other", "mark": "no"}]), "utf-8"
    )
    path = str(project.path)
    project.close()
    words = ["answers", path, "succeeded", "--import", str(file)]
    assert main([*words, "--dry-run"]) == 1
    assert "Name one with --value. Fields of the file: id, mark." in capsys.readouterr().err
    assert main([*words, "--value", "mark", "--dry-run"]) == 3
    assert "Nothing is stored" in capsys.readouterr().out
    assert result(*words, "--value", "mark", "--name", "my judge", code=3)["name"] == "my judge"
    assert main([*words, "--value", "mark", "--name", "my judge", "--replace"]) == 3
    sides = "--a succeeded@my-judge:no --b succeeded@my-judge:yes"
    assert f"workbench why {path} {sides}" in capsys.readouterr().out
    assert main(["why", path, "--question", "succeeded"]) == 2
    assert sides in capsys.readouterr().err
