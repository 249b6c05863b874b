"""Migration of files of earlier schemas."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.errors import ProjectError
from engine.base.interval import Interval
from engine.base.outcomes import (
    State,
    Verdict,
)
from engine.completeness.records.requests import UndoneMark
from engine.completeness.records.scores import (
    EndingTest,
)
from engine.completeness.tables import (
    divergences,
    generated_ends,
    hidden_states,
    requests,
    score_sets,
)
from engine.completeness.tables.hidden_states import BoundaryPlace
from engine.conversations.filters import ListQuery, parse_filter
from engine.goals.tables import answers as goal_answers
from engine.goals.tables import clusterings, second_goals, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables import texts as goals
from engine.opener.conversation_store import ConversationStore
from engine.opener.search.triage import TriageStore
from engine.project import project as project_module
from engine.project import settings
from engine.project.file.lock import WriteLock
from engine.project.migrations import schema
from engine.project.migrations.schema import SCHEMA
from engine.project.project import Project
from engine.questions.tables import example_probes, second_verdicts
from engine.simulate import tables as plays
from engine.trees import tables as trees
from tests.engine.project.released.dump import load
from tests.engine.project.support import check_whole, content, fill, talk

RELEASED = sorted(
    (Path(__file__).parent / "released").glob("schema_*.sql"),
    key=lambda path: int(path.stem.removeprefix("schema_")),
)


def schema_of(path: Path) -> list[tuple[str, str, str]]:
    """Every table, index and view with the statement that made it."""
    conn = sqlite3.connect(path)
    rows = conn.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"
    ).fetchall()
    conn.close()
    return [(kind, name, " ".join(sql.split())) for kind, name, sql in rows]


def test_every_schema_has_a_released_sample() -> None:
    """There is a sample of each schema, the present one included."""
    assert [path.name for path in RELEASED] == [f"schema_{n}.sql" for n in range(1, SCHEMA + 1)]


@pytest.mark.parametrize("sample", RELEASED, ids=lambda path: path.stem)
class TestReleased:
    def test_it_becomes_the_present_schema(self, sample: Path, tmp_path: Path) -> None:
        """A file of any released schema, once opened, has exactly the schema of a new file."""
        load(sample, tmp_path / "old.wb")
        Project.open(tmp_path / "old.wb").close()
        Project.open(tmp_path / "new.wb", create=True).close()
        assert schema_of(tmp_path / "old.wb") == schema_of(tmp_path / "new.wb")
        check_whole(tmp_path / "old.wb")

    def test_its_content_is_all_there(self, sample: Path, tmp_path: Path) -> None:
        """The content of the sample is found by the present code."""
        load(sample, tmp_path / "old.wb")
        with Project.open(tmp_path / "old.wb") as project:
            store = ConversationStore(project)
            counts = store.counts()
            assert (counts.conversations, counts.duplicates, counts.quarantined) == (3, 1, 1)
            assert list(store.ids(ListQuery(parse_filter("bicycle")))) == [1]
            assert store.original(2).startswith(b'{"id": "tools"}')
            assert [row.state for row in store.rows([1, 2, 3])] == [
                State.COMPLETE,
                State.UNSCORED,
                State.INCOMPLETE,
            ]
            current = TriageStore(project).current(3)
            assert current is not None
            assert (current.verdict, current.note) == (Verdict.INCOMPLETE, "no answer")


def test_what_schema_2_brought(tmp_path: Path) -> None:
    """Tags, blind repeats, remaining tasks and trees of a file of schema 2 are found."""
    load(RELEASED[1], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project:
        store = ConversationStore(project)
        assert store.tags() == [("odd", 1)]
        assert [row.tags for row in store.rows([1, 2])] == [("odd",), ()]
        assert store.hits(1, parse_filter("red")) == [0]
        remaining = store.remaining(3)
        assert remaining is not None
        assert remaining.text == "Say where it is."
        with project.reading() as conn:
            assert second_verdicts.repeats(conn, 3) == (Verdict.UNSURE,)
            assert trees.frame(conn, 1, 2) == {"nodes": 3}


def test_what_schema_5_brought(tmp_path: Path) -> None:
    """Plays with settings and transcripts, and replies by key, of a file of schema 5 are found."""
    load(RELEASED[4], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        (setting,) = plays.settings_of(conn)
        assert (setting.kind, setting.params, setting.played, setting.broken) == (
            "sharded",
            {"seed": 7},
            1,
            1,
        )
        first, second = plays.rows(conn, "s")
        assert (first.conversation_id, first.result, first.reason) == (1, {"score": 1.0}, None)
        assert second.reason == "it was refused"
        (line,) = plays.transcript(conn, first.id)
        assert (line.messages, line.text) == ((("user", "I want a red bicycle"),), "Sold!")
        key = "00ff" * 16
        assert plays.replies(conn, [key])[key] == ("Sold!", "end", "1 of 3 messages left out")


def test_what_schema_15_brought(tmp_path: Path) -> None:
    """Decisions by what is generated, of a file of schema 15, are found; without the scores they are gone."""
    load(RELEASED[14], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project:
        with project.reading() as conn:
            assert generated_ends.values(conn, "config-a", [1, 2, 3]) == {1: {1: 1.0}, 3: {1: 0.0}}
            assert generated_ends.counts(conn, "config-a") == (1, 1)
            assert generated_ends.goes_on(conn, "config-a") == [3]
            assert generated_ends.goes_on(conn, "config-a", without_remaining="r") == []
        project.write(lambda conn: score_sets.drop(conn, "config-a"))
        with project.reading() as conn:
            assert generated_ends.values(conn, "config-a", [1, 2, 3]) == {}


def test_what_schema_16_brought(tmp_path: Path) -> None:
    """What a person said of a second goal, of a file of schema 16, is kept; the goal is no longer listed as second,
    because the conversation was moved to it."""
    load(RELEASED[15], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        acts = conn.execute("SELECT conversation_id, group_id, kind FROM second_goal").fetchall()
        assert acts == [(2, "c0", "confirm")]
        assert second_goals.of_conversation(conn, 2) == []


def test_what_schema_17_brought(tmp_path: Path) -> None:
    """A second goal that a person confirmed, of a file of schema 17, is found."""
    load(RELEASED[16], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        assert [one.state for one in second_goals.of_conversation(conn, 2)] == ["confirmed"]


def test_what_schema_18_brought(tmp_path: Path) -> None:
    """Divergences of a file of schema 18 are found: their means, at the end and before, and what was not measured."""
    load(RELEASED[17], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        assert divergences.in_force(conn) == "d"
        assert divergences.means(conn, [1, 2, 3]) == {1: 0.5}
        assert divergences.ends(conn, [1, 2, 3], "d") == [(0.75, 0.25)]
        assert list(divergences.ids_without(conn, "d")) == [3]


def test_what_schema_7_brought(tmp_path: Path) -> None:
    """Hidden states with their places, and a set of scores with its test, of a file of schema 7 are found."""
    load(RELEASED[6], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        project.write(lambda conn: settings.put_score_config(conn, "p"))
        (entry,) = hidden_states.of_config(conn, "h")
        assert (entry.conversation_id, entry.tokens, entry.reason) == (1, 30, None)
        assert entry.places[1] == BoundaryPlace(message=3, step=3, turn=2, chars=90, step_chars=25)
        assert struct.unpack("<4e", entry.states) == (1, 0, 0.5, -1)
        assert list(hidden_states.ids_without_states(conn, "h")) == [2, 3]
        config = score_sets.config_in_force(conn)
        assert config is not None
        assert config.test == EndingTest(20, Interval(0.9, 0.8, 0.95), 0.85, 0.7, 0.6, None, 0)


def test_what_schema_8_brought(tmp_path: Path) -> None:
    """A probe taught by a tag, with its test and its probabilities, of a file of schema 8 is found."""
    load(RELEASED[7], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        found = example_probes.get(conn, "odd")
        assert found is not None
        assert found.test is not None
        assert found.test.auroc == Interval(0.8, 0.5, 0.9)
        assert found.test.rate.corrected == Interval(0.9, 0.5, 1.0)
        assert list(example_probes.in_order(conn, "odd")) == [(2, 0.5)]
        assert list(ConversationStore(project).ids(ListQuery(parse_filter("tag:odd?")))) == [2]


def test_what_schema_4_brought(tmp_path: Path) -> None:
    """Words of scripts without spaces are found in a file of schema 4 and in an older one."""
    load(RELEASED[3], tmp_path / "new.wb")
    load(RELEASED[2], tmp_path / "old.wb")
    conn = sqlite3.connect(tmp_path / "old.wb")
    with conn:
        conn.execute(
            "UPDATE message SET content = '卖掉了。' WHERE idx = 1 AND conversation_id = 1"
        )
        conn.execute("INSERT INTO message_fts (message_fts) VALUES ('rebuild')")
    conn.close()
    for name in ("new.wb", "old.wb"):
        with Project.open(tmp_path / name) as project:
            store = ConversationStore(project)
            assert list(store.ids(ListQuery(parse_filter("掉了")))) == [1]


def test_what_schema_3_brought(tmp_path: Path) -> None:
    """Goal texts, vectors, a labelled clustering, later assignments, answers, decisions and stability of a file of
    schema 3 are found.
    """
    load(RELEASED[2], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        found = goals.texts(conn, [1, 2], "summary", "g")
        assert [(one.text, one.reason) for one in found.values()] == [
            ("buy a bicycle", None),
            ("I cannot", "it refuses"),
        ]
        config = vectors.config(conn, "v")
        assert config is not None
        assert config.state == b"fitted"
        assert [block.count for block in vectors.read(conn, "v")] == [2]
        assert vectors.reasons(conn, "v") == {2: "no goal"}
        assert clusterings.shown(conn) == 1
        assert [cluster.label for cluster in clusterings.clusters(conn, 1)] == ["Buying", ""]
        assert [one.group for one in clusterings.assignments(conn, 1)] == ["c1"]
        (decision,) = goal_decisions.history(conn, 1)
        assert (decision.kind, list(decision.parts[0]), decision.active) == ("move", [1], False)
        assert goal_decisions.unplaced(conn, 1) == [(1, 1, "spread")]
        assert goal_answers.answers(conn, "p", ["sides"])["sides"].label == "Both"
        assert goal_answers.stability(conn, 1) == {0: 0.5, 1: 1.0}


def test_what_schema_19_brought(tmp_path: Path) -> None:
    """Requests that were found are there, and what a person said stays when they are found anew."""
    load(RELEASED[18], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project:
        project.write(lambda conn: requests.put_found(conn, [(2, [1])]))
        with project.reading() as conn:
            assert requests.starts(conn, [1, 2]) == {}
            rows = conn.execute("SELECT message, kind, annotator FROM request_mark").fetchall()
        assert rows == [(1, "none", "ann")]


def test_what_schema_20_brought(tmp_path: Path) -> None:
    """A file of this schema has marks of requests with their undo, and goals of requests; of an earlier file, what was
    found and what was marked are told apart."""
    load(RELEASED[18], tmp_path / "old.wb")
    with Project.open(tmp_path / "old.wb") as project, project.reading() as conn:
        found = conn.execute("SELECT conversation_id, message FROM request_found").fetchall()
        assert found == [(2, 5)]
    load(RELEASED[19], tmp_path / "new.wb")
    with Project.open(tmp_path / "new.wb") as project:
        with project.reading() as conn:
            assert requests.goals(conn, 1, [2]) == {(2, 0, 4): "Asking"}
        assert project.write(requests.undo) == UndoneMark(2, 1, begins=False)
        assert project.write(requests.undo) is None


def test_a_sample_has_something_in_every_table() -> None:
    """The sample of the present schema has rows in every table, so that migrations are tested on all."""
    text = RELEASED[-1].read_text(encoding="utf-8")
    tables = re.findall(r'^CREATE TABLE "?(\w+)', text, re.MULTILINE)
    assert len(tables) > 15
    assert [name for name in tables if f"INSERT INTO {name} " not in text] == []


def _widen(conn: sqlite3.Connection) -> None:
    conn.execute("ALTER TABLE run ADD COLUMN host TEXT")


def _break(conn: sqlite3.Connection) -> None:
    conn.execute("ALTER TABLE run ADD COLUMN host TEXT")
    conn.execute("ALTER TABLE nothing ADD COLUMN x TEXT")


@pytest.fixture
def with_next(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[sqlite3.Connection], None]], None]:
    """Adds a migration after the released ones."""

    def add(migration: Callable[[sqlite3.Connection], None]) -> None:
        monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, migration))
        monkeypatch.setattr(project_module, "SCHEMA", SCHEMA + 1)

    return add


AddMigration = Callable[[Callable[[sqlite3.Connection], None]], None]


class TestMigrating:
    def test_a_copy_is_kept(self, tmp_path: Path, with_next: AddMigration) -> None:
        """Before a migration the file is copied beside itself, unchanged."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk("a", "hello")])
        before = content(path)
        with_next(_widen)
        with Project.open(path) as project:
            assert project.reader().execute("SELECT host FROM run").fetchall() == []
        copy = tmp_path / f"p.wb.backup-{SCHEMA}"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["p.wb", copy.name]
        assert content(copy) == before == content(path)
        check_whole(copy)
        Project.open(path).close()
        assert len(list(tmp_path.iterdir())) == 2  # no second copy without a second migration

    def test_a_migration_that_fails_changes_nothing(
        self, tmp_path: Path, with_next: AddMigration, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After a failed migration the file is unchanged, the error is a WorkbenchError, and the earlier version still
        opens it.
        """
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk("a", "hello")])
        schema = schema_of(path)
        with_next(_break)
        with pytest.raises(ProjectError):
            Project.open(path)
        assert schema_of(path) == schema
        monkeypatch.undo()
        with Project.open(path) as project:
            assert project.read_only is None
            assert ConversationStore(project).counts().conversations == 1

    def test_a_copy_that_exists_is_not_overwritten(
        self, tmp_path: Path, with_next: AddMigration
    ) -> None:
        """A second copy gets another name."""
        path = tmp_path / "p.wb"
        Project.open(path, create=True).close()
        earlier = tmp_path / f"p.wb.backup-{SCHEMA}"
        earlier.write_text("precious")
        with_next(_widen)
        Project.open(path).close()
        assert earlier.read_text() == "precious"
        assert (tmp_path / f"p.wb.backup-{SCHEMA}-2").exists()

    def test_an_older_file_that_cannot_be_written(
        self, tmp_path: Path, with_next: AddMigration
    ) -> None:
        """An older file that cannot be written cannot be opened; the error says what to do."""
        path = tmp_path / "p.wb"
        Project.open(path, create=True).close()
        with_next(_widen)
        with pytest.raises(ProjectError, match="older version") as caught:
            Project.open(path, read_only=True)
        assert caught.value.hint

    def test_an_older_file_to_be_read(self, tmp_path: Path, with_next: AddMigration) -> None:
        """On request an older file is migrated and then opened for reading only; while another process writes it, the
        error names that.
        """
        path = tmp_path / "p.wb"
        Project.open(path, create=True).close()
        with_next(_widen)
        lock = WriteLock(str(path))
        lock.acquire()
        with pytest.raises(ProjectError, match=r"older version.* is writing it"):
            Project.open(path, read_only=True, upgrade=True)
        lock.release()
        with Project.open(path, read_only=True, upgrade=True) as project:
            assert project.read_only == "opened for reading only"
        assert (tmp_path / f"p.wb.backup-{SCHEMA}").exists()
        Project.open(path, read_only=True).close()
