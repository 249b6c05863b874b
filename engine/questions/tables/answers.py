"""What people answer. Rows are appended and never changed; the current state is derived; undo appends a row.

An answer to `SUCCEEDED` is a *verdict*, and one to `NOTE` a text; what a person tags is answered `yes`. A verdict holds
for the text that it was given to. Where an import replaced the text, it stays in the log and is shown, but it is not in
force; other answers are.

An answer is in force unless the newest row that targets it is an `undo`. Answers on many conversations, and imported
ones, are one act: its rows are adjacent, have one time that no other act has, and are undone and redone together.

Each row has the name of the person who gave it, empty without one. The newest answer of the kind `give` is the one in
force, whoever gave it; those of the kind `repeat` are given without seeing it: by the same person to see how sure they
are, or by another person (`engine.questions.tables.opinions`).
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Literal, NamedTuple

from engine.base.conversation import SUCCEEDED, Verdict, without_surrogates
from engine.base.errors import UsageError
from engine.base.text import display_safe
from engine.completeness.tables import score_sets
from engine.project.schema import NOT_UNDONE, OF_THIS_TEXT
from engine.project.sql import rows_in, utc_now
from engine.questions.question import NOTE, YES
from engine.questions.records import AnswerRow, EarlierAnswers, NewAnswer

_COLUMNS = "v.id, v.conversation_id, v.question, v.value, v.given_at, v.kind, v.annotator"
"""The columns of a row `v` of `answer`, in the order of `_StoredAnswer`."""

IS_ANSWER = "v.target IS NULL"
"""SQL condition on a row `v` of `answer`: it answers a question, and can be undone."""

CURRENT_ANSWERS = (
    "SELECT * FROM (SELECT v.conversation_id AS conversation_id, v.question AS question,"
    " v.value AS value, v.annotator AS annotator, max(v.id) AS id FROM answer AS v"
    f" WHERE v.kind = 'give' AND {NOT_UNDONE} AND (v.question <> '{SUCCEEDED}' OR {OF_THIS_TEXT})"
    " GROUP BY v.question, v.conversation_id) WHERE value IS NOT NULL"
)
"""(conversation_id, question, value, annotator, id) of every answer in force, as a query to select from."""

CURRENT_VERDICTS = (
    f"SELECT conversation_id, value AS verdict, annotator, id FROM ({CURRENT_ANSWERS})"
    f" WHERE question = '{SUCCEEDED}'"
)
"""(conversation_id, verdict, annotator, id) of every conversation that has one, as a query to select from."""

CURRENT_NOTES = (
    f"SELECT conversation_id, value AS note FROM ({CURRENT_ANSWERS}) WHERE question = '{NOTE}'"
)
"""(conversation_id, note) of every conversation that has one."""

CURRENT_TAGS = (
    f"SELECT conversation_id, question AS tag FROM ({CURRENT_ANSWERS})"
    f" WHERE value = '{YES}' AND question NOT IN ('{SUCCEEDED}', '{NOTE}')"
)
"""(conversation_id, tag) of every question beside `SUCCEEDED` that is answered `yes`."""


class _StoredAnswer(NamedTuple):
    """A row of the table of answers; the value is None where an earlier answer was taken away."""

    id: int
    conversation_id: int
    question: str
    value: str | None
    given_at: str
    kind: str
    annotator: str


def append(conn: sqlite3.Connection, acts: Sequence[NewAnswer]) -> AnswerRow:
    """Stores answers as one act, and returns the row of the last one."""
    give_all(conn, acts)
    row = conn.execute(f"SELECT {_COLUMNS} FROM answer AS v ORDER BY v.id DESC LIMIT 1").fetchone()
    return _row(row, 1)


def give_all(conn: sqlite3.Connection, acts: Sequence[NewAnswer]) -> None:
    """Appends answers as one act.

    Raises:
        UsageError: A text cannot be stored.
    """
    for act in acts:
        _check_text(act.question)
        _check_text("" if act.value is None else act.value)
        _check_text(act.annotator)
    rows, time = [], _later_than_newest(conn)
    for act in acts:
        *columns, blind = astuple(act)
        rows.append((*columns, "repeat" if blind else "give", time))
    conn.executemany(
        "INSERT INTO answer (conversation_id, question, value, annotator, kind, given_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        rows,
    )


def change(conn: sqlite3.Connection, acts: Sequence[NewAnswer]) -> int:
    """Appends those answers as one act that are not in force already, and returns on how many conversations they are;
    verdicts and blind answers are appended in any case.

    Raises:
        UsageError: A text cannot be stored.
    """
    in_force: dict[tuple[str, int], str | None] = {}
    query = (
        f"SELECT conversation_id, value FROM ({CURRENT_ANSWERS}) WHERE question = ?"
        " AND conversation_id IN"
    )
    for question in {act.question for act in acts}:
        keys = [act.conversation_id for act in acts if act.question == question]
        rows = rows_in(conn, query, keys, (question,))
        in_force |= {(question, key): value for key, value in rows}
    new = []
    for act in acts:
        place = act.question, act.conversation_id
        if act.blind or act.question == SUCCEEDED or in_force.get(place) != act.value:
            new.append(act)
        if not act.blind:
            in_force[place] = act.value
    give_all(conn, new)
    return len({act.conversation_id for act in new})


def _later_than_newest(conn: sqlite3.Connection) -> str:
    """Returns the current time, but later than the newest row: acts are distinguished by their times."""
    newest = conn.execute("SELECT given_at FROM answer ORDER BY id DESC LIMIT 1").fetchone()
    time = utc_now()
    while newest is not None and time == newest[0]:
        time = utc_now()
    return time


def undo(conn: sqlite3.Connection) -> AnswerRow | None:
    """Undoes the newest act in force and returns it; None when nothing is left."""
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM answer AS v WHERE {IS_ANSWER} AND {NOT_UNDONE}"
        " ORDER BY v.id DESC LIMIT 1"
    ).fetchone()
    return None if row is None else _undo_or_redo(conn, row, "undo")


def redo(conn: sqlite3.Connection) -> AnswerRow | None:
    """Redoes the act that the newest undo took back; None when nothing was undone since the last act."""
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM answer AS u JOIN answer AS v ON v.id = u.target"
        " WHERE u.kind = 'undo' AND u.id > (SELECT max(id) FROM answer"
        f" WHERE target IS NULL) AND NOT {NOT_UNDONE} ORDER BY u.id DESC LIMIT 1"
    ).fetchone()
    return None if row is None else _undo_or_redo(conn, row, "redo")


def _undo_or_redo(
    conn: sqlite3.Connection, row: tuple[Any, ...], kind: Literal["undo", "redo"]
) -> AnswerRow:
    """Appends an undo or redo for every row of the act that `row`, its newest one, is of.

    Returns the newest verdict of the act, else its newest row, with the number of conversations.
    """
    newest, _, _, _, given_at, *_ = row
    edge = "SELECT {0}(id) FROM answer WHERE id {1} ? AND given_at <> ?"
    (before,) = conn.execute(edge.format("max", "<"), (newest, given_at)).fetchone()
    (after,) = conn.execute(edge.format("min", ">"), (newest, given_at)).fetchone()
    first = 1 if before is None else before + 1
    (end,) = conn.execute("SELECT max(id) FROM answer").fetchone()
    last = end if after is None else after - 1
    conn.execute(
        "INSERT INTO answer (conversation_id, question, kind, given_at, target)"
        " SELECT conversation_id, '', ?, ?, id FROM answer WHERE id BETWEEN ? AND ? ORDER BY id",
        (kind, _later_than_newest(conn), first, last),
    )
    act = "FROM answer AS v WHERE v.id BETWEEN ? AND ?"
    (count,) = conn.execute(
        f"SELECT count(DISTINCT v.conversation_id) {act}", (first, last)
    ).fetchone()
    row = conn.execute(
        f"SELECT {_COLUMNS} {act} ORDER BY v.kind = 'give' AND v.question = '{SUCCEEDED}' DESC, v.id DESC"
        " LIMIT 1",
        (first, last),
    ).fetchone()
    return _row(row, count)


def current(conn: sqlite3.Connection, conversation_id: int) -> AnswerRow | None:
    """Returns the verdict, the note and the other answers in force, with the id and time of the newest row of them."""
    rows = conn.execute(
        f"SELECT {_COLUMNS} FROM answer AS v WHERE v.conversation_id = ? AND v.kind = 'give'"
        f" AND {NOT_UNDONE} ORDER BY v.id DESC",
        (conversation_id,),
    ).fetchall()
    if not rows:
        return None
    answers = [_StoredAnswer(*row) for row in rows]
    newest: dict[str, _StoredAnswer] = {}
    for answer in answers:
        newest.setdefault(answer.question, answer)
    in_force = {name: newest[name] for name in sorted(newest) if newest[name].value is not None}
    earlier = _earlier(conn, conversation_id, in_force)
    if earlier is not None and earlier.verdict is not None:
        del in_force[SUCCEEDED]
    verdict, note = in_force.pop(SUCCEEDED, None), in_force.pop(NOTE, None)
    return AnswerRow(
        answers[0].id,
        conversation_id,
        None if verdict is None or verdict.value is None else Verdict(verdict.value),
        "" if note is None else note.value or "",
        answers[0].given_at,
        tuple((name, answer.value or "") for name, answer in in_force.items()),
        earlier=earlier,
        annotator="" if verdict is None else verdict.annotator,
    )


def _earlier(
    conn: sqlite3.Connection, conversation_id: int, in_force: Mapping[str, _StoredAnswer]
) -> EarlierAnswers | None:
    """Returns which of the newest answers, given by question, were given to an earlier text; None without any."""
    states: list[tuple[int, int]] = conn.execute(
        "SELECT answer_id, messages FROM earlier_state WHERE conversation_id = ? ORDER BY id",
        (conversation_id,),
    ).fetchall()
    last = states[-1][0] if states else 0
    earlier = {name: answer for name, answer in in_force.items() if answer.id <= last}
    if not earlier:
        return None
    newest = max(answer.id for answer in earlier.values())
    verdict, note = earlier.pop(SUCCEEDED, None), earlier.pop(NOTE, None)
    return EarlierAnswers(
        messages=next(count for answer_id, count in states if newest <= answer_id),
        verdict=None if verdict is None or verdict.value is None else Verdict(verdict.value),
        note=note is not None,
        answers=tuple((name, answer.value or "") for name, answer in earlier.items()),
    )


def of_question(conn: sqlite3.Connection, question: str) -> dict[int, tuple[str, str]]:
    """Returns (answer in force, name of the person) by conversation."""
    rows = conn.execute(
        f"SELECT conversation_id, value, annotator FROM ({CURRENT_ANSWERS}) WHERE question = ?",
        (question,),
    )
    return {key: (value, annotator) for key, value, annotator in rows}


def counts(conn: sqlite3.Connection, question: str) -> dict[str, int]:
    """Returns the number of conversations by the answer in force to a question, the most frequent first."""
    return dict(
        conn.execute(
            f"SELECT value, count(*) FROM ({CURRENT_ANSWERS}) WHERE question = ? GROUP BY value"
            " ORDER BY 2 DESC, 1",
            (question,),
        ).fetchall()
    )


def in_force(conn: sqlite3.Connection) -> list[tuple[int, Verdict]]:
    """Returns (conversation, verdict in force) of everything that has one, in id order."""
    rows = conn.execute(
        f"SELECT conversation_id, verdict FROM ({CURRENT_VERDICTS}) ORDER BY conversation_id"
    )
    return [(row[0], Verdict(row[1])) for row in rows]


def newest_id(conn: sqlite3.Connection) -> int:
    """Returns the id of the newest row of the log of answers; 0 without one."""
    return int(conn.execute("SELECT coalesce(max(id), 0) FROM answer").fetchone()[0])


def imported_outcomes(conn: sqlite3.Connection) -> dict[int, bool]:
    """Returns which conversations succeeded by the outcome that came with them; of several kinds the best known
    counts."""
    rows = conn.execute(
        "SELECT conversation_id, CASE WHEN number IS NULL THEN value = 'true' ELSE number >= 1 END"
        " FROM facet JOIN conversation_facet ON facet_id = facet.id"
        " WHERE key IN ('truth.reward', 'truth.success', 'truth.succeeded')"
        " AND (number IS NOT NULL OR value IN ('true', 'false'))"
        " ORDER BY key = 'truth.succeeded', key = 'truth.success', value DESC"  # the last one holds
    )
    return {key: bool(succeeded) for key, succeeded in rows}


def judged_pairs(conn: sqlite3.Connection) -> list[tuple[int, Verdict, float | None]]:
    """Returns (conversation, current verdict, current normalized score) of everything that has a verdict, in id
    order."""
    return [
        (row[0], Verdict(row[1]), row[2])
        for row in conn.execute(
            "SELECT j.conversation_id, j.verdict, s.p_end_normalised"
            f" FROM ({CURRENT_VERDICTS}) AS j LEFT JOIN score AS s"
            " ON s.conversation_id = j.conversation_id"
            " AND s.config_hash = ? ORDER BY j.conversation_id",
            (score_sets.hash_in_force(conn),),
        )
    ]


def scored_values(conn: sqlite3.Connection) -> tuple[array[int], array[float]]:
    """Returns the ids and current normalized scores of all scored conversations, by rising score."""
    ids, values = array("q"), array("d")
    cursor = conn.execute(
        "SELECT conversation_id, p_end_normalised FROM score WHERE config_hash = ?"
        " AND p_end_normalised IS NOT NULL ORDER BY p_end_normalised, conversation_id",
        (score_sets.hash_in_force(conn),),
    )
    while rows := cursor.fetchmany(10_000):
        some_ids, some_values = zip(*rows, strict=True)
        ids.extend(some_ids)
        values.extend(some_values)
    return ids, values


def _check_text(text: object) -> None:
    """Raises UsageError if an answer or a name cannot be stored."""
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no text.", "Answers and names are texts (str).")
    if text != without_surrogates(text):
        raise UsageError(
            f"{display_safe(text)!r} holds bytes that are no text.",
            "Answers and names are UTF-8; check the encoding of the terminal.",
        )


def _row(row: tuple[Any, ...], count: int) -> AnswerRow:
    """Returns the record of a row of `_COLUMNS`, whose act has `count` conversations."""
    answer = _StoredAnswer(*row)
    is_verdict, is_note = answer.question == SUCCEEDED, answer.question == NOTE
    return AnswerRow(
        answer.id,
        answer.conversation_id,
        Verdict(answer.value) if is_verdict and answer.value is not None else None,
        (answer.value or "") if is_note else "",
        answer.given_at,
        () if is_verdict or is_note else ((answer.question, answer.value or ""),),
        answer.question,
        blind=answer.kind == "repeat",
        count=count,
        annotator=answer.annotator,
    )


def tags(conn: sqlite3.Connection) -> list[tuple[str, int]]:
    """Returns the tags in force in alphabetical order, each with its number of conversations."""
    return conn.execute(
        f"SELECT tag, count(*) FROM ({CURRENT_TAGS}) GROUP BY tag ORDER BY tag"
    ).fetchall()


def tags_of(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Returns the tags in force of these conversations, in alphabetical order; conversations without any are left
    out."""
    tags_by_id: dict[int, tuple[str, ...]] = {}
    query = f"SELECT conversation_id, tag FROM ({CURRENT_TAGS}) WHERE conversation_id IN"
    for key, tag in rows_in(conn, query, ids, order="ORDER BY tag"):
        tags_by_id[key] = (*tags_by_id.get(key, ()), tag)
    return tags_by_id
