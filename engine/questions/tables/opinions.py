"""The opinions of several people on a question, where they disagree, and what they answered a second time.

The *opinion* of a person on a conversation is the newest verdict that they gave, else the newest that they gave blind.
People disagree on a conversation when their opinions differ, at most half of them are the verdict in force, and the
newest was given blind: who sees the others and gives a verdict decides. A *repeat* is a verdict that a person gave
blind on what they had judged.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence

from engine.base.conversation import SUCCEEDED
from engine.conversations.tables.conversations import imported
from engine.project.schema import NOT_UNDONE, OF_THIS_TEXT
from engine.project.sql import read_ids, snapshot
from engine.questions.question import make_slug
from engine.questions.records import AnsweredConversation, AnswerRow, Opinion
from engine.questions.tables import answers
from engine.questions.tables.answers import CURRENT_ANSWERS


def opinions_sql(question: str, condition: str = "TRUE") -> str:
    """Returns the SQL for (conversation_id, annotator, verdict) of every person's opinion on a question: the newest
    answer that they gave, else the newest that they gave blind.

    Args:
        question: Name of the question, which has no quotes.
        condition: SQL condition on the rows `v` of `answer` that are read.
    """
    return (
        "SELECT conversation_id, annotator, verdict FROM ("
        "SELECT v.conversation_id AS conversation_id, v.annotator AS annotator,"
        " v.value AS verdict, row_number() OVER (PARTITION BY v.conversation_id, v.annotator"
        " ORDER BY v.kind = 'give' DESC, v.id DESC) AS nth FROM answer AS v"
        f" WHERE v.question = '{make_slug(question)}' AND v.target IS NULL AND {NOT_UNDONE}"
        f" AND {OF_THIS_TEXT} AND {condition}) WHERE nth = 1 AND verdict IS NOT NULL"
    )


NAMED_OPINIONS = f"SELECT * FROM ({opinions_sql(SUCCEEDED)}) WHERE annotator <> ''"
"""(conversation_id, annotator, verdict) of every opinion on success of somebody with a name, to select from."""


def disagreements_sql(question: str) -> str:
    """Returns the SQL for (conversation_id) of everything on which people disagree about a question and nobody
    decided."""
    is_on_question = f"v.question = '{make_slug(question)}' AND {NOT_UNDONE} AND {OF_THIS_TEXT}"
    differ = "count(DISTINCT o.verdict) > 1"
    # the verdict in force, as in `CURRENT_ANSWERS`, but of this conversation alone
    at_most_half_in_force = (
        "2 * sum(o.verdict IS (SELECT v.value FROM answer AS v"
        f" WHERE v.conversation_id = o.conversation_id AND v.kind = 'give' AND {is_on_question}"
        " ORDER BY v.id DESC LIMIT 1)) <= count(*)"
    )
    newest_is_blind = (
        "(SELECT v.kind FROM answer AS v WHERE v.conversation_id = o.conversation_id"
        f" AND v.target IS NULL AND {is_on_question} ORDER BY v.id DESC LIMIT 1) = 'repeat'"
    )
    return (
        f"SELECT o.conversation_id AS conversation_id FROM ({opinions_sql(question)}) AS o GROUP BY"
        f" o.conversation_id HAVING {differ} AND {at_most_half_in_force} AND {newest_is_blind}"
    )


DISAGREEMENTS = disagreements_sql(SUCCEEDED)
"""(conversation_id) of everything on whose success people disagree and nobody decided, as a query to select from."""


def by_person(conn: sqlite3.Connection, question: str) -> dict[str, dict[int, str]]:
    """Returns the opinions on a question, by the name of the person and by the id of the conversation."""
    result: dict[str, dict[int, str]] = {}
    for conversation_id, name, value in conn.execute(f"{opinions_sql(question)} ORDER BY 1, 2"):
        result.setdefault(name, {})[conversation_id] = value
    return result


def on_conversation(
    conn: sqlite3.Connection, conversation_id: int, question: str = SUCCEEDED
) -> list[Opinion]:
    """Returns the opinion of each person on a conversation, by name."""
    query = opinions_sql(question, "v.conversation_id = ?")
    rows = conn.execute(f"{query} ORDER BY annotator", (conversation_id,))
    return [Opinion(annotator, value) for _, annotator, value in rows]


def disagreements(conn: sqlite3.Connection, question: str = SUCCEEDED) -> list[int]:
    """Returns the ids of the conversations on which people disagree and nobody decided, in order."""
    return [row[0] for row in conn.execute(f"{disagreements_sql(question)} ORDER BY 1")]


def draw_for_second_person(
    conn: sqlite3.Connection,
    count: int,
    random_source: random.Random,
    annotator: str,
    question: str = SUCCEEDED,
) -> list[int]:
    """Returns at most `count` conversations at random on which other people answered a question and this person did
    not."""
    sql = (
        f"SELECT conversation_id FROM ({opinions_sql(question)}) GROUP BY conversation_id"
        " HAVING sum(annotator = ?) = 0 ORDER BY conversation_id"
    )
    waiting = read_ids(conn, sql, (annotator,))
    return random_source.sample(waiting, min(count, len(waiting)))


def repeats(conn: sqlite3.Connection, conversation_id: int, annotator: str = "") -> tuple[str, ...]:
    """Returns the verdicts on success that a person repeated blind: those in force, oldest first."""
    return tuple(
        row[0]
        for row in conn.execute(
            "SELECT v.value FROM answer AS v WHERE v.conversation_id = ? AND v.annotator = ?"
            f" AND v.question = '{SUCCEEDED}' AND v.kind = 'repeat' AND {NOT_UNDONE}"
            f" AND {OF_THIS_TEXT} ORDER BY v.id",
            (conversation_id, annotator),
        )
    )


def repeated_pairs(
    conn: sqlite3.Connection, question: str = SUCCEEDED
) -> list[tuple[int, str, str]]:
    """Returns (conversation, answer in force, newest blind repeat by the same person) of everything that has both, in
    id order."""
    # beside `max(v.id)`, SQLite takes the other columns from the row that has it
    return conn.execute(
        f"SELECT j.conversation_id, j.value, r.value FROM ({CURRENT_ANSWERS}) AS j JOIN"
        " (SELECT v.conversation_id AS conversation_id, v.annotator AS annotator,"
        " v.value AS value, max(v.id)"
        " FROM answer AS v WHERE v.question = ? AND v.kind = 'repeat'"
        f" AND {NOT_UNDONE} AND {OF_THIS_TEXT} GROUP BY v.conversation_id, v.annotator) AS r"
        " ON r.conversation_id = j.conversation_id AND r.annotator = j.annotator"
        " WHERE j.question = ? ORDER BY j.conversation_id",
        (question, question),
    ).fetchall()


def draw_for_repeat(
    conn: sqlite3.Connection,
    count: int,
    recent: int,
    random_source: random.Random,
    annotator: str = "",
    question: str = SUCCEEDED,
) -> list[int]:
    """Returns at most `count` conversations with an answer of this person in force and without a repeat of theirs, the
    `recent` newest answers left out."""
    rows = conn.execute(
        f"SELECT conversation_id FROM ({CURRENT_ANSWERS})"
        " WHERE question = ? AND annotator = ? ORDER BY id DESC LIMIT -1 OFFSET ?",
        (question, annotator, recent),
    ).fetchall()
    repeated = {conversation_id for conversation_id, _, _ in repeated_pairs(conn, question)}
    earlier = [row[0] for row in rows if row[0] not in repeated]
    return random_source.sample(earlier, min(count, len(earlier)))


def answered_conversations(
    conn: sqlite3.Connection, among: Sequence[int] | None = None
) -> Iterator[AnsweredConversation]:
    """Yields each conversation that people answered questions on.

    Where there are only blind answers, be it one, no verdict is in force: the row then has neither id nor time, and
    all answers are opinions of others.

    Args:
        among: Ids of conversations, in the order of the result; None for all, in the order of import.
    """
    with snapshot(conn):
        sql = "SELECT DISTINCT conversation_id FROM answer ORDER BY conversation_id"
        ids: Sequence[int] = read_ids(conn, sql)
        disputed_ids = frozenset(disagreements(conn))
        if among is not None:
            answered = set(ids)
            ids = [conversation_id for conversation_id in among if conversation_id in answered]
        for conversation_id in ids:
            current = answers.current(conn, conversation_id)
            in_force = current or AnswerRow(0, conversation_id, None, "", "")
            others = tuple(
                opinion
                for opinion in on_conversation(conn, conversation_id)
                if current is None or opinion.annotator != current.annotator
            )
            if current is None and not others:
                continue
            repeated = () if current is None else repeats(conn, conversation_id, current.annotator)
            for conversation in imported(conn, [conversation_id]):
                yield AnsweredConversation(
                    conversation, in_force, repeated, others, conversation_id in disputed_ids
                )
