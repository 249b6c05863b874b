"""Importing files and folders again that have grown or changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.conversation import Message, State, Verdict
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.records import ImportRequest
from engine.conversations.stages import ImportStage
from engine.conversations.tables import sources
from engine.conversations.tables.conversations import truth_by_conversation
from engine.formats import input_kinds
from engine.formats.registry import mapping_folder
from engine.goals.stages.clustering import ClusterStage
from engine.goals.stages.embedding import EmbedStage
from engine.goals.tables import clusterings
from engine.goals.tables.texts import TextSource
from engine.goals.tables.vectors import read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.runner import JobRunner
from engine.opener.conversations import ConversationRow, ConversationService
from engine.project.project import Project
from engine.questions.question import YES
from engine.questions.records import EarlierAnswers, NewAnswer
from engine.questions.service.triage import TriageService
from engine.questions.tables import opinions
from tests.engine.goals import goal_runs
from tests.engine.project.support import check_whole, content, give_scores, give_states

Talk = tuple[str, Sequence[str]]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project; at the end its indexes and references are checked."""
    with Project.open(tmp_path / "p.wb", create=True) as opened:
        yield opened
    check_whole(tmp_path / "p.wb")


def write(path: Path, *talks: Talk, **more: Any) -> Path:
    """Writes conversations with ids and texts; user and assistant take turns."""
    lines = [
        {
            "id": name,
            "messages": [
                {"role": ("user", "assistant")[n % 2], "content": text}
                for n, text in enumerate(texts)
            ],
            **more,
        }
        for name, texts in talks
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(project: Project, *paths: Path, replace: bool = False) -> ImportStage:
    """Imports paths and returns the stage."""
    stage = ImportStage(project, [str(path) for path in paths], ImportRequest(replace=replace))
    JobRunner(project, lambda event: None).run(stage)
    return stage


def counted(stage: ImportStage) -> dict[str, int]:
    """The counts that are not zero; they add up to the records read."""
    names = ("new", "grew", "changed", "unchanged", "duplicate", "quarantined")
    counts = {name: getattr(stage.counts, name) for name in names}
    assert sum(counts.values()) == stage.counts.read
    return {name: count for name, count in counts.items() if count}


def texts(project: Project) -> dict[str, list[str]]:
    """The texts of all conversations by id, `*` after the id of a later conversation of the same one."""
    found: dict[str, list[str]] = {}
    store = ConversationService(project)
    for key in sorted(store.ids(ListQuery())):
        name = row(project, key).external_id
        while name in found:
            name += "*"
        found[name] = [message.content for message in store.messages(key)]
    return found


def row(project: Project, key: int = 1) -> ConversationRow:
    """What lists show of a conversation."""
    (found,) = ConversationService(project).rows([key])
    return found


def found_by(project: Project, words: str) -> list[int]:
    """Ids of the conversations that a search finds."""
    return list(ConversationService(project).ids(ListQuery(parse_filter(words))))


def earlier_records(project: Project) -> list[bytes]:
    """The records whose conversations imports replaced, as they came, the first one first."""
    with project.reading() as conn:
        rows = conn.execute("SELECT raw FROM earlier_state ORDER BY id").fetchall()
    return [bytes(raw) for (raw,) in rows]


class TestUnchanged:
    def test_nothing_is_parsed(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file that did not change is not parsed, and its counts and account are as before."""
        path = write(tmp_path / "a.jsonl", ("1", ["a"]), ("2", ["b"]))
        path.write_text(path.read_text() + "not json\n")
        first = read(project, path)
        assert counted(first) == {"new": 2, "quarantined": 1}
        before = content(Path(project.path))
        with monkeypatch.context() as patch:
            patch.setattr(input_kinds, "parse_record", None)
            again = read(project, path)
        assert counted(again) == {"unchanged": 2, "quarantined": 1}
        assert again.sources == first.sources
        assert "2 already here" in again.summary()
        assert content(Path(project.path)) == before

    def test_a_changed_mapping(self, project: Project, tmp_path: Path) -> None:
        """After a change of the mapping a file is read anew: records that are read now leave the quarantine, and with
        `replace` stored conversations get the metadata and the truth that it gives them."""
        mapping_folder().mkdir(parents=True, exist_ok=True)
        mapping = mapping_folder() / "mine.toml"
        text = 'name = "mine"\nwhen = ["talk"]\n[[messages]]\neach = "talk[]"\nrole = "who"\ntext = "says"\n'
        mapping.write_text(f'{text}[roles]\nme = "user"\n')
        rows = [{"talk": [{"who": who, "says": "Hello."}], "end": "good"} for who in ("me", "you")]
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert counted(read(project, path)) == {"new": 1, "quarantined": 1}
        mapping.write_text(f'{text}[roles]\nme = "user"\nyou = "assistant"\n[truth]\nend = "end"\n')
        assert counted(read(project, path, replace=True)) == {"changed": 1, "new": 1}
        assert project.read(sources.count_quarantined) == 0
        truths = project.read(lambda conn: list(truth_by_conversation(conn)))
        assert [truth for _, truth in truths] == [{"end": "good"}] * 2

    def test_a_database_that_is_being_written(self, project: Project, tmp_path: Path) -> None:
        """Rows of an SQLite database that are in its log only, and not in the file yet, are read."""
        path = tmp_path / "logs.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("CREATE TABLE log (conversation_id TEXT, role TEXT, content TEXT)")
            conn.execute("INSERT INTO log VALUES ('1', 'user', 'hi'), ('1', 'assistant', 'ho')")
            assert counted(read(project, path)) == {"new": 1}
            size = path.stat().st_size
            conn.execute("INSERT INTO log VALUES ('1', 'user', 'more')")
            assert path.stat().st_size == size
            assert counted(read(project, path)) == {"grew": 1}
        assert texts(project) == {"1": ["hi", "ho", "more"]}


class TestGrown:
    OLD = ("tram", ["Where is the tram?", "At the corner."])
    NEW = (
        "tram",
        ["Where is the tram?", "At the corner.", "And the ferry?", "渡轮 in the harbour."],
    )

    def _grow(self, project: Project, tmp_path: Path) -> ImportStage:
        return read(project, write(tmp_path / "a.jsonl", self.NEW))

    def test_it_replaces_its_older_state(self, project: Project, tmp_path: Path) -> None:
        """The conversation keeps its id and has the new text; its record as it came before stays in the file."""
        path = write(tmp_path / "a.jsonl", self.OLD, truth={"reward": 0})
        raw = path.read_bytes().strip()
        read(project, path)
        assert counted(self._grow(project, tmp_path)) == {"grew": 1}
        assert texts(project) == {"tram": self.NEW[1]}
        assert row(project).messages == 4
        assert found_by(project, "ferry") == found_by(project, "corner") == [1]
        assert found_by(project, "渡轮") == [1]
        assert earlier_records(project) == [raw]
        assert list(project.read(truth_by_conversation)) == []
        assert counted(read(project, path)) == {"unchanged": 1}

    def test_what_was_computed_is_not_of_the_new_text(
        self, project: Project, tmp_path: Path
    ) -> None:
        """Scores and hidden states go: it is unscored and waits for the next run. What is computed of other
        conversations stays."""
        path = write(tmp_path / "a.jsonl", self.OLD, ("other", ["Hello", "Hi"]))
        read(project, path)
        give_scores(project, {1: 0.75, 2: 0.5})
        give_states(project, {1: True, 2: False})
        write(path, self.NEW, ("other", ["Hello", "Hi"]))
        assert counted(read(project, path)) == {"grew": 1, "unchanged": 1}
        assert row(project).state == State.UNSCORED
        assert row(project, 2).p_end_normalised == 0.5
        with project.reading() as conn:
            left = {
                table: [line[0] for line in conn.execute(f"SELECT {column} FROM {table}")]
                for table, column in (("hidden_state", "conversation_id"), ("boundary_score", "1"))
            }
        assert left == {"hidden_state": [2], "boundary_score": [1]}

    def test_what_a_person_said_stays(self, project: Project, tmp_path: Path) -> None:
        """Verdict, note and tags are told as given to the shorter text. The verdict does not judge the new one, which
        waits in triage again; note and tags stay in force."""
        read(project, write(tmp_path / "a.jsonl", self.OLD))
        give_scores(project, {1: 0.75})
        triage = TriageService(project)
        triage.give(1, Verdict.YES, "she knows")
        triage.repeat(1, Verdict.NO)
        triage.answer([NewAnswer(1, "tram", YES)])
        stage = self._grow(project, tmp_path)
        assert "1 had a verdict on the earlier text" in stage.summary()
        current = triage.current(1)
        assert current is not None
        assert (current.verdict, current.note) == (None, "she knows")
        assert current.answers == (("tram", "yes"),)
        assert current.earlier == EarlierAnswers(2, Verdict.YES, True, (("tram", "yes"),))
        assert row(project).verdict is None
        assert row(project).tags == ("tram",)
        assert triage.tally()[Verdict.YES] == 0
        assert [item.conversation_id for item in triage.queue().items] == [1]
        assert found_by(project, "tag:tram") == [1]
        (exported,) = project.read(opinions.answered_conversations)
        assert exported.in_force == current
        assert exported.repeats == ()

    def test_a_verdict_on_the_new_text(self, project: Project, tmp_path: Path) -> None:
        """A new verdict is in force; taken back, the one on the shorter text is told again."""
        read(project, write(tmp_path / "a.jsonl", self.OLD))
        triage = TriageService(project)
        triage.give(1, Verdict.NO, "no ferry")
        self._grow(project, tmp_path)
        triage.give(1, Verdict.YES)
        current = triage.current(1)
        assert current is not None
        assert (current.verdict, current.note) == (Verdict.YES, "no ferry")
        assert current.earlier == EarlierAnswers(2, None, True)
        triage.undo()
        current = triage.current(1)
        assert current is not None
        assert current.verdict is None
        assert current.earlier == EarlierAnswers(2, Verdict.NO, True)
        triage.undo()
        assert triage.current(1) is None

    def test_a_request_by_its_answer(self, project: Project, tmp_path: Path) -> None:
        """Requests of a batch that were imported before their answers arrived grow by them when both are imported;
        another file with a conversation of that id replaces nothing."""
        asked = {"role": "user", "content": "how many"}
        requests, answers = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        body = {"model": "m", "messages": [asked]}
        requests.write_text(json.dumps({"custom_id": "r", "body": body}) + "\n")
        read(project, requests)
        said = {"role": "assistant", "content": "four"}
        response = {"body": {"choices": [{"message": said}]}}
        answers.write_text(json.dumps({"id": "b", "custom_id": "r", "response": response}) + "\n")
        assert counted(read(project, requests, answers)) == {"grew": 1}
        assert texts(project) == {"r": ["how many", "four"]}
        other = write(tmp_path / "other.jsonl", ("r", ["how many", "four", "why"]))
        assert counted(read(project, other)) == {"new": 1}


class TestChanged:
    OLD = ("tram", ["Where is the tram?", "At the corner."])
    NEW = ("tram", ["Where is the tram?", "There is none."])

    def test_both_are_kept(self, project: Project, tmp_path: Path) -> None:
        """A conversation whose text changed is a second one, the stored one stays, and the summary says so."""
        read(project, write(tmp_path / "a.jsonl", self.OLD))
        stage = read(project, write(tmp_path / "a.jsonl", self.NEW))
        assert counted(stage) == {"changed": 1}
        assert "changed ones are kept beside the stored ones (--replace" in stage.summary()
        assert texts(project) == {"tram": self.OLD[1], "tram*": self.NEW[1]}
        stage = read(project, write(tmp_path / "a.jsonl", ("tram", [*self.NEW[1], "Why?"])))
        assert counted(stage) == {"grew": 1}
        assert texts(project) == {"tram": self.OLD[1], "tram*": [*self.NEW[1], "Why?"]}

    def test_it_is_replaced_on_request(self, project: Project, tmp_path: Path) -> None:
        """With `replace` it takes the place of the stored text, which can be read; so does one that changed back."""
        read(project, write(tmp_path / "a.jsonl", self.OLD))
        for talk in (self.NEW, self.OLD):
            stage = read(project, write(tmp_path / "a.jsonl", talk), replace=True)
            assert counted(stage) == {"changed": 1}
            assert "changed ones replaced the stored ones" in stage.summary()
            assert texts(project) == {"tram": talk[1]}
        assert found_by(project, "none") == []
        assert len(earlier_records(project)) == 2

    def test_a_later_export_under_another_name(self, project: Project, tmp_path: Path) -> None:
        """With `replace` conversations of an earlier file are replaced too, but not those of a file that is read in
        the same run."""
        read(project, write(tmp_path / "may.jsonl", self.OLD))
        june = write(tmp_path / "june.jsonl", ("tram", [*self.OLD[1], "Thanks"]))
        other = write(tmp_path / "other.jsonl", self.NEW)
        assert counted(read(project, june, other, replace=True)) == {"grew": 1, "new": 1}
        assert texts(project) == {"tram": [*self.OLD[1], "Thanks"], "tram*": self.NEW[1]}
        assert row(project).source == str(june)
        assert counted(read(project, tmp_path / "may.jsonl", replace=True)) == {"unchanged": 1}


class TestRunsAfterwards:
    def test_goals_are_clustered_anew(self, tmp_path: Path) -> None:
        """After a conversation grew there is a new clustering of the new texts; the earlier one keeps its vectors."""
        goal_runs.make(tmp_path / "p.wb")
        with Project.open(tmp_path / "p.wb") as project:
            log = DecisionLog(project)
            first = _cluster(project, log)
            assert _cluster(project, log) == first
            made = goal_runs.conversations(48)
            said = (*made[0].messages, Message("user", "Reset the password of my bank account."))
            goal_runs.add(project, [replace(made[0], messages=said), *made[1:]], "goals")
            second = _cluster(project, log)
            assert second != first
            with project.reading() as conn:
                for key in (first, second):
                    stored = clusterings.find(conn, key)
                    assert stored is not None
                    members = clusterings.membership(conn, key)[0]
                    assert len(read_vectors(conn, stored.vector_config, members)[0]) == 48
                vectors = [_vector(conn, key) for key in (first, second)]
        assert not np.array_equal(*vectors)


def _cluster(project: Project, log: DecisionLog) -> int:
    embed = EmbedStage(project, goal_runs.tfidf(), lambda: TextSource("all-user"))
    cluster = ClusterStage(project, log, embed, k=4)
    for outcome in goal_runs.run(project, [embed, cluster]):
        assert outcome.state == "done", outcome
    assert cluster.clustering_id is not None
    return cluster.clustering_id


def _vector(conn: sqlite3.Connection, clustering_id: int) -> Any:
    stored = clusterings.find(conn, clustering_id)
    assert stored is not None
    return read_vectors(conn, stored.vector_config, [1])[1]
