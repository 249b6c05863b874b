"""Where the requests of a conversation after its first one begin, and the goals that requests were assigned to.

A further request begins at a message of the user, never at their first; it is stored as the index of that message.
`request_found` has what the program found. `request_mark` has what people said: acts, which are only appended. Of those
on a message that were not undone the newest is in force, and overrules what was found. All of this is deleted when the
text of the conversation is replaced.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.completeness.requests import ConversationRequest, UndoneRequestMark, split_into_requests
from engine.completeness.tables import score_sets, scores
from engine.conversations.tables.conversations import messages_of
from engine.project.sql import MESSAGE_BITS, chunks, id_pages, not_undone, placeholders, utc_now

_IN_FORCE = f"mark.kind <> 'undo' AND {not_undone('request_mark', 'mark.id')}"
"""SQL condition that the row `mark` is of a person and was not undone."""

# CROSS JOIN fixes the order of the tables. With an order of its own SQLite took 61 s for 40,000 starts, now 0.02 s.
_STARTS_SQL = (
    "SELECT start.conversation_id, start.message FROM (SELECT conversation_id, message, begins, max(act) FROM ("
    "SELECT conversation_id, message, 1 AS begins, 0 AS act FROM request_found WHERE conversation_id {0}"
    " UNION ALL SELECT conversation_id, message, kind = 'begins', id FROM request_mark AS mark"
    f" WHERE {_IN_FORCE} AND conversation_id {{0}}) GROUP BY conversation_id, message) AS start"
    f" CROSS JOIN message AS own ON own.id = (start.conversation_id << {MESSAGE_BITS}) + start.message"
    " WHERE start.begins AND own.role = 'user' AND EXISTS (SELECT 1 FROM message AS earlier"
    f" WHERE earlier.id >= start.conversation_id << {MESSAGE_BITS} AND earlier.id < own.id"
    " AND earlier.role = 'user')"
)
"""SQL of (conversation_id, message) of each start of a further request. It must be a message of the user after their
first one, so that each request has a message of the user. `{0}` is for a condition on the conversation."""

REQUEST_COUNTS_SQL = (
    "SELECT conversation_id, 1 + count(*) AS requests"
    f" FROM ({_STARTS_SQL.format('IS NOT NULL')}) GROUP BY conversation_id"
)
"""SQL of (conversation_id, requests): number of requests of conversations with a further one; all others have one."""


def put_found(conn: sqlite3.Connection, found: Iterable[tuple[int, Sequence[int]]]) -> None:
    """Replaces the starts that were found in conversations; what a person said stays.

    Args:
        found: Conversation ids with the indices of the messages that begin a further request.
    """
    for key, messages in found:
        conn.execute("DELETE FROM request_found WHERE conversation_id = ?", (key,))
        conn.executemany(
            "INSERT INTO request_found (conversation_id, message) VALUES (?, ?)",
            [(key, message) for message in messages],
        )


def mark(
    conn: sqlite3.Connection, conversation_id: int, message: int, annotator: str, *, begins: bool
) -> None:
    """Stores that a person said that a message begins a request, or that it does not."""
    conn.execute(
        "INSERT INTO request_mark (conversation_id, message, kind, annotator, given_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (conversation_id, message, "begins" if begins else "none", annotator, utc_now()),
    )


def undo(conn: sqlite3.Connection, annotator: str = "") -> UndoneRequestMark | None:
    """Takes back the newest mark in force, whichever conversation it is of, and returns it; None if there is none."""
    row = conn.execute(
        "SELECT id, conversation_id, message, kind = 'begins' FROM request_mark AS mark"
        f" WHERE {_IN_FORCE} ORDER BY id DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    act, conversation_id, message, begins = row
    conn.execute(
        "INSERT INTO request_mark (conversation_id, message, kind, target, annotator, given_at)"
        " VALUES (?, ?, 'undo', ?, ?, ?)",
        (conversation_id, message, act, annotator, utc_now()),
    )
    return UndoneRequestMark(conversation_id, message, bool(begins))


def starts(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, list[int]]:
    """Returns the indices of the messages that begin a further request, rising, by conversation; conversations
    without one are left out."""
    starts_by_id: dict[int, list[int]] = {}
    for keys in chunks(ids):
        sql = _STARTS_SQL.format(f"IN ({placeholders(keys)})")
        for key, message in conn.execute(f"{sql} ORDER BY 1, 2", (*keys, *keys)):
            starts_by_id.setdefault(key, []).append(message)
    return starts_by_id


_CONVERSATIONS_PER_PAGE = 200
"""Number of conversations that are read at once."""


def requests_of(
    conn: sqlite3.Connection, ids: Sequence[int] | None
) -> Iterator[tuple[int, list[ConversationRequest]]]:
    """Yields each conversation with its requests, without their goals; one that was never looked at has one.

    Conversations without a message of a user are left out.
    """
    rule = score_sets.rule(conn)
    for page in id_pages(conn, ids, _CONVERSATIONS_PER_PAGE):
        starts_by_id, score_by_id = starts(conn, page), scores.current(conn, page)
        for key in page:
            score = score_by_id.get(key)
            curve = () if score is None else score.curve
            messages = messages_of(conn, key)
            parts = split_into_requests(messages, starts_by_id.get(key, ()), curve, rule)
            if parts:
                yield key, parts


# Goals


@dataclass(frozen=True, slots=True)
class RequestGoal:
    """The goal that one request was assigned to.

    Attributes:
        first, last: Indices of the first and the last message of the request.
        group: Id of the group; None for a request that is like no goal.
    """

    conversation_id: int
    first: int
    last: int
    group: str | None


def put_goals(
    conn: sqlite3.Connection, clustering_id: int, run_id: int, request_goals: Sequence[RequestGoal]
) -> None:
    """Stores goals of requests; an earlier one of the same messages is replaced."""
    conn.executemany(
        "INSERT OR REPLACE INTO request_goal (conversation_id, clustering_id, first, last, run_id,"
        " group_id) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                goal.conversation_id,
                clustering_id,
                goal.first,
                goal.last,
                run_id,
                goal.group,
            )
            for goal in request_goals
        ],
    )


def goals(
    conn: sqlite3.Connection, clustering_id: int, ids: Sequence[int]
) -> Mapping[tuple[int, int, int], str | None]:
    """Returns the label of the goal of each request, by (conversation, first message, last message).

    It is None for a request that is like no goal. Requests that were not assigned are absent, and so are those whose
    group no longer exists.
    """
    label_by_request: dict[tuple[int, int, int], str | None] = {}
    for keys in chunks(ids):
        for *place, label in conn.execute(
            "SELECT r.conversation_id, first, last, l.label FROM request_goal AS r"
            " LEFT JOIN goal_group AS b USING (clustering_id, group_id) LEFT JOIN goal_label AS l"
            " ON l.clustering_id = r.clustering_id AND l.group_id = b.current"
            f" WHERE r.conversation_id IN ({placeholders(keys)}) AND r.clustering_id = ?"
            " AND (r.group_id IS NULL OR b.current IS NOT NULL)",
            (*keys, clustering_id),
        ):
            label_by_request[tuple(place)] = label
    return label_by_request
