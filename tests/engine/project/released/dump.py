"""Writes and loads the samples of released schemas, as SQL text. `python -m tests.engine.project.released.dump` writes
the sample of the present schema. It is run once for each schema, before its release; a sample is never edited or
written again.
"""

from __future__ import annotations

import sqlite3
import struct
import tempfile
from array import array
from pathlib import Path

from engine.base.interval import Interval, Share
from engine.base.outcomes import (
    Verdict,
)
from engine.completeness.records.divergences import Divergence
from engine.completeness.records.scores import EndingTest
from engine.completeness.tables import (
    divergences,
    generated_ends,
    hidden_states,
    remaining,
    requests,
    score_sets,
)
from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.completeness.tables.remaining import RemainingEntry
from engine.completeness.tables.requests import RequestGoal
from engine.conversations.tables import checks, quarantine, sources, watched
from engine.conversations.tables.checks import CheckEntry
from engine.conversations.tables.watched import WatchedEntry
from engine.formats.records import Rejected
from engine.goals.records import GoalDecision
from engine.goals.tables import answers as goal_answers
from engine.goals.tables import clusterings, second_goals, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables import groups as goal_groups
from engine.goals.tables import texts as goals
from engine.goals.tables.answers import PairAnswer
from engine.goals.tables.clusterings import Assigned, LabelEntry, Member, NewCluster
from engine.goals.tables.groups import GroupEntry
from engine.goals.tables.texts import GoalEntry
from engine.goals.tables.vectors import VectorConfig
from engine.opener.search.triage import TriageStore
from engine.project import cjk_index
from engine.project.migrations.schema import SCHEMA
from engine.project.project import Project
from engine.questions.records.calibration import CompletionRate
from engine.questions.records.example_probes import ExampleProbe, ExampleProbeTest
from engine.questions.tables import example_probes
from engine.simulate import tables as plays
from engine.simulate.records import PlaySetting, TranscriptLine
from engine.simulate.tables import PlayEntry
from engine.trees import tables as trees
from engine.trees.records import TreeRow
from engine.trees.tables import TreeConfig, TreeEntry
from tests.engine.project.support import fill, give_scores, talk, with_tools

INDEX = "message_fts"
"""The index of words; that of signs (`signs.INDEX`) keeps no text of its own and is filled from the messages."""


def load(sample: Path, path: Path) -> None:
    """Makes a project file from a sample."""
    conn = sqlite3.connect(path)
    conn.executescript(sample.read_text(encoding="utf-8"))
    if conn.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (cjk_index.INDEX,)).fetchone():
        with conn:
            cjk_index.fill(conn)
    conn.close()


def dump(path: Path) -> str:
    """A project file as SQL: marks, tables, rows, and the search index by its content."""
    conn = sqlite3.connect(path)
    lines = [
        f"PRAGMA application_id = {conn.execute('PRAGMA application_id').fetchone()[0]};",
        f"PRAGMA user_version = {conn.execute('PRAGMA user_version').fetchone()[0]};",
    ]
    objects = conn.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        f" AND (name NOT LIKE '{INDEX}_%' OR name = '{cjk_index.INDEX}') AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    lines += [f"{sql};" for _, _, sql in objects]
    for kind, name, _ in objects:
        if kind != "table" or name in (INDEX, cjk_index.INDEX):
            continue
        columns = [row[1] for row in conn.execute(f"PRAGMA table_info({name})")]
        quoted = " || ', ' || ".join(f"quote({column})" for column in columns)
        rows = conn.execute(f"SELECT {quoted} FROM {name} ORDER BY 1").fetchall()
        lines += [f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({row[0]});" for row in rows]
    lines.append(f"INSERT INTO {INDEX} ({INDEX}) VALUES ('rebuild');")
    conn.close()
    return "\n".join(lines) + "\n"


def sample_project(path: Path) -> None:
    """A small project with something in every table."""
    with Project.open(path, create=True) as project:
        fill(project, [talk("a", "I want a red bicycle")])
        fill(project, [talk("a", "I want a red bicycle", "Sold! 卖掉了。", truth={"goal": "buy"})])
        project.write(lambda conn: sources.put_read(conn, 1, b"digest", "{}"))
        fill(project, [with_tools("t"), talk("b", "Where is it?"), talk("a2", "Where is it?")], "b")
        project.write(lambda conn: quarantine.add(conn, 2, [Rejected(4, b"{\xff", "not JSON")]))
        give_scores(project, {1: 0.9, 2: None, 3: 0.2})
        tasks = [RemainingEntry(3, "Say where it is.")]
        project.write(lambda conn: remaining.add(conn, "r", "config-a", 1, tasks))
        project.write(_grow)
        project.write(_cluster)
        project.write(_play)
        project.write(_probe)
        triage = TriageStore(project)
        triage.give(1, Verdict.COMPLETE)
        triage.give(3, Verdict.INCOMPLETE, "no answer")
        triage.tag([1, 2], "odd")
        triage.untag([2], "odd")
        triage.repeat(3, Verdict.UNSURE)
        triage.note(1, "taken back")
        triage.undo()
        triage.annotator = "ann"
        triage.repeat(1, Verdict.INCOMPLETE)
        project.write(_teach)
        found = CheckEntry(1, "en", frozenset({"email"}), bytes(256))
        project.write(lambda conn: checks.put(conn, [found]))
        project.write(lambda conn: checks.put_copies(conn, [[1, 3]]))
        project.write(
            lambda conn: watched.put(conn, [WatchedEntry(1, 2, 0.25)], "2026-11-01T00:00:00Z")
        )
        ends = [(1, 1, True), (3, 1, False)]
        project.write(lambda conn: generated_ends.add(conn, "config-a", ends))
        project.write(_diverge)
        project.write(lambda conn: requests.put_found(conn, [(2, [5])]))
        project.write(lambda conn: requests.mark(conn, 2, 1, "ann", begins=False))
        project.write(lambda conn: requests.mark(conn, 2, 5, "ann", begins=False))
        project.write(requests.undo)
        goal = RequestGoal(2, 0, 4, "c1", 0.75)
        project.write(lambda conn: requests.put_goals(conn, 1, 1, [goal]))


def _grow(conn: sqlite3.Connection) -> None:
    trees.register(conn, TreeConfig("t", 0.1, "path", "end", "tiny.gguf"))
    row = TreeRow(
        1, 2, "t", 1, None, 9, None, 2, 2, 3, -0.1, -0.05, 0.9, 0.1, 0.0, 0.5, 0.6, 0, 0.7, -0.2, 1, 1, 0.5,
        0.1, "path", "end", "tiny.gguf", None,
    )  # fmt: skip
    trees.add(conn, "t", [TreeEntry(row, {"nodes": 3})])


def _cluster(conn: sqlite3.Connection) -> None:
    goals.register(conn, "g", "tiny.gguf")
    goals.add(conn, "g", 1, [GoalEntry(1, "buy a bicycle"), GoalEntry(2, "I cannot", "it refuses")])
    vectors.register(conn, VectorConfig("v", "summary", "g", "tfidf", "tfidf-1", 2, b"fitted"))
    rows = [struct.pack("<2f", 1, 0), struct.pack("<2f", 0, 1)]
    vectors.add(conn, "v", 1, [1, 3], b"".join(rows), {2: "no goal"})
    clusters = [NewCluster(n, 1, 0.0, 0.0, (f"word{n}",), rows[n]) for n in (0, 1)]
    members = [Member(1, 0, 0.0, 1, 1.0), Member(3, 1, 0.0, 0, 1.0)]
    key = clusterings.add(
        conn, config_hash="c", run_id=1, vector_config="v", k=2, seed=7, clusters=clusters, members=members
    )  # fmt: skip
    clusterings.register_labels(conn, key, "l")
    clusterings.add_labels(conn, key, "l", 1, [LabelEntry(0, "Buying", "They buy.")])
    clusterings.assign(conn, key, 1, [Assigned(2, "c1", 0.5, (("c0", 0.4),), 0.3, 0)])
    groups = [GroupEntry("c0", "c0", None), GroupEntry("c1", "c1", "Asking")]
    goal_groups.put(conn, key, groups, [(3, "c0")])
    second_goals.judge(conn, 2, "c0", "confirm")
    goal_answers.register(conn, key, "p")
    answer = PairAnswer("sides", 0.5, 0.9, 0.8, "alike", "Both", "They both.", "tiny.gguf", 4, 0.1)
    goal_answers.add(conn, "p", 1, [answer])
    goal_answers.add_repetition(conn, key, "s", 1, ("bootstrap", 0), 0.75, {0: 0.5, 1: 1.0})
    moved = GoalDecision(
        "move", ("c1",), parts=(array("q", [1]),), labels=("Where",), id=1, act=1, given_at="2026"
    )
    goal_decisions.append(conn, key, [moved])
    goal_decisions.undo(conn, key)
    goal_decisions.add_unplaced(conn, key, {1: "spread"})


def _play(conn: sqlite3.Connection) -> None:
    plays.register(conn, PlaySetting("s", "sharded", {"seed": 7}, {"assistant": "tiny.gguf"}))
    talk = (("user", "I want a red bicycle"),)
    line = TranscriptLine(
        "assistant", "assistant", talk, "", "Sold!", "end", None, 7, {"temperature": 1.0}
    )
    plays.add(conn, "s", 1, PlayEntry("sharded/a/0", 1, None, {"score": 1.0}, [line]))
    plays.add(conn, "s", 1, PlayEntry("sharded/b/0", None, "it was refused", {}, []))
    plays.add_replies(conn, [("00ff" * 16, ("Sold!", "end", "1 of 3 messages left out"))])


def _probe(conn: sqlite3.Connection) -> None:
    hidden_states.register(conn, "h", "tiny.gguf", None)
    states = struct.pack("<4e", 1, 0, 0.5, -1)
    places = (BoundaryPlace(1, 1, 1, 40, 20), BoundaryPlace(3, 3, 2, 90, 25))
    hidden_states.add(conn, "h", 1, [StateEntry(1, places, states, None, 30)])
    test = EndingTest(20, Interval(0.9, 0.8, 0.95), 0.85, 0.7, 0.6, None, 0)
    score_sets.register(conn, score_sets.ScoreConfig("p", "probe", "tiny.gguf", None, 0.02, test))
    score_sets.register(conn, score_sets.ScoreConfig("o", "outside", "ratings"))


def _diverge(conn: sqlite3.Connection) -> None:
    divergences.register(conn, "d", "tiny.gguf", "adapter")
    entries = [
        (1, Divergence(((1, 0.25), (3, 0.75)), 30)),
        (2, Divergence((), 0, "no assistant step")),
    ]
    divergences.add(conn, "d", 1, entries)


def _teach(conn: sqlite3.Connection) -> None:
    rate = CompletionRate(1, 1, 1.0, Interval(0.9, 0.5, 1.0))
    share = Share(1, 2, 0.1, 0.9)
    test = ExampleProbeTest(1, 1, Interval(0.8, 0.5, 0.9), share, None, 1, 1, 0, rate)
    example_probes.put(
        conn, ExampleProbe("odd", 0.5, 2, test), [(1, 0.75, None), (2, 0.5, 0)], in_force=True
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "p.wb"
        sample_project(made)
        target = Path(__file__).parent / f"schema_{SCHEMA}.sql"
        target.write_text(dump(made), encoding="utf-8", newline="\n")
