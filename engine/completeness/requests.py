"""Requests of conversations: where further ones begin by the curve of scores, and each with its completeness."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from engine.base.conversation import Message, turn_numbers
from engine.completeness.records import ConversationRequest, CurvePoint, DecisionRule
from engine.completeness.tables import requests, score_sets, scores
from engine.conversations.tables.conversations import messages_of
from engine.project.sql import id_pages

MIN_SCORE_FALL = 0.2
"""Smallest fall of the normalised score over a turn that begins a request."""

_CONVERSATIONS_PER_PAGE = 200
"""Number of conversations that are read at once."""


def starts_by_curve(
    messages: Sequence[Message], curve: Mapping[int, float], fall: float = MIN_SCORE_FALL
) -> list[int]:
    """Returns the indices of the messages of the user that begin a further request, ascending.

    Args:
        curve: Normalised score (0 to 1) by the index of the message after which the conversation could end.
        fall: Fall from the last boundary before a turn to the last one in it that begins a request, in units of the
            score.
    """
    request_starts = []
    before: float | None = None
    turn_starts = [index for index, message in enumerate(messages) if message.role == "user"]
    for start, end in zip(turn_starts, [*turn_starts[1:], len(messages)], strict=True):
        scored = (index for index in range(end - 1, start - 1, -1) if index in curve)
        after = next((curve[index] for index in scored), before)
        if before is not None and after is not None and before - after > fall:
            request_starts.append(start)
        before = after
    return request_starts


def requests_of(
    conn: sqlite3.Connection, wanted: Sequence[int] | None
) -> Iterator[tuple[int, list[ConversationRequest]]]:
    """Yields each conversation with its requests, without their goals; one that was never looked at has one.

    Conversations without a message of a user are left out.
    """
    rule = score_sets.rule(conn)
    for page in id_pages(conn, wanted, _CONVERSATIONS_PER_PAGE):
        starts, score_of = requests.starts(conn, page), scores.current(conn, page)
        for key in page:
            score = score_of.get(key)
            curve = () if score is None else score.curve
            parts = split_into_requests(messages_of(conn, key), starts.get(key, ()), curve, rule)
            if parts:
                yield key, parts


def split_into_requests(
    messages: Sequence[Message],
    starts: Sequence[int],
    curve: Sequence[CurvePoint],
    rule: DecisionRule,
) -> list[ConversationRequest]:
    """Returns the requests of one conversation; none without a message of a user.

    Args:
        starts: Indices of the messages that begin a further request, ascending, as
            `engine.completeness.tables.requests` gives them.
        curve: The boundaries in order; empty where nothing is scored.
    """
    user_messages = [index for index, message in enumerate(messages) if message.role == "user"]
    if not user_messages:
        return []
    turns = turn_numbers(messages)
    parts = []
    for number, (first, end) in enumerate(pairwise([0, *starts, len(messages)]), 1):
        own_messages = [index for index in user_messages if first <= index < end]
        inside = [point for point in curve if first <= point.message < end]
        p = inside[-1].p_end_normalised if inside else None
        parts.append(
            ConversationRequest(
                number,
                first,
                end - 1,
                turns[own_messages[0]],
                len(own_messages),
                messages[own_messages[0]].content,
                p,
                rule.state(p),
            )
        )
    return parts
