"""Answers of Label Studio become verdicts, and nothing that was said here is lost by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from engine.base.conversation import SUCCEEDED, Verdict
from engine.base.errors import FormatError, UsageError
from engine.opener.conversation_forms import labeling_config
from engine.opener.exports import ExportFiles, answer_line
from engine.project.project import Project
from engine.questions.question import YES, parse_question, read_built_in
from engine.questions.records import NewAnswer
from engine.questions.service.answers import AnswerReport, import_answers
from engine.questions.service.triage import TriageService
from engine.questions.tables import answers, opinions
from tests.engine.project.support import fill, talk


@pytest.fixture
def project(project: Project) -> Project:
    fill(project, [talk(f"c{number}", f"Lamp {number}, please.") for number in range(8)])
    return project


def tasks(project: Project, tmp_path: Path, form: Any) -> list[dict[str, Any]]:
    """The exported tasks, by the ids of their conversations."""
    path = tmp_path / f"{form}.json"
    _, files, _ = ExportFiles(project).export_form(form, None, str(path))
    assert all(file.is_file() for file in files)
    found = json.loads(path.read_text("utf-8"))
    assert isinstance(found, list)
    return found


def labeled(task: dict[str, Any], *answers: tuple[str, str, Any]) -> dict[str, Any]:
    """A task of Label Studio as it exports it after these answers: verdict, note, person."""
    return {
        "id": 1,
        **task,
        "annotations": [
            {
                "completed_by": person,
                "was_cancelled": False,
                "result": [
                    {"from_name": "succeeded", "type": "choices", "value": {"choices": [verdict]}},
                    {"from_name": "note", "type": "textarea", "value": {"text": [note]}},
                ],
            }
            for verdict, note, person in answers
        ],
    }


def imported(project: Project, tmp_path: Path, tasks: Any, **options: Any) -> AnswerReport:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(tasks), encoding="utf-8")
    return import_answers(project, file, **options)


def test_lines_that_name_a_person(project: Project, tmp_path: Path) -> None:
    """Lines with an id, an answer and a name, or imported under one, are verdicts of people, of whom most decide; those
    without any name are no person's."""
    lines = [{"id": "c1", "answer": "failed", "annotator": name, "note": "loop"} for name in "ab"]
    lines += [{"id": "c1", "answer": "yes", "annotator": "z"}, {"id": "c2", "answer": "yes"}]
    question = read_built_in()[SUCCEEDED]
    report = imported(project, tmp_path, lines, question=question, annotator="ann")
    assert report.annotators == {"a": 1, "b": 1, "z": 1, "ann": 1}
    assert stands(project) == {2: (Verdict.NO, "a: loop; b: loop"), 3: (Verdict.YES, "")}
    with pytest.raises(FormatError, match="does not say who"):
        imported(project, tmp_path, lines[3:], question=question)
    with pytest.raises(UsageError, match="1 of 4"):
        imported(project, tmp_path, lines, question=question)


def stands(project: Project) -> dict[int, tuple[Verdict | None, str]]:
    with project.reading() as conn:
        found = ((key, answers.current(conn, key)) for key in range(1, 9))
        return {
            key: (one.verdict, one.note) for key, one in found if one and (one.verdict or one.note)
        }


def test_label_studio(project: Project, tmp_path: Path) -> None:
    """Every answer is given, or counted with the reason why not; undo takes the whole import back."""
    found = tasks(project, tmp_path, "label-studio")
    for key in (2, 3):
        TriageService(project).give(key, Verdict.YES)
    before = stands(project)
    unknown = {"data": {**found[5]["data"], "key": "a" * 16, "conversation": "elsewhere"}}
    changed = {"data": {**found[6]["data"], "key": "a" * 16}}
    answered = [
        labeled(found[0], ("no", "no\nrefund", {"id": 4, "email": "ann@example.org"})),
        labeled(found[1], ("no", "", 7)),
        labeled(found[2], ("yes", "", 7)),
        labeled(found[3], ("yes", "", 7), ("no", "", 8)),
        labeled(found[4]),
        labeled(unknown, ("yes", "", 7)),
        labeled(changed, ("yes", "", 7)),
        labeled(found[7], ("maybe", "", 7)),
    ]
    dry = imported(project, tmp_path, answered, dry_run=True)
    assert stands(project) == before

    report = imported(project, tmp_path, answered)
    assert report.as_json() == dry.as_json()
    assert report.outcomes.counts == {
        "given": 1, "conflicts": 1, "same": 1, "disagreements": 1, "unanswered": 1, "unknown": 1, "changed": 1,
        "not_understood": 1,
    }  # fmt: skip
    assert report.annotators == {"7": 6, "ann@example.org": 1, "8": 1}
    assert stands(project) == {**before, 1: (Verdict.NO, "no refund")}

    assert imported(project, tmp_path, answered, replace=True).outcomes.counts["replaced"] == 1
    assert stands(project)[2] == (Verdict.NO, "")
    assert (project.read(answers.current, 2) or missing()).annotator == "7"
    project.write(answers.undo)
    assert stands(project)[2] == (Verdict.YES, "")
    project.write(answers.undo)
    assert stands(project) == before


def test_questions_of_all_kinds(project: Project, tmp_path: Path) -> None:
    """People answer any question, one or several answers or a text; what a question cannot have is counted."""
    asked = [read_built_in()[name] for name in ("detail-level", "intent", "refused")]
    asked.append(parse_question("city", 'text = "Which city?"\nkind = "text"'))
    interface = labeling_config(asked)
    assert '<Choices name="intent" toName="dialogue" choice="multiple"' in interface
    assert '<Choice value="Search &amp; Recommendation"/>' in interface
    assert '<TextArea name="city"' in interface
    assert 'name="succeeded"' not in interface

    found = tasks(project, tmp_path, "label-studio")
    said = (
        ("detail-level", "choices", ["2"]),
        ("intent", "choices", ["Search", "Planning"]),
        ("refused", "choices", ["often"]),
        ("city", "text", ["Ulm"]),
    )
    results = [{"from_name": name, "value": {kind: value}} for name, kind, value in said]
    annotations = [{"completed_by": 7, "result": results}]
    report = imported(project, tmp_path, [{**found[0], "annotations": annotations}])
    assert (report.others, report.outcomes.counts) == (3, {"not_understood": 1})
    assert (project.read(answers.current, 1) or missing()).answers == (
        ("city", "Ulm"),
        ("detail-level", "2"),
        ("intent", "Planning,Search"),
    )


def said(project: Project) -> list[dict[str, Any]]:
    """All that was said in a project, as `export answers` writes it, without the times."""
    with project.reading() as conn:
        lines = map(answer_line, opinions.answered_conversations(conn))
        return [{**line, "given_at": None} for line in lines]


def test_people(project: Project, tmp_path: Path) -> None:
    """Each person's verdict is kept; the one of most people comes into force, and none where as many differ."""
    tasks = [
        {"key": None, "conversation": f"c{number}", "succeeded": verdict, "annotator": name}
        for number, verdict, name in (
            (0, "yes", "ann"), (0, "no", "bob"),
            (1, "yes", "ann"), (1, "no", "bob"), (1, "no", "cy"),
            (2, "unsure", ""), (2, "unsure", "bob"),
        )
    ]  # fmt: skip
    report = imported(project, tmp_path, tasks, annotator="dee")
    assert report.outcomes.counts == {"given": 2, "disagreements": 1}
    assert report.annotators == {"bob": 3, "ann": 2, "cy": 1, "dee": 1}
    found = {line["id"]: line for line in said(project)}
    assert (found["c0"]["succeeded"], len(found["c0"]["others"])) == (None, 2)
    assert (found["c1"]["succeeded"], found["c1"]["annotator"]) == ("no", "bob")
    assert found["c1"]["others"] == [
        {"annotator": "ann", "succeeded": "yes"},
        {"annotator": "cy", "succeeded": "no"},
    ]
    assert (found["c2"]["annotator"], found["c2"]["disagreement"]) == ("dee", False)
    assert project.read(opinions.disagreements) == [1]
    imported(project, tmp_path, [{**tasks[0], "annotator": "cy"}])
    with project.reading() as conn:
        assert opinions.disagreements(conn) == []
        assert (answers.current(conn, 1) or missing()).verdict is Verdict.YES
    for name in ("dee", "eve"):
        imported(project, tmp_path, [{**tasks[1], "annotator": name}])
    assert project.read(opinions.disagreements) == [1]
    act = NewAnswer(1, SUCCEEDED, Verdict.NO, "ann")
    project.write(lambda conn: answers.append(conn, [act]))
    assert project.read(opinions.disagreements) == []


def test_round_trip(project: Project, tmp_path: Path) -> None:
    """What `export answers` writes, imported into an empty project, is exported again as it was."""
    other = Project.open(tmp_path / "other.wb", create=True)
    fill(other, [talk(f"c{number}", f"Lamp {number}, please.") for number in range(8)])
    triage = TriageService(other)
    triage.annotator = "ann"
    for key in range(1, 6):
        triage.give(key, Verdict.YES, "why" if key == 2 else "")
    triage.repeat(1, Verdict.UNSURE)
    triage.annotator = "bob"
    for key in (2, 3, 4):
        triage.repeat(key, Verdict.NO if key < 4 else Verdict.YES)
    triage.give(3, Verdict.NO, "decided")
    triage.repeat(6, Verdict.YES)
    triage.answer([NewAnswer(key, "late", YES) for key in (5, 6, 7)])
    triage.annotator = "ann"
    triage.repeat(6, Verdict.UNSURE)
    triage.note(8, "only a note")
    file = tmp_path / "answers.jsonl"
    ExportFiles(other).export("answers", None, str(file))
    import_answers(project, file)
    expected = said(other)
    other.close()
    assert said(project) == expected
    assert import_answers(project, file).outcomes.counts["given"] == 0
    assert said(project) == expected


def missing() -> NoReturn:
    raise AssertionError("nothing was said")


@pytest.mark.parametrize("text", ["", "no JSON", '[{"messages": []}]', '{"succeeded": "yes"}'])
def test_other_files(project: Project, tmp_path: Path, text: str) -> None:
    """A file without answers is refused, and nothing changes."""
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError):
        import_answers(project, file)
    assert stands(project) == {}
