"""Signs of trouble as they are stored: those of each conversation, and its trouble.

Of a sign `value` says how strong it is, and `score` how far above the mean of all conversations that is, in standard
deviations; 0 for a sign that all have alike, which is left out of every answer. The trouble of a conversation is the
sum of its scores for all signs that count, also for those that it does not have, which are below 0.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engine.base.sign import ANY_SIGN, Sign, SignReading
from engine.conversations.filter_fields import FieldQuery
from engine.conversations.filters import Term
from engine.conversations.tables.fields import (
    add_any_or_none,
    choice_counts,
    ids_in_order,
    named_values,
    number_condition,
    select_among,
)
from engine.project import settings
from engine.project.sql import IdSet, placeholders, read_ids, rows_in

if TYPE_CHECKING:
    from engine.base.arrays import Floats, Ints

READING = 5
"""Number of the way in which signs are read, to be raised whenever the same text may give other signs."""

READING_SETTING = "signs.reading"
"""Setting: by which `READING` the stored signs were read; 1 where there is none."""

_SIGNS = "SELECT conversation_id FROM sign WHERE score > 0"
"""Beginning of a query of the ids of the conversations that have a sign."""


def is_outdated(conn: sqlite3.Connection) -> bool:
    """Returns whether the stored signs were read in another way than `READING`, or none are stored yet."""
    return bool(settings.get(conn, READING_SETTING, 1) != READING)


def forget_outdated(conn: sqlite3.Connection) -> None:
    """Deletes all signs, so that they are read anew."""
    conn.execute("DELETE FROM sign")
    conn.execute("DELETE FROM trouble")
    settings.put(conn, READING_SETTING, READING)


def unread_ids(conn: sqlite3.Connection) -> array[int]:
    """Returns the ids of the conversations whose signs were not read in their present text, ascending."""
    return read_ids(
        conn,
        "SELECT id FROM conversation WHERE id NOT IN (SELECT conversation_id FROM trouble) ORDER BY id",
    )


def put(conn: sqlite3.Connection, signs_by_id: Mapping[int, Sequence[SignReading]]) -> None:
    """Stores the signs of conversations that were not read yet."""
    conn.executemany(
        "INSERT INTO trouble (conversation_id) VALUES (?)", [(key,) for key in signs_by_id]
    )
    conn.executemany(
        "INSERT INTO sign (conversation_id, sign, value, messages, reason) VALUES (?, ?, ?, ?, ?)",
        [
            (key, reading.sign, reading.value, json.dumps(reading.messages), reading.reason)
            for key, signs in signs_by_id.items()
            for reading in signs
        ],
    )


def of_conversations(
    conn: sqlite3.Connection, ids: Sequence[int]
) -> dict[int, tuple[SignReading, ...]]:
    """Returns the signs of each of these conversations, those first that the fewest have; conversations without any are
    left out, and so are signs that all have alike."""
    signs_by_id: dict[int, tuple[SignReading, ...]] = {}
    rows = rows_in(
        conn,
        "SELECT conversation_id, sign, value, messages, reason FROM sign WHERE score > 0"
        " AND conversation_id IN",
        ids,
        order="ORDER BY score DESC, sign",
    )
    for key, sign, value, messages, reason in rows:
        reading = SignReading(Sign(sign), value, tuple(json.loads(messages)), reason)
        signs_by_id[key] = (*signs_by_id.get(key, ()), reading)
    return signs_by_id


def trouble_of(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, float]:
    """Returns the trouble of each of these conversations; those whose signs were not read are left out."""
    query = (
        "SELECT conversation_id, total FROM trouble WHERE total IS NOT NULL AND conversation_id IN"
    )
    return dict(rows_in(conn, query, ids))


def ids_most_trouble_first(conn: sqlite3.Connection) -> Iterator[int]:
    """Yields the ids of the conversations whose signs were read, the most trouble first."""
    rows = conn.execute("SELECT conversation_id FROM trouble ORDER BY total DESC, conversation_id")
    return (key for (key,) in rows)


def trouble_by_id(conn: sqlite3.Connection) -> dict[int, float]:
    """Returns the trouble of each conversation whose signs were read."""
    return dict(conn.execute("SELECT conversation_id, total FROM trouble WHERE total IS NOT NULL"))


class SignValues(NamedTuple):
    """The signs of all conversations as numbers.

    Attributes:
        ids: Ascending; shape (conversations,).
        messages: Number of messages of each, shape (conversations,).
        values: Of each sign in the order of `Sign`, shape (conversations, signs): 0 for one that is not
            there, and for `Sign.LONG` the logarithm of 1 + messages of every conversation.
    """

    ids: Ints
    messages: Ints
    values: Floats


def sign_values(conn: sqlite3.Connection) -> SignValues:
    """Reads the signs of all conversations as numbers."""
    import numpy as np  # here: the list waits for no library of numbers

    rows = conn.execute("SELECT id, messages FROM conversation ORDER BY id").fetchall()
    ids, messages = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    signs = list(Sign)
    table = np.zeros((len(ids), len(signs)))
    for column, sign in enumerate(signs):
        of_sign = conn.execute("SELECT conversation_id, value FROM sign WHERE sign = ?", (sign,))
        ids_with_sign, values = np.array(of_sign.fetchall(), dtype=np.float64).reshape(-1, 2).T
        table[np.searchsorted(ids, ids_with_sign.astype(np.int64)), column] = values
    table[:, signs.index(Sign.LONG)] = np.log1p(messages)
    return SignValues(ids, messages, table)


def is_compared(conn: sqlite3.Connection) -> bool:
    """Returns whether `compare` ran after the newest signs were stored."""
    rows = conn.execute("SELECT 1 FROM trouble WHERE total IS NULL LIMIT 1")
    return rows.fetchone() is None


def compare(conn: sqlite3.Connection) -> None:
    """Stores which conversations are long among the others, and the standard scores of all signs and their sums."""
    import numpy as np

    from engine.signs.sums import are_long, standard_scores, trouble

    ids, messages, table = sign_values(conn)
    conn.execute("DELETE FROM sign WHERE sign = ?", (Sign.LONG,))
    if not len(ids):
        return
    is_long = are_long(messages)
    usual = f"half of all have at most {np.median(messages):,.0f}"
    conn.executemany(
        "INSERT INTO sign (conversation_id, sign, value, messages, reason) VALUES (?, ?, ?, '[]', ?)",
        [
            (int(ids[row]), Sign.LONG, value, f"{messages[row]:,} messages; {usual}")
            for row, value in enumerate(table[:, list(Sign).index(Sign.LONG)].tolist())
            if is_long[row]
        ],
    )
    scores = standard_scores(table)
    for column, sign in enumerate(Sign):
        conn.executemany(
            "UPDATE sign SET score = ? WHERE conversation_id = ? AND sign = ?",
            [
                (scores[row, column], int(ids[row]), sign)
                for row in np.flatnonzero(table[:, column]).tolist()
            ],
        )
    conn.executemany(
        "UPDATE trouble SET total = ? WHERE conversation_id = ?",
        zip(trouble(scores).tolist(), ids.tolist(), strict=True),
    )


def counts(conn: sqlite3.Connection) -> tuple[int, int, Counter[Sign]]:
    """Returns the number of conversations that were read, of those with any sign, and of those with each sign."""
    (read_count,) = conn.execute("SELECT count(*) FROM trouble").fetchone()
    (with_signs,) = conn.execute(
        f"SELECT count(DISTINCT conversation_id) FROM ({_SIGNS})"
    ).fetchone()
    rows = conn.execute("SELECT sign, count(*) FROM sign WHERE score > 0 GROUP BY sign")
    return read_count, with_signs, Counter({Sign(sign): count for sign, count in rows})


def ids_by_sign(conn: sqlite3.Connection) -> dict[str, set[int]]:
    """Returns the ids of the conversations with each sign, by its name, and first of those with any, by `ANY_SIGN`;
    empty where none has a sign."""
    by_sign: dict[str, set[int]] = {}
    for key, sign in conn.execute("SELECT conversation_id, sign FROM sign WHERE score > 0"):
        by_sign.setdefault(sign, set()).add(key)
    return {ANY_SIGN: set().union(*by_sign.values()), **by_sign} if by_sign else {}


def in_trouble(conn: sqlite3.Connection, among: IdSet) -> tuple[int, int]:
    """Returns of how many conversations of a set the signs were read, and how many of these have any."""
    ids_read = select_among(
        conn, among, "SELECT conversation_id FROM trouble WHERE total IS NOT NULL"
    )
    return len(ids_read), len(select_among(conn, among, _SIGNS))


def _ids_with_sign(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set that have a sign that the term names."""
    signs = named_values(term)
    sql = f"{_SIGNS} AND sign IN ({placeholders(signs)})"
    named = select_among(conn, among, sql, signs)
    return add_any_or_none(term, among, named, lambda: select_among(conn, among, _SIGNS))


def _ids_where_trouble(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set whose trouble satisfies the term."""
    inner = number_condition("total", term)
    sql = f"SELECT conversation_id FROM trouble WHERE {inner.text}"
    return select_among(conn, among, sql, inner.values)


def _ids_least_trouble_first(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    """Returns those of a set whose signs were read, the least trouble first."""
    return ids_in_order(conn, among, "FROM trouble WHERE total IS NOT NULL", "total")


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "sign": FieldQuery(_ids_with_sign, count_values=choice_counts(_ids_with_sign, tuple(Sign))),
    "trouble": FieldQuery(_ids_where_trouble, _ids_least_trouble_first),
}
"""Answers terms on signs of trouble, by the name of the field."""
