"""The requests of conversations with completeness and goal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from engine.base.conversation import Message, turn_numbers
from engine.completeness.records.requests import Request
from engine.completeness.records.scores import CurvePoint, DecisionRule
from engine.completeness.tables import requests, scores
from engine.conversations.tables.conversations import messages_of
from engine.goals.tables import clusterings, groups
from engine.project import settings
from engine.project.sql import id_pages

_PAGE = 200


def requests_of(
    conn: sqlite3.Connection, wanted: Sequence[int] | None
) -> Iterator[tuple[int, list[Request]]]:
    """Yields each conversation with its requests; one that was never looked at has one.

    Conversations without a message of a user are left out.
    """
    rule, clustering = settings.rule(conn), clusterings.shown(conn)
    for page in id_pages(conn, wanted, _PAGE):
        found, curves = requests.starts(conn, page), scores.current(conn, page)
        whole = groups.first_goals(conn, page)
        goals = {} if clustering is None else requests.goals(conn, clustering, list(found))
        for key in page:
            score = curves.get(key)
            curve = () if score is None else score.curve
            parts = split(messages_of(conn, key), found.get(key, ()), curve, rule)
            if len(parts) == 1:
                parts = [replace(parts[0], goal=whole.get(key))]
            elif parts:
                parts = [replace(one, goal=goals.get((key, one.first, one.last))) for one in parts]
            if parts:
                yield key, parts


def split(
    messages: Sequence[Message],
    starts: Sequence[int],
    curve: Sequence[CurvePoint],
    rule: DecisionRule,
) -> list[Request]:
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
            Request(
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
