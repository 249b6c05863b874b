"""The table of conversations, as an export and as a view of SQL."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Conversation, Message, Verdict
from engine.base.line_files import write_file, write_parquet
from engine.formats.records import Parsed
from engine.opener.conversations import ConversationService
from engine.opener.table_export import TableColumns, table_lines, write_table
from engine.project.project import Project
from engine.questions.records import NewAnswer
from engine.questions.service.triage import TriageService
from engine.trees import tables as trees
from tests.engine.opener.test_fields import COUNT, conversation, project
from tests.engine.project.support import fill
from tests.screens.goals.goal_project import clustered, group_id

__all__ = ["project"]
META = {"meta.channel", "meta.cost", "meta.labels", "meta.model", "meta.user.plan name"}


def test_a_row_has_what_the_other_readers_say(project: Project) -> None:
    """State, scores, verdict, remaining tasks and figures of trees are those that the screens read, row by row."""
    TriageService(project).answer([NewAnswer(3, "odd", "yes")])
    TriageService(project).note(3, "look")
    store = ConversationService(project)
    with project.reading() as conn:
        lines = list(table_lines(conn, None))
        grown = {n: list(trees.trees(conn, n)) for n in range(1, COUNT + 1)}
    assert len(lines) == COUNT
    for line, row in zip(lines, store.rows(range(1, COUNT + 1)), strict=True):
        original = conversation(row.id)
        assert (line["id"], line["state"], line["p"]) == (
            row.external_id,
            row.state,
            row.p_end_normalised,
        )
        assert (line["succeeded"], tuple(line["tags"])) == (row.verdict, row.tags)
        assert (line["turns"], line["length"], line["date"]) == (
            row.turns,
            row.chars,
            row.created_at,
        )
        remaining = store.remaining(row.id)
        assert line["remaining"] == (remaining and remaining.text)
        assert line["leaves"] == max((tree.leaves for tree in grown[row.id]), default=None)
        assert line["entropy"] == max((tree.entropy for tree in grown[row.id]), default=None)
        assert line["perplexity"] == (pytest.approx(math.exp(0.5)) if grown[row.id] else None)
        assert line["meta.cost"] == original.meta["cost"]
        assert line["meta.user.plan name"] == original.meta["user"]["plan name"]
        assert not [name for name in line if name.startswith("truth")]
    assert (lines[2]["tags"], lines[2]["note"]) == (["odd"], "look")
    assert {line["score_set"] for line in lines} == {"base · tiny.gguf", None}


def test_every_format_has_the_same_rows(project: Project, tmp_path: Path) -> None:
    """JSON Lines, CSV and Parquet have the same columns and values."""
    parquet = pytest.importorskip("pyarrow.parquet")
    with project.reading() as conn:
        columns = TableColumns.read(conn, None, truth=True)
        for name in ("t.jsonl", "t.csv"):
            write_file(table_lines(conn, None, truth=True), tmp_path / name, name[2:])
        count = write_table(table_lines(conn, None, truth=True), columns, tmp_path / "t.parquet")
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").open(encoding="utf-8")]
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert count == COUNT
    assert list(lines[0]) == list(rows[0]) == list(table[0])
    assert set(lines[0]) >= META | {"truth.goal", "truth.reward", "goal", "score_set"}
    for line, row, other in zip(lines, rows, table, strict=True):
        assert {**line, "meta.labels": json.dumps(line["meta.labels"], separators=(",", ":"))} == {
            **other, "meta.labels": other["meta.labels"].replace(" ", "")
        }  # fmt: skip
        assert row["id"] == line["id"]
        assert row["p"] == ("" if line["p"] is None else str(line["p"]))


def test_two_fields_of_one_name_have_two_columns(tmp_path: Path) -> None:
    """A key with a dot and a key within a key are columns of their own, with both values; other names stay."""
    meta = {"a.b": 1, "a": {"b": "in a", "c.d": True}, '"a.b"': 2}
    record = Parsed(None, b"1", Conversation("c", (Message("user", "Hi"),), meta))
    with Project.open(tmp_path / "p.wb", create=True) as made:
        fill(made, [record])
        with made.reading() as conn:
            (line,) = table_lines(conn, None)
    fields = {name: value for name, value in line.items() if name.startswith("meta")}
    assert fields == {
        'meta."a.b"': 1,
        "meta.a.b": "in a",
        "meta.a.c.d": True,
        r'meta."\"a.b\""': 2,
    }


def test_the_views_have_the_goals() -> None:
    """`conversation_goal` has the members that the goals screen lists, before and after decisions, and the table the
    same goals with the second ones."""
    made = clustered()
    goals, review = made.goals, made.merge_review
    pair = group_id(made, "Count files"), group_id(made, "Book a table")
    review.merge(review.pair(*pair), "Both")
    merged = next(group for group in goals.groups() if group.label == "Both")
    review.split(merged.id, [[row.conversation_id for row in goals.members(merged.id)[:2]]])
    with made.file.reading() as conn:
        listed = dict(conn.execute("SELECT conversation_id, goal FROM conversation_goal"))
        lines = {line["id"]: line for line in table_lines(conn, None)}
        names = dict(conn.execute("SELECT id, external_id FROM conversation"))
    wanted = {
        row.conversation_id: group.label
        for group in goals.groups()
        for row in goals.members(group.id)
    }
    assert listed == wanted
    assert {lines[names[key]]["goal"] for key in names if key not in wanted} == {None}


def test_other_programs_read_the_views(project: Project) -> None:
    """sqlite-utils, as any program with SQLite alone, reads the table from the file."""
    TriageService(project).give(5, Verdict.UNSURE)
    query = "SELECT id, state, succeeded, goal FROM conversation_table WHERE conversation_id = 5"
    done = subprocess.run(
        [sys.executable, "-m", "sqlite_utils", "query", project.path, query],
        capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [
        {"id": "c5", "state": "incomplete", "succeeded": "unsure", "goal": None}
    ]
    with sqlite3.connect(f"file:{project.path}?mode=ro", uri=True) as conn:
        assert conn.execute("SELECT count(*) FROM conversation_table").fetchone() == (COUNT,)


def test_spreadsheets_run_nothing(tmp_path: Path) -> None:
    """In CSV a text that a spreadsheet would run gets an apostrophe; numbers, also those of logs, stay numbers."""
    inert = [
        "=1+1", "+cmd", "-x", "@SUM(A1)", "\t=1", "\r=1", "- a list", "-5%+1", "-.", "+49 170 1234567",
    ]  # fmt: skip
    as_they_are = ["a=1", "", "'", "-0.5", "+49", "-1,5e3", "-.5", "-5%", "+.5e-3", [1], None]
    lines = [{"text": text, "number": -0.5} for text in (*inert, *as_they_are)]

    write_file(lines, tmp_path / "inert.csv", "csv")
    write_file(lines, tmp_path / "formulas.csv", "csv", formulas=True)
    read = [
        list(csv.DictReader((tmp_path / name).open(encoding="utf-8", newline="")))
        for name in ("inert.csv", "formulas.csv")
    ]

    assert [row["text"] for row in read[0][: len(inert)]] == [f"'{text}" for text in inert]
    assert read[0][len(inert) :] == read[1][len(inert) :]
    assert [row["text"] for row in read[1][: len(inert)]] == inert
    assert {row["number"] for row in read[0]} == {"-0.5"}
    write_file([{"=1": "a"}], tmp_path / "heading.csv", "csv")
    assert (tmp_path / "heading.csv").read_text(encoding="utf-8") == "'=1\na\n"


def test_parquet_takes_large_whole_numbers_beside_fractions(tmp_path: Path) -> None:
    """A column of both is a column of numbers in double precision; pyarrow alone refuses what it would round."""
    parquet = pytest.importorskip("pyarrow.parquet")
    lines: list[dict[str, Any]] = [{"n": value} for value in (0.5, 2**60 + 1, None)]
    assert write_parquet(lines, {"n": "number"}, tmp_path / "n.parquet") == 3
    assert parquet.read_table(tmp_path / "n.parquet")["n"].to_pylist() == [0.5, 2.0**60, None]
