"""The answers of patterns, models and files. They are keyed by the configuration that gave them, like every result;
those in force are of the newest configuration of each name. What was drawn to check them is a setting.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from typing import NamedTuple

import msgspec

from engine.project import settings
from engine.project.sql import read_ids, to_json
from engine.questions.answer_check import AnswerCheck
from engine.questions.records import EXAMPLES, Answerer, MachineAnswer
from engine.questions.tables import example_probes

IN_FORCE = "a.rowid IN (SELECT max(rowid) FROM answerer GROUP BY question, kind, name)"
"""SQL condition on a row `a` of `answerer`: it is the newest one of its name."""


def renew(conn: sqlite3.Connection, config_hash: str) -> None:
    """Makes a configuration that has answers already the newest one of its name again."""
    conn.execute(
        "UPDATE answerer SET rowid = (SELECT max(rowid) + 1 FROM answerer) WHERE config_hash = ?",
        (config_hash,),
    )


def put(
    conn: sqlite3.Connection, answerer: Answerer, run_id: int, answers: Iterable[MachineAnswer]
) -> None:
    """Stores answers and their answerer; they replace its answers on the same conversations."""
    conn.execute(
        "INSERT INTO answerer (config_hash, question, kind, name) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        astuple(answerer),
    )
    conn.executemany(
        "INSERT OR REPLACE INTO machine_answer VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                answerer.config_hash,
                answer.conversation_id,
                run_id,
                answer.value,
                answer.p,
                answer.explanation,
                to_json(answer.cites) if answer.cites else "[]",
                answer.note,
            )
            for answer in answers
        ),
    )


def answered(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations on which a configuration has an answer or a failure."""
    return read_ids(
        conn,
        "SELECT conversation_id FROM machine_answer WHERE config_hash = ?",
        (config_hash,),
    )


def forget_failures(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes the rows of a configuration without a value, so that it can be asked again on their conversations."""
    conn.execute(
        "DELETE FROM machine_answer WHERE config_hash = ? AND value IS NULL", (config_hash,)
    )


def drop(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes the answers of a configuration."""
    for table in ("machine_answer", "answerer"):
        conn.execute(f"DELETE FROM {table} WHERE config_hash = ?", (config_hash,))


def of_question(
    conn: sqlite3.Connection, question: str
) -> dict[int, list[tuple[Answerer, MachineAnswer]]]:
    """Returns the answers in force to a question with their answerers, by conversation id, the newest answerer first.
    Answers without a value are among them if they have a note."""
    result: dict[int, list[tuple[Answerer, MachineAnswer]]] = {}
    condition = "a.question = ? AND (m.value IS NOT NULL OR m.note <> '') ORDER BY a.rowid DESC"
    for answerer, answer in _in_force(conn, condition, question):
        result.setdefault(answer.conversation_id, []).append((answerer, answer))
    return result


def of_conversation(
    conn: sqlite3.Connection, conversation_id: int
) -> list[tuple[Answerer, MachineAnswer]]:
    """Returns the answers in force on a conversation with their answerers, by question, the newest answerer first."""
    condition = "m.conversation_id = ? AND m.value IS NOT NULL ORDER BY a.question, a.rowid DESC"
    return list(_in_force(conn, condition, conversation_id))


def _in_force(
    conn: sqlite3.Connection, condition: str, parameter: object
) -> Iterator[tuple[Answerer, MachineAnswer]]:
    """Yields the answers in force that match a condition in SQL, with their answerers."""
    for *answerer, key, value, p, explanation, cites, note in conn.execute(
        "SELECT a.config_hash, a.question, a.kind, a.name, m.conversation_id, m.value, m.p,"
        " m.explanation, m.cites, m.note FROM answerer AS a JOIN machine_answer AS m USING (config_hash)"
        f" WHERE {IN_FORCE} AND {condition}",
        (parameter,),
    ):
        places = tuple(map(tuple, json.loads(cites)))
        yield Answerer(*answerer), MachineAnswer(key, value, p, explanation, places, note)


def answerers(conn: sqlite3.Connection, question: str) -> list[tuple[Answerer, dict[str, int]]]:
    """Returns the answerers of a question, the newest first, each with the number of conversations by answer."""
    result = []
    for row in conn.execute(
        "SELECT a.config_hash, a.question, a.kind, a.name FROM answerer AS a WHERE a.question = ?"
        f" AND {IN_FORCE} ORDER BY a.rowid DESC",
        (question,),
    ).fetchall():
        counts = conn.execute(
            "SELECT value, count(*) FROM machine_answer WHERE config_hash = ? AND value IS NOT NULL"
            " GROUP BY value ORDER BY 2 DESC, 1",
            row[:1],
        ).fetchall()
        result.append((Answerer(*row), dict(counts)))
    return result


def of_answerer(conn: sqlite3.Connection, config_hash: str) -> list[MachineAnswer]:
    """Returns the answers of a configuration that have a value, without explanations and places, in id order."""
    rows = conn.execute(
        "SELECT conversation_id, value, p FROM machine_answer WHERE config_hash = ?"
        " AND value IS NOT NULL ORDER BY conversation_id",
        (config_hash,),
    )
    return [MachineAnswer(*row) for row in rows]


def values_by_name(
    conn: sqlite3.Connection, question: str, others: Iterable[str]
) -> dict[str, dict[int, str]]:
    """Returns the values by the name of the answerer and by conversation id, the newest answerer first.

    A name that others have too, machines of another kind or those in `others`, has the kind behind it.
    """
    in_force = [answerer for answerer, _ in answerers(conn, question)]
    name_counts = Counter([*others, *(answerer.name for answerer in in_force)])
    result: dict[str, dict[int, str]] = {}
    for answerer in in_force:
        shared = name_counts[answerer.name] > 1
        name = f"{answerer.name} ({answerer.kind})" if shared else answerer.name
        rows = of_answerer(conn, answerer.config_hash)
        result[name] = {row.conversation_id: str(row.value) for row in rows}
    return result


class Machine(NamedTuple):
    """A machine that answered a question: its name, its configuration, and its answers that have a value."""

    name: str
    config_hash: str
    answers: list[MachineAnswer]


def machines(conn: sqlite3.Connection, question: str) -> Iterator[Machine]:
    """Yields each machine that answered a question, the newest first; at last the probe fitted to examples, if its test
    is better than chance."""
    for answerer, _ in answerers(conn, question):
        answers = of_answerer(conn, answerer.config_hash)
        yield Machine(answerer.name, answerer.config_hash, answers)
    probe = example_probes.get(conn, question)
    if probe is not None and probe.tells:
        yield Machine(EXAMPLES, EXAMPLES, example_probes.predictions(conn, question))


def checks(conn: sqlite3.Connection, question: str) -> dict[str, AnswerCheck]:
    """Returns the checks of a question by configuration, the newest last."""
    stored = settings.get(conn, f"check.{question}", {})
    return {config: msgspec.convert(check, AnswerCheck) for config, check in stored.items()}


def newest_check(conn: sqlite3.Connection, question: str) -> AnswerCheck | None:
    """Returns the check that was begun last; None before any."""
    return next(reversed(checks(conn, question).values()), None)


def put_check(
    conn: sqlite3.Connection, question: str, config_hash: str, check: AnswerCheck | None
) -> None:
    """Stores a check as the newest one, in place of that of the same configuration; None only deletes that."""
    stored = checks(conn, question)
    stored.pop(config_hash, None)
    if check is not None:
        stored[config_hash] = check
    settings.put(conn, f"check.{question}", msgspec.to_builtins(stored))
