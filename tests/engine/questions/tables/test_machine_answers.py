"""What patterns, models and files answer, as lists and filters see it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.tables import selecting
from engine.project import runs
from engine.project.project import Project
from engine.questions.question import parse_question
from engine.questions.records import Answerer, MachineAnswer
from engine.questions.service.calibration import CalibrationService
from engine.questions.tables import machine_answers
from engine.questions.tables.triage_queue import queue
from engine.results.comparison.answer_rates import answer_rates, rates_json
from tests.engine.project.support import fill, talk


def answered(path: Path, name: str, *answers: MachineAnswer, question: str = "refused") -> Project:
    """Returns a project of three conversations on which a model of this name answers a question."""
    project = Project.open(path / "p.wb", create=True)
    fill(project, [talk(f"c{number}", f"Lamp {number}?", "Sure.") for number in range(1, 4)])

    def store(conn: sqlite3.Connection) -> None:
        run = runs.create(conn, stage="ask", config_hash="c", params={}, fingerprints={})
        machine_answers.put(conn, Answerer("c", question, "model", name), run, answers)

    project.write(store)
    return project


def test_equal_probabilities_in_id_order(tmp_path: Path) -> None:
    """The least probable answer comes first, with what it says; of equally probable ones, as votes have them, the
    earlier conversation."""
    sure, *tied = (
        MachineAnswer(1, "yes", 0.9),
        MachineAnswer(2, "yes", 0.5),
        MachineAnswer(3, "no", 0.5),
    )
    with answered(tmp_path, "judge", sure, *tied) as project, project.reading() as conn:
        items = queue(conn, "doubtful", question="refused").items
    assert [item.conversation_id for item in items] == [2, 3, 1]
    assert items[0].why == "judge says yes, with probability 0.50"


def test_no_answer_has_no_share_of_the_rates(tmp_path: Path) -> None:
    """The mean of numbers leaves out conversations on which a model gave no answer, but a reason."""
    number = parse_question("stars", 'text = "How many stars?"\nkind = "number"')
    answers = MachineAnswer(1, "4"), MachineAnswer(2, None, note="The reply was cut off.")
    with (
        answered(tmp_path, "judge", *answers, question="stars") as project,
        project.reading() as conn,
    ):
        (row,) = answer_rates(conn, number, {"all": [1, 2, 3]}, "").rows
    assert row.cells[1:4] == ("judge", 1, 4.0)


def test_namesakes_that_answer_stay_apart(tmp_path: Path) -> None:
    """A model and a file of one name have a row each, and what they answer differently waits in triage."""
    question = parse_question(
        "tone",
        'text = "Which tone?"\nkind = "choice"\n[labels]\nmean = "Harsh."\nkind = "Friendly."',
    )
    first, second = MachineAnswer(1, "mean"), MachineAnswer(1, "kind")
    with answered(tmp_path, "judge", first, question="tone") as project:

        def store(conn: sqlite3.Connection) -> None:
            run = runs.create(conn, stage="import", config_hash="f", params={}, fingerprints={})
            machine_answers.put(conn, Answerer("f", "tone", "file", "judge"), run, [second])

        project.write(store)
        with project.reading() as conn:
            rates = rates_json(answer_rates(conn, question, {"all": [1]}, ""), question)
            items = queue(conn, "answerers", question="tone").items
        agreement = CalibrationService(project).people("tone")
    assert [rate["by"] for rate in rates] == ["judge (file)", "judge (model)"]
    assert [share["answer"] for share in rates[0]["shares"]] == ["mean", "kind"]
    assert [share["value"] for share in rates[0]["shares"]] == [0, 1]
    assert rates[0]["mean"] is None
    assert [item.why for item in items] == ["judge says kind; judge says mean"]
    assert agreement.people == {"judge (model)": 1, "judge (file)": 1}


def test_a_long_name_can_be_filtered_by(tmp_path: Path) -> None:
    """Filters by who answered know a name that is too long for a question."""
    name = "Some organization/" + "a-very-" * 10 + "long-model"
    written = "some-organization-" + "a-very-" * 10 + "long-model"
    with answered(tmp_path, name, MachineAnswer(2, "yes")) as project, project.reading() as conn:
        query = ListQuery(parse_filter(f"refused@{written}:yes"))
        assert list(selecting.ids(conn, query)) == [2]
