"""Small conversations and projects, and their content for comparison."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from engine.base.conversation import Conversation, Message, Role, ToolCall
from engine.completeness.records import CurvePoint
from engine.completeness.tables import hidden_states, score_sets, scores
from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.tables import imports, sources
from engine.formats.records import Leak, Parsed
from engine.project import runs
from engine.project.project import Project
from engine.project.settings import PROJECT_ID

T = TypeVar("T")
REPOSITORY = Path(__file__).resolve().parents[3]
NOT_CONTENT = {"run_id", "started_at", "finished_at", "given_at", "pid", "replaced_at"}


def record(conversation: Conversation) -> Parsed:
    """A conversation as a reader gives it."""
    return Parsed(None, b"{}", conversation)


def talk(external_id: str, *contents: str, **known: Any) -> Parsed:
    """A record whose messages alternate between user and assistant."""
    roles: tuple[Role, Role] = ("user", "assistant")
    messages = tuple(Message(roles[n % 2], text) for n, text in enumerate(contents))
    raw = repr((external_id, contents, known)).encode()
    return Parsed(None, raw, Conversation(external_id, messages, **known))


def with_tools(external_id: str) -> Parsed:
    """A record with every field a message can have."""
    return Parsed(
        3,
        b'{"id": "tools"}\xff\x00',
        Conversation(
            external_id,
            (
                Message("system", "You help with flights."),
                Message("user", "Book me to Zürich 🛫", name="ann"),
                Message(
                    "assistant",
                    "",
                    tool_calls=(ToolCall("book", '{"to": "ZRH"}', "c1"),),
                    reasoning="She wants a flight.",
                ),
                Message("tool", '{"ok": true}', name="book", tool_call_id="c1"),
                Message("assistant", "Booked. ###STOP###", model_view="Booked."),
                Message("user", "###STOP###", model_view="", hidden=True),
            ),
            meta={"model": "m\ud800", "n": 1},
            truth={"reward": 1.0},
            created_at="2024-05-01",
        ),
        leaks=(Leak(4, "stop-token", "###STOP###"), Leak(None, "truth-field", "reward")),
    )


def begin_run(conn: sqlite3.Connection, stage: str, config_hash: str) -> int:
    """Creates a run without parameters; returns its id."""
    return runs.create(
        conn,
        stage=stage,
        config_hash=config_hash,
        params={},
        fingerprints={},
    )


def fill(
    project: Project, records: Sequence[Parsed], label: str = "a.jsonl"
) -> imports.ImportCounts:
    """Imports records as one source."""

    def work(conn: sqlite3.Connection) -> imports.ImportCounts:
        source = sources.put_source(conn, "/data/" + label, label, "uniform", "it looked like it")
        return imports.add_records(conn, source, records)

    return project.write(work)


def give_scores(
    project: Project,
    by_id: dict[int, float | None],
    config: str = "config-a",
    make_current: bool = True,
) -> None:
    """Scores conversations with one boundary each; None is unscored with a reason."""

    def work(conn: sqlite3.Connection) -> None:
        run_id = begin_run(conn, "score", config)
        score_sets.register(conn, ScoreConfig(config, "base", "tiny.gguf"))
        if make_current:
            score_sets.replace_keeping_rule(conn, config)
        scores.add_scores(
            conn,
            config,
            run_id,
            [
                ScoreEntry(key, (), "too long", 10)
                if p is None
                else ScoreEntry(key, (CurvePoint(1, 2, 1, p, 1 - p),), None, 10)
                for key, p in by_id.items()
            ],
        )
        runs.finish(conn, run_id, "done", "scored")

    project.write(work)


def give_states(project: Project, by_id: Mapping[int, bool]) -> None:
    """Keeps hidden states of conversations, two boundaries each; half of their dimensions tell the given answers."""
    random = np.random.default_rng(1)
    entries = []
    for key, answer in sorted(by_id.items()):
        states = random.normal(size=(2, 16))
        states[1, :8] += 2 if answer else -2
        places = (BoundaryPlace(0, 1, 1, 10, 10), BoundaryPlace(1, 2, 1, 20, 10))
        entries.append(StateEntry(key, places, states.astype("<f2").tobytes(), None, 10))

    def work(conn: sqlite3.Connection) -> None:
        run_id = begin_run(conn, "read", "states-a")
        hidden_states.register_config(conn, "states-a", "tiny.gguf", None)
        hidden_states.add(conn, "states-a", run_id, entries)
        runs.finish(conn, run_id, "done", "read")

    project.write(work)


def mark(project: Project, conversation_id: int, kind: str, text: str) -> None:
    """Appends a note, or a tag or its removal."""
    question = "note" if kind == "note" else text
    value = {"note": text, "tag": "yes"}.get(kind)
    project.write(
        lambda conn: conn.execute(
            "INSERT INTO answer (conversation_id, question, kind, value, given_at)"
            " VALUES (?, ?, 'give', ?, '2026')",
            (conversation_id, question, value),
        )
    )


def names(path: str | Path) -> list[str]:
    """Returns the external ids of the conversations of a project, in the order of their import."""
    with Project.open(path, read_only=True) as project, project.reading() as conn:
        return [row[0] for row in conn.execute("SELECT external_id FROM conversation ORDER BY id")]


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in a project file but its id, runs, times and the inner tables of the search index."""
    conn = sqlite3.connect(path)
    try:
        tables = [
            name
            for (name,) in conn.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                " AND name NOT LIKE 'message_fts%' AND name NOT IN ('run', '_sqlite_migrations')"
            )
        ]
        found = {}
        for table in sorted(tables):
            columns = [row[1] for row in conn.execute(f"PRAGMA table_info({table})")]
            names = ", ".join(c for c in columns if c not in NOT_CONTENT)
            rows = conn.execute(f"SELECT {names} FROM {table}")
            found[table] = sorted((row for row in rows if row[0] != PROJECT_ID), key=repr)
        return found
    finally:
        conn.close()


def check_whole(path: Path) -> None:
    """Asserts that the file, its references and its search index are sound."""
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
        # fails unless the index holds exactly the words of the messages
        conn.execute("INSERT INTO message_fts (message_fts, rank) VALUES ('integrity-check', 1)")
    finally:
        conn.close()


def in_child(work: Callable[[], T]) -> T:
    """Runs `work` in a forked process, which may drop rights or be limited, and returns its result."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    ok, value = pickle.loads(data)
    assert ok, value
    result: T = value
    return result


def _child(work: Callable[[], Any], writing: int) -> NoReturn:
    try:
        answer = (True, work())
    except BaseException:  # noqa: BLE001 - reported to the parent, which fails the test
        answer = (False, traceback.format_exc())
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(answer, pipe)
    sys.stdout.flush()
    os._exit(0)


def kill_amid(module: str, path: Path, lines: int) -> None:
    """Kills a program of the tests that works on a project, after so many lines of its output; the file stays whole."""
    words = [sys.executable, "-m", module, str(path), f"{path}.log"]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(lines):
            child.stdout.readline()
        child.kill()
    check_whole(path)
