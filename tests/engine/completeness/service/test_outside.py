"""Scores from a file become a set of scores, and nothing in the file is lost without a word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.conversation import State
from engine.base.errors import FormatError, UsageError
from engine.completeness.service.outside import import_scores
from engine.completeness.service.sets import ScoreSets, name_of
from engine.completeness.tables import scores
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from tests.engine.project.support import fill, give_scores, talk
from workbench.cli import main

COUNT = 6


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project.open(tmp_path / "p.wb", create=True)
    fill(
        project, [talk(f"c{number}", f"Lamp {number}, please.", "Here.") for number in range(COUNT)]
    )
    fill(project, [talk("asked", "Hello?")])
    yield project
    project.close()


def p_of(project: Project) -> dict[str, float | None]:
    with project.reading() as conn:
        return {
            named.external_id: score.p_end_normalised
            for named, score in scores.export_scores(conn)
            if score is not None and score.state is not State.UNSCORED
        }


def test_stars(project: Project, tmp_path: Path) -> None:
    """Ratings from 1 to 5 become scores from 0 to 1; every line that is not taken is counted with its reason."""
    file = tmp_path / "stars.csv"
    file.write_text(
        "conversation;stars\nc0;1\nc1;5\nc2;2\nc2;4\nc3;\nc4;six\nc5;7\nelsewhere;3\nasked;3\n",
        "utf-8",
    )
    report = import_scores(project, file, score_field="stars", ends=(1, 5), dry_run=True)
    assert p_of(project) == {}
    report = import_scores(project, file, score_field="stars", ends=(1, 5))
    assert report.outcomes == {
        "taken": 3, "repeated": 1, "empty": 1, "not_understood": 1, "outside_range": 1, "unknown": 1, "no_end": 1,
    }  # fmt: skip
    assert (report.without, report.in_force, report.has_gaps) == (COUNT + 1 - 3, True, True)
    assert p_of(project) == {"c0": 0.0, "c1": 1.0, "c2": 0.25}
    rows = ConversationService(project).rows([1, 2])
    assert [row.state for row in rows] == [State.INCOMPLETE, State.COMPLETE]


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "c0", "label": "complete"}\n{"id": "c1", "label": "failed"}',
        '[{"id": "c0", "passed": true}, {"id": "c1", "passed": false}]',
        "id,score\r\nc0,1.0\r\nc1,0\r\n",
    ],
)
def test_words_and_forms(project: Project, tmp_path: Path, text: str) -> None:
    """JSON Lines, JSON and CSV are read; words and truth values stand for the ends."""
    file = tmp_path / "judge.txt"
    file.write_text(text, "utf-8")
    assert import_scores(project, file).outcomes == {"taken": 2}
    assert p_of(project) == {"c0": 1.0, "c1": 0.0}


def test_beside_other_scores(project: Project, tmp_path: Path) -> None:
    """A set from outside is not put in force over another, is listed with it, and differs from it by filter; the same
    name is replaced only when asked to."""
    give_scores(project, {1: 0.9, 2: 0.9})
    file = tmp_path / "judge.json"
    file.write_text(json.dumps([{"id": "c0", "p": 0.1}, {"id": "c1", "p": 0.8}]), "utf-8")
    report = import_scores(project, file)
    assert not report.in_force
    assert [name_of(one) for one in ScoreSets(project).all()] == [
        "base · tiny.gguf",
        "outside · judge",
    ]
    found = ConversationService(project).ids(ListQuery(parse_filter("disagreement:scores")))
    assert list(found) == [1]
    with pytest.raises(UsageError, match="name 'judge'"):
        import_scores(project, file)
    import_scores(project, file, ends=(1, 0), replace=True)
    assert list(
        ConversationService(project).ids(ListQuery(parse_filter("disagreement:scores")))
    ) == [2]
    assert len(ScoreSets(project).all()) == 2


@pytest.mark.parametrize("text", ["", "[1, 2", '[{"id": "c0"}]', "name,score\nc0,1\n", "\x80"])
def test_files_without_scores(project: Project, tmp_path: Path, text: str) -> None:
    """A file without ids or scores is refused, and nothing changes."""
    file = tmp_path / "x.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError):
        import_scores(project, file)
    assert ScoreSets(project).all() == []


def test_command(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`scores --import` says what it took and exits with 3 where something was not; its options need it."""
    file = tmp_path / "judge.json"
    file.write_text(json.dumps([{"id": "c0", "p": 0.1}, {"id": "other", "p": 0.8}]), "utf-8")
    path = str(project.path)
    project.close()
    assert main(["scores", path, "--import", str(file), "--dry-run"]) == 3
    assert "Nothing is stored" in capsys.readouterr().out
    assert main(["scores", path, "--import", str(file), "--name", "my judge", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["set"] == "my judge"
    assert main(["scores", path, "--range", "1", "5"]) == 2
    assert "--range needs --import FILE." in capsys.readouterr().err
