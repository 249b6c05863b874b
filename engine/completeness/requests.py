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

FALL = 0.2
"""Least fall of the normalised score over a turn that begins a request."""


def starts_by_curve(
    messages: Sequence[Message], curve: Mapping[int, float], fall: float = FALL
) -> list[int]:
    """Returns the indices of the messages of the user that begin a further request, ascending.

    Args:
        curve: Normalised score (0 to 1) by the index of the message after which the conversation could end.
        fall: Between the last boundary before a turn and the last one in it, in units of the score.
    """
    found = []
    before: float | None = None
    starts = [at for at, one in enumerate(messages) if one.role == "user"]
    for at, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        after = next((curve[one] for one in range(end - 1, at - 1, -1) if one in curve), before)
        if before is not None and after is not None and before - after > fall:
            found.append(at)
        before = after
    return found


_PAGE = 200


def requests_of(
    conn: sqlite3.Connection, wanted: Sequence[int] | None
) -> Iterator[tuple[int, list[ConversationRequest]]]:
    """Yields each conversation with its requests, without their goals; one that was never looked at has one.

    Conversations without a message of a user are left out.
    """
    rule = score_sets.rule(conn)
    for page in id_pages(conn, wanted, _PAGE):
        found, curves = requests.starts(conn, page), scores.current(conn, page)
        for key in page:
            score = curves.get(key)
            curve = () if score is None else score.curve
            parts = split(messages_of(conn, key), found.get(key, ()), curve, rule)
            if parts:
                yield key, parts


def split(
    messages: Sequence[Message],
    starts: Sequence[int],
    curve: Sequence[CurvePoint],
    rule: DecisionRule,
) -> list[ConversationRequest]:
    """The requests of one conversation.

    Args:
        starts: Indices of the messages that begin a further request, ascending, as
            `engine.completeness.tables.requests` gives them.
        curve: The boundaries in order; empty where nothing is scored.
    """
    of_user = [at for at, message in enumerate(messages) if message.role == "user"]
    if not of_user:
        return []
    turns = turn_numbers(messages)
    found = []
    for number, (first, end) in enumerate(pairwise([0, *starts, len(messages)]), 1):
        own = [at for at in of_user if first <= at < end]
        inside = [point for point in curve if first <= point.message < end]
        p = inside[-1].p_end_normalised if inside else None
        found.append(
            ConversationRequest(
                number,
                first,
                end - 1,
                turns[own[0]],
                len(own),
                messages[own[0]].content,
                p,
                rule.state(p),
            )
        )
    return found
