"""Merging joins what parts of one job hold, counts what differs, and changes none of the given files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Verdict
from engine.base.errors import ProjectError
from engine.completeness.records import CurvePoint
from engine.completeness.tables import requests, score_sets, scores
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.service import SavedViews
from engine.goals.tables import clusterings
from engine.opener.conversations import ConversationService
from engine.opener.merging import merge
from engine.project.project import Project
from engine.project.settings import PROJECT_ID
from engine.questions.service.triage import TriageService
from engine.questions.tables import answers
from tests.engine.goals.clustered import clustering, conversations_with_vectors
from tests.engine.project.support import (
    check_whole,
    content,
    fill,
    give_scores,
    give_states,
    talk,
    with_tools,
)
from workbench.cli import main


def new(path: Path, names: Iterable[str]) -> Project:
    """An open project of one conversation for each name."""
    project = Project.open(path, create=True)
    fill(project, [talk(name, f"question {name} 答案", "an answer") for name in names])
    return project


def judge(project: Project, conversation_id: int, verdict: str, time: str, annotator: str) -> None:
    """Appends a verdict given at a time."""
    project.write(
        lambda conn: conn.execute(
            "INSERT INTO answer (conversation_id, question, kind, value, given_at, annotator)"
            " VALUES (?, 'succeeded', 'give', ?, ?, ?)",
            (conversation_id, verdict, time, annotator),
        )
    )


def without_ids(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """What a project holds without its own id; rows of hidden states without their numbers, which follow the order of
    reading."""
    found = content(path)
    found["setting"] = [row for row in found["setting"] if row[0] != PROJECT_ID]
    found["hidden_state"] = sorted((row[1:] for row in found["hidden_state"]), key=repr)
    return found


def test_parts_of_a_job_make_the_whole(tmp_path: Path) -> None:
    """Copies of a project that were scored in part are merged into what scoring all of it in one place gives."""
    whole, one, two = (tmp_path / f"{name}.wb" for name in ("whole", "one", "two"))
    new(whole, map(str, range(1, 31))).close()
    for copy in (one, two):
        shutil.copyfile(whole, copy)
    scores = {n: n / 30 if n % 7 else None for n in range(1, 31)}
    for path, ids in ((whole, scores), (one, range(1, 31, 2)), (two, range(2, 31, 2))):
        with Project.open(path) as project:
            give_scores(project, {n: scores[n] for n in ids})
            give_states(project, dict.fromkeys(scores, True) if path == whole else {})
    before = one.read_bytes(), two.read_bytes()

    (taken,) = merge([str(one), str(two)], str(tmp_path / "merged.wb"))

    assert taken.known == 30
    assert taken.added == {"scores": 15}
    assert (taken.conflicts, taken.left_out) == ({}, [])
    expected = without_ids(whole)
    expected["hidden_state"] = []
    assert without_ids(tmp_path / "merged.wb") == expected
    check_whole(tmp_path / "merged.wb")
    assert (one.read_bytes(), two.read_bytes()) == before


def test_states_are_joined(tmp_path: Path) -> None:
    """What two machines read is read in the merged project."""
    for name, ids in (("a", [1, 3]), ("b", [1, 2])):
        with new(tmp_path / f"{name}.wb", ["1", "2", "3"]) as project:
            give_states(project, dict.fromkeys(ids, True))
    (taken,) = merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert taken.added == {"readings": 1}
    assert [row[2] for row in sorted(content(tmp_path / "m.wb")["hidden_state"])] == [1, 3, 2]


def test_conversations_are_joined_by_their_text(tmp_path: Path) -> None:
    """A conversation of both files is there once with all its scores; the others get new ids and can be found."""
    with new(tmp_path / "a.wb", ["1", "2", "3"]) as project:
        give_scores(project, {1: 0.1})
    with new(tmp_path / "b.wb", ["3", "4"]) as project:
        fill(project, [with_tools("tools")], "b.jsonl")
        give_scores(project, {1: 0.3, 2: 0.4, 3: 0.5})
    (taken,) = merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert (taken.known, taken.added["conversations"], taken.added["scores"]) == (1, 2, 3)
    check_whole(tmp_path / "m.wb")
    with Project.open(tmp_path / "m.wb") as project:
        found = ConversationService(project)

        def names(text: str) -> list[str]:
            ids = found.ids(ListQuery(parse_filter(text)))
            return [row.external_id for row in found.rows(ids)]

        scored = {row.external_id: row.p_end_normalised for row in found.rows([1, 2, 3, 4, 5])}
        assert scored == {"1": 0.1, "2": None, "3": 0.3, "4": 0.4, "tools": 0.5}
        assert names("tool:book truth.reward:1") == ["tools"]
        assert names('"Zürich"') == ["tools"]
        assert len(names('"答案"')) == 4
        assert found.original(5) == with_tools("tools").raw


def test_a_record_under_another_id_is_a_duplicate(tmp_path: Path) -> None:
    """The same text under another id in the second file keeps that id, as it would in an import."""
    new(tmp_path / "a.wb", ["1"]).close()
    with Project.open(tmp_path / "b.wb", create=True) as project:
        fill(project, [talk("other", "question 1 答案", "an answer")])
    (taken,) = merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert taken.added == {"duplicates": 1}
    with Project.open(tmp_path / "m.wb") as project:
        assert list(ConversationService(project).named("other")) == [1]


def test_differences_are_counted_and_the_first_is_kept(tmp_path: Path) -> None:
    """Other scores, another text of one id and another filter of one name are shown; nothing is replaced."""
    for name, p, text in (("a", 0.25, "first"), ("b", 0.75, "second")):
        with new(tmp_path / f"{name}.wb", ["1"]) as project:
            fill(project, [talk("2", text, "an answer")])
            give_scores(project, {1: p})
            SavedViews(project).save_filter("mine", f'"{text}"')
    (taken,) = merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert {title: (one.count, one.examples) for title, one in taken.conflicts.items()} == {
        "scores": (1, ["1"]),
        "texts under one id": (1, ["2"]),
        "saved filters": (1, ["mine"]),
    }
    with Project.open(tmp_path / "m.wb") as project:
        found = ConversationService(project)
        assert [row.p_end_normalised for row in found.rows([1])] == [0.25]
        assert len(found.named("2")) == 2
        assert SavedViews(project).filters() == {"mine": '"first"'}


def test_verdicts_of_everyone_in_the_order_of_time(tmp_path: Path) -> None:
    """Each annotator's verdicts are there, those of a common past once; the newest is in force."""
    with new(tmp_path / "a.wb", ["1", "2", "3"]) as project:
        judge(project, 3, "unsure", "2026-01-01", "ann")
    shutil.copyfile(tmp_path / "a.wb", tmp_path / "b.wb")
    with Project.open(tmp_path / "a.wb") as project:
        judge(project, 1, "yes", "2026-01-04", "ann")
        judge(project, 2, "yes", "2026-01-05", "ann")
    with Project.open(tmp_path / "b.wb") as project:
        judge(project, 1, "no", "2026-01-02", "bob")
        judge(project, 2, "no", "2026-01-06", "bob")
        judge(project, 3, "yes", "2026-01-07", "bob")
        TriageService(project).undo()
    (taken,) = merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert taken.added == {"answers": 4}
    assert taken.conflicts["verdicts"].examples == ["1", "2"]
    with Project.open(tmp_path / "m.wb") as project, project.reading() as conn:
        assert dict(answers.in_force(conn)) == {
            1: Verdict.YES,
            2: Verdict.NO,
            3: Verdict.UNSURE,
        }
        rows = conn.execute("SELECT annotator, count(*) FROM answer GROUP BY 1 ORDER BY 1")
        assert rows.fetchall() == [("", 1), ("ann", 3), ("bob", 3)]


def test_a_verdict_on_an_earlier_text_stays_one(tmp_path: Path) -> None:
    """What was said before a conversation grew is not taken for a verdict on its present text."""
    with new(tmp_path / "a.wb", ["x"]) as project:
        judge(project, 1, "yes", "2026-01-01", "bob")
    with Project.open(tmp_path / "b.wb", create=True) as project:
        fill(project, [talk("1", "hello"), talk("2", "good day", "yes")])
        judge(project, 1, "no", "2026-01-02", "ann")
        fill(project, [talk("1", "hello", "and more")])
        judge(project, 2, "yes", "2026-01-03", "ann")
    merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    with Project.open(tmp_path / "m.wb") as project, project.reading() as conn:
        assert dict(answers.in_force(conn)) == {1: Verdict.YES, 3: Verdict.YES}
        assert len(ConversationService(project).earlier_states(2)) == 1


def test_clusterings_of_the_first_are_kept(tmp_path: Path) -> None:
    """The first project's groups stay as they are; it is said that those of the second were left out."""
    for name in ("a", "b"):
        with Project.open(tmp_path / f"{name}.wb", create=True) as project:
            run = conversations_with_vectors(project, 7)
            given: dict[str, Any] = clustering(
                [0, 0, 1, 1, None, 1], run, config=f"clusters-{name}"
            )
            project.write(partial(clusterings.add, **given))
    (taken,) = merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert [line.split(":")[0] for line in taken.left_out] == ["1 clustering with 0 decisions"]
    assert content(tmp_path / "m.wb")["membership"] == content(tmp_path / "a.wb")["membership"]


@pytest.mark.parametrize("mode", ["words", "probe"])
def test_scores_of_probes_fitted_apart_are_not_mixed(tmp_path: Path, mode: str) -> None:
    """A probe's set is named by ids of conversations: two of one name that were fitted to different ones stay apart."""
    for name, ids in (("a", "12"), ("b", "34")):
        with new(tmp_path / f"{name}.wb", ids) as project:
            give_scores(project, {1: 0.2, 2: 0.9})
            project.write(lambda conn: conn.execute("UPDATE score_config SET mode = ?", (mode,)))
    (taken,) = merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert "scores" not in taken.added
    assert taken.left_out[0].startswith("2 scores of a probe")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_an_unfinished_set_is_left_out(tmp_path: Path, order: str) -> None:
    """Scores that a cancelled fit of a probe left are no set, in whichever file they are; the same set, finished in the
    other file, comes along."""
    config = score_sets.ScoreConfig("begun", "probe", "m")
    entries = [ScoreEntry(key, (CurvePoint(0, 0, 1, 0.5, 0.5),), None, 9) for key in (1, 2)]
    for name, known in (("a", entries[:1]), ("b", entries)):
        with new(tmp_path / f"{name}.wb", "12") as project:
            give_scores(project, {1: 0.4, 2: 0.6})
            project.write(lambda conn: score_sets.begin_set(conn, config))
            project.write(partial(scores.add, config_hash="begun", run_id=1, entries=known))
            if name == "b":
                project.write(lambda conn: score_sets.finish_set(conn, 2, 2))
    merge([str(tmp_path / f"{name}.wb") for name in order], str(tmp_path / "m.wb"))
    assert content(tmp_path / "m.wb")["score"] == content(tmp_path / "b.wb")["score"]
    with Project.open(tmp_path / "m.wb") as project, project.reading() as conn:
        assert score_sets.is_stored(conn, "begun")


def test_scores_are_in_force_where_the_first_has_none(tmp_path: Path) -> None:
    """A project that was only imported shows the scores of the one that it is merged with."""
    new(tmp_path / "a.wb", ["1"]).close()
    with new(tmp_path / "b.wb", ["1"]) as project:
        give_scores(project, {1: 0.4})
    merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    with Project.open(tmp_path / "m.wb") as project, project.reading() as conn:
        assert score_sets.hash_in_force(conn) == "config-a"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run keeps no file; the run writes it and does not write over it; differences give exit code 3."""
    for name, p in (("a", 0.25), ("b", 0.75)):
        with new(tmp_path / f"{name}.wb", ["1", name]) as project:
            give_scores(project, {1: p})
    paths = [str(tmp_path / "a.wb"), str(tmp_path / "b.wb")]
    assert main(["merge", *paths, "--dry-run", "--json"]) == 3
    (taken,) = json.loads(capsys.readouterr().out)["projects"]
    assert taken["added"]["conversations"] == taken["conflicts"]["scores"]["count"] == 1
    assert sorted(path.name for path in tmp_path.glob("*.wb")) == ["a.wb", "b.wb"]
    output = str(tmp_path / "m.wb")
    assert main(["merge", *paths, "-o", output]) == 3
    assert "differs   1 scores: 1" in capsys.readouterr().out
    assert main(["merge", *paths, "-o", output]) == 1
    assert main(["merge", *paths]) == main(["merge", paths[0], "-o", "x"]) == 2


def test_a_file_that_is_no_project(tmp_path: Path) -> None:
    """A file that cannot be read leaves nothing behind."""
    new(tmp_path / "a.wb", ["1"]).close()
    (tmp_path / "b.wb").write_text("no project")
    with pytest.raises(ProjectError):
        merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "m.wb"))
    assert not list(tmp_path.glob("m.wb*"))


def test_requests_come_along(tmp_path: Path) -> None:
    """A merge takes over what was found and marked of requests, without what was undone; of a conversation of which
    both files have something, the first file's is kept."""
    for name, message in (("a", 2), ("b", 4)):
        with Project.open(tmp_path / f"{name}.wb", create=True) as project:
            fill(project, [talk("both", *map(str, range(6))), talk(name, *f"{name}bcdef")])
            project.write(partial(requests.put_found, found=[(1, [message])]))
            project.write(partial(requests.mark, conversation_id=2, message=2, annotator="", begins=True))  # fmt: skip
            project.write(partial(requests.mark, conversation_id=2, message=4, annotator="", begins=True))  # fmt: skip
            project.write(requests.undo)
    merge([str(tmp_path / "a.wb"), str(tmp_path / "b.wb")], str(tmp_path / "all.wb"))
    with Project.open(tmp_path / "all.wb") as project, project.reading() as conn:
        assert requests.starts(conn, [1, 2, 3]) == {1: [2], 2: [2], 3: [2]}
