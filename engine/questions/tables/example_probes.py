"""Example probes: the examples that a person gave, and what the probes predict for every conversation.

Each subject has at most one, which lists, filters and figures use. The table `taught` has a row for each probe,
`taught_value` one for each of its predictions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import msgspec

from engine.base.conversation import SUCCEEDED
from engine.project.sql import rows_in, to_json
from engine.questions.question import NO, YES
from engine.questions.records import CHANCE, YES_FROM, ExampleProbe, ExampleProbeTest, MachineAnswer
from engine.questions.tables.answers import CURRENT_ANSWERS

Value = tuple[int, float | None, int | None]
"""Id of a conversation, its probability, None without a fit, and its place in the order *most informative first*, None
for an example."""

VALUES = (
    "SELECT v.conversation_id AS conversation_id, v.p AS p, v.p AS value FROM taught_value AS v"
    " JOIN taught AS t ON t.id = v.taught_id WHERE t.subject = ?"
    f" AND +v.p IS NOT NULL AND (t.subject <> '{SUCCEEDED}'"
    f" OR coalesce(json_extract(t.figures, '$.auroc.low') > {CHANCE}, TRUE))"
)
"""(conversation_id, p) under the probe of a subject, as a query to select from; of success nothing while its own test
is at chance (`ExampleProbeTest.tells`). The plus keeps SQLite from going through all p for those of a page."""

PREDICTIONS = (
    f"SELECT v.conversation_id AS conversation_id, CASE WHEN v.p >= {YES_FROM} THEN '{YES}' ELSE '{NO}' END"
    " AS value FROM taught_value AS v JOIN taught AS t ON t.id = v.taught_id"
    " WHERE t.subject = ? AND v.p IS NOT NULL AND v.place IS NOT NULL"
)
"""Query to select from: (conversation_id, value) of what a probe predicts for conversations that were not among its
examples."""


def examples(conn: sqlite3.Connection, question: str) -> dict[int, bool]:
    """Returns which conversations people answered a yes-no question on with yes (true) and with no, in the order of
    ids."""
    rows = conn.execute(
        f"SELECT conversation_id, value FROM ({CURRENT_ANSWERS}) WHERE question = ? AND value IN (?, ?)"
        " ORDER BY conversation_id",
        (question, YES, NO),
    )
    return {key: value == YES for key, value in rows}


def put(conn: sqlite3.Connection, probe: ExampleProbe, values: Sequence[Value]) -> None:
    """Stores a probe in place of that of its subject."""
    conn.execute("DELETE FROM taught WHERE subject = ?", (probe.subject,))
    probe_id = conn.execute(
        "INSERT INTO taught (subject, marks, figures) VALUES (?, ?, ?)",
        (
            probe.subject,
            probe.marks,
            None if probe.test is None else to_json(asdict(probe.test)),
        ),
    ).lastrowid
    conn.executemany(
        "INSERT INTO taught_value (taught_id, conversation_id, p, place) VALUES (?, ?, ?, ?)",
        ((probe_id, *value) for value in values),
    )


def get(conn: sqlite3.Connection, subject: str) -> ExampleProbe | None:
    """Returns the probe of a subject; None where there is none."""
    row = conn.execute("SELECT marks, figures FROM taught WHERE subject = ?", (subject,)).fetchone()
    if row is None:
        return None
    marks, test = row
    return ExampleProbe(
        subject, marks, None if test is None else msgspec.json.decode(test, type=ExampleProbeTest)
    )


def success_of(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, float]:
    """Returns the probability of success of these conversations; those without one are left out."""
    query = f"SELECT conversation_id, p FROM ({VALUES}) WHERE conversation_id IN"
    return dict(rows_in(conn, query, ids, (SUCCEEDED,)))


def predictions(conn: sqlite3.Connection, subject: str) -> list[MachineAnswer]:
    """Returns what the probe of a subject predicts, in id order; of an example by a fit that did not see it."""
    rows = conn.execute(
        "SELECT v.conversation_id, v.p FROM taught_value AS v JOIN taught AS t ON t.id = v.taught_id"
        " WHERE t.subject = ? AND v.p IS NOT NULL ORDER BY v.conversation_id",
        (subject,),
    )
    return [
        MachineAnswer(key, YES, p) if p >= YES_FROM else MachineAnswer(key, NO, 1 - p)
        for key, p in rows
    ]


def in_order(conn: sqlite3.Connection, subject: str) -> Iterator[tuple[int, float | None]]:
    """Yields (conversation, probability) of the conversations that are no examples of the probe, the most
    informative first."""
    return conn.execute(
        "SELECT conversation_id, p FROM taught_value WHERE taught_id ="
        " (SELECT id FROM taught WHERE subject = ?) AND place IS NOT NULL ORDER BY place",
        (subject,),
    )


def unranked(conn: sqlite3.Connection, subject: str) -> set[int]:
    """Returns the ids of the conversations that were examples when the probe was fitted, and so have no place in its
    order."""
    rows = conn.execute(
        "SELECT conversation_id FROM taught_value WHERE taught_id ="
        " (SELECT id FROM taught WHERE subject = ?) AND place IS NULL",
        (subject,),
    )
    return {row[0] for row in rows}
