"""Example probes: the examples that a person gave, and what the probes predict for every conversation.

For each subject there are at most two: the one in force, which lists, filters and figures use, and a newer one, which
was fitted to more examples and waits to be taken over. The table `taught` has a row for each probe, `taught_value` one
for each of its predictions.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from engine.base.conversation import SUCCEEDED
from engine.base.statistics.intervals import Interval, Share
from engine.project.sql import chunks, placeholders, to_json
from engine.questions.question import NO, YES
from engine.questions.records import (
    CHANCE,
    CompletionRate,
    ExampleProbe,
    ExampleProbeChange,
    ExampleProbeTest,
    MachineAnswer,
    Proposed,
)
from engine.questions.tables.answers import CURRENT_ANSWERS

Value = tuple[int, float | None, int | None]
"""Conversation, its probability, and its place in the order *most informative first*; None for an example."""

VALUES_IN_FORCE = (
    "SELECT v.conversation_id AS conversation_id, v.p AS p, v.p AS value FROM taught_value AS v"
    " JOIN taught AS t ON t.id = v.taught_id WHERE t.subject = ? AND t.in_force = 1"
    f" AND v.p IS NOT NULL AND (t.subject <> '{SUCCEEDED}'"
    f" OR coalesce(json_extract(t.figures, '$.auroc.low') > {CHANCE}, TRUE))"
)
"""(conversation_id, p) under the probe in force of a subject, as a query to select from; of success nothing while its
own test is at chance (`ExampleProbeTest.tells`)."""

PREDICTIONS = (
    f"SELECT v.conversation_id AS conversation_id, CASE WHEN v.p >= t.threshold THEN '{YES}' ELSE '{NO}' END"
    " AS value FROM taught_value AS v JOIN taught AS t ON t.id = v.taught_id"
    " WHERE t.subject = ? AND t.in_force = 1 AND v.p IS NOT NULL AND v.place IS NOT NULL"
)
"""(conversation_id, value) that a probe in force predicts of those that were no examples, as a query to select from."""


def examples(conn: sqlite3.Connection, question: str) -> dict[int, bool]:
    """Returns which conversations people answered a yes-no question on with yes (true) and with no, in the order of
    ids."""
    rows = conn.execute(
        f"SELECT conversation_id, value FROM ({CURRENT_ANSWERS}) WHERE question = ? AND value IN (?, ?)"
        " ORDER BY conversation_id",
        (question, YES, NO),
    )
    return {key: value == YES for key, value in rows}


def put(
    conn: sqlite3.Connection, probe: ExampleProbe, values: Sequence[Value], in_force: bool
) -> None:
    """Stores a probe in place of the newer one of its subject; if it is to be in force, in place of both."""
    states_replaced = (0, 1) if in_force else (0,)
    conn.execute(
        f"DELETE FROM taught WHERE subject = ? AND in_force IN ({placeholders(states_replaced)})",
        (probe.subject, *states_replaced),
    )
    probe_id = conn.execute(
        "INSERT INTO taught (subject, in_force, marks, threshold, figures) VALUES (?, ?, ?, ?, ?)",
        (
            probe.subject,
            int(in_force),
            probe.marks,
            probe.threshold,
            None if probe.test is None else to_json(asdict(probe.test)),
        ),
    ).lastrowid
    conn.executemany(
        "INSERT INTO taught_value (taught_id, conversation_id, p, place) VALUES (?, ?, ?, ?)",
        ((probe_id, *value) for value in values),
    )


def take_over(conn: sqlite3.Connection, subject: str) -> None:
    """Puts the newer probe of a subject in force; does nothing where there is none, or it has too few examples."""
    newer = get(conn, subject, in_force=False)
    if newer is not None and newer.test is not None and newer.test.enough:
        conn.execute("DELETE FROM taught WHERE subject = ? AND in_force = 1", (subject,))
        conn.execute("UPDATE taught SET in_force = 1 WHERE subject = ?", (subject,))


def get(conn: sqlite3.Connection, subject: str, in_force: bool = True) -> ExampleProbe | None:
    """Returns the probe in force of a subject, or the newer one; None where there is none."""
    row = conn.execute(
        "SELECT threshold, marks, figures FROM taught WHERE subject = ? AND in_force = ?",
        (subject, int(in_force)),
    ).fetchone()
    return None if row is None else ExampleProbe(subject, row[0], row[1], _parse_test(row[2]))


def newest(conn: sqlite3.Connection, subject: str) -> ExampleProbe | None:
    """Returns the newer probe of a subject, otherwise the one in force."""
    return get(conn, subject, in_force=False) or get(conn, subject)


def change(conn: sqlite3.Connection, subject: str) -> ExampleProbeChange | None:
    """Returns what the newer probe of a subject would change; None where there is none, or none is in force."""
    current, newer = get(conn, subject), get(conn, subject, in_force=False)
    if current is None or newer is None or newer.test is None:
        return None
    # How many conversations rise above the threshold, and how many fall below it.
    rising, falling = conn.execute(
        "SELECT coalesce(sum(b.p >= ? AND a.p < ?), 0), coalesce(sum(b.p < ? AND a.p >= ?), 0)"
        " FROM taught AS old JOIN taught_value AS a ON a.taught_id = old.id"
        " JOIN taught AS new ON new.subject = old.subject AND new.in_force = 0"
        " JOIN taught_value AS b ON b.taught_id = new.id AND b.conversation_id = a.conversation_id"
        " WHERE old.subject = ? AND old.in_force = 1",
        (newer.threshold, current.threshold, newer.threshold, current.threshold, subject),
    ).fetchone()
    return ExampleProbeChange(current, newer, rising, falling)


def success_of(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, float]:
    """Returns the probability of success of these conversations under the probe in force; those without one are left
    out."""
    p_by_id: dict[int, float] = {}
    for keys in chunks(ids):
        p_by_id.update(
            conn.execute(
                f"SELECT conversation_id, p FROM ({VALUES_IN_FORCE})"
                f" WHERE conversation_id IN ({placeholders(keys)})",
                (SUCCEEDED, *keys),
            ).fetchall()
        )
    return p_by_id


def predictions(conn: sqlite3.Connection, subject: str) -> list[MachineAnswer]:
    """Returns what the probe in force of a subject predicts, in id order; of an example by a fit that did not see
    it."""
    rows = conn.execute(
        "SELECT v.conversation_id, v.p, v.p >= t.threshold FROM taught_value AS v"
        " JOIN taught AS t ON t.id = v.taught_id"
        " WHERE t.subject = ? AND t.in_force = 1 AND v.p IS NOT NULL ORDER BY v.conversation_id",
        (subject,),
    )
    return [
        MachineAnswer(key, YES if is_yes else NO, p if is_yes else 1 - p) for key, p, is_yes in rows
    ]


def in_order(conn: sqlite3.Connection, subject: str) -> Iterator[tuple[int, float | None]]:
    """Yields (conversation, probability) of the conversations that are no examples of the newest probe, the most
    informative first."""
    return conn.execute(
        "SELECT conversation_id, p FROM taught_value WHERE taught_id ="
        " (SELECT id FROM taught WHERE subject = ? ORDER BY in_force LIMIT 1)"
        " AND place IS NOT NULL ORDER BY place",
        (subject,),
    )


def unranked(conn: sqlite3.Connection, subject: str) -> set[int]:
    """Returns the conversations that were examples when the newest probe was fitted, and so have no place in its
    order."""
    rows = conn.execute(
        "SELECT conversation_id FROM taught_value WHERE taught_id ="
        " (SELECT id FROM taught WHERE subject = ? ORDER BY in_force LIMIT 1) AND place IS NULL",
        (subject,),
    )
    return {row[0] for row in rows}


def proposals(
    conn: sqlite3.Connection, subject: str, ids: Sequence[int] | None = None
) -> Iterator[Proposed]:
    """Yields every imported id with a probability under the probe in force of a subject, in the order of ids.

    Args:
        ids: Ids of the conversations that may be in it; None for all.
    """
    probe = get(conn, subject)
    if probe is None:
        return
    example_by_id = examples(conn, subject)
    allowed_ids = None if ids is None else set(ids)
    rows = conn.execute(
        "SELECT f.conversation_id, c.external_id, source.label, f.p"
        f" FROM ({VALUES_IN_FORCE}) AS f JOIN conversation AS c ON c.id = f.conversation_id"
        " JOIN source ON source.id = c.source_id ORDER BY f.conversation_id",
        (subject,),
    ).fetchall()
    for key, name, source, p in rows:
        if allowed_ids is None or key in allowed_ids:
            example = example_by_id.get(key)
            yield Proposed(key, name, source, p, example, example is None and p >= probe.threshold)


def subjects(conn: sqlite3.Connection) -> list[str]:
    """Returns the subjects that have a probe in force, in alphabetical order."""
    rows = conn.execute("SELECT subject FROM taught WHERE in_force = 1 ORDER BY subject")
    return [row[0] for row in rows]


def _parse_test(text: str | None) -> ExampleProbeTest | None:
    """Returns the test of a probe from its stored JSON; None where the probe has none."""
    if text is None:
        return None
    fields: dict[str, Any] = json.loads(text)
    rate = fields["rate"]
    corrected = rate["corrected"]
    return ExampleProbeTest(
        **{
            **fields,
            "auroc": Interval(**fields["auroc"]),
            "agreement": Share(**fields["agreement"]),
            "precision": None if fields["precision"] is None else Share(**fields["precision"]),
            "rate": CompletionRate(
                **{**rate, "corrected": None if corrected is None else Interval(**corrected)}
            ),
        }
    )
