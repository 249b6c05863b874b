"""Requests of conversations with their goals: read, found, marked by a person, and exported each as a conversation."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from engine.base.conversation import Conversation
from engine.completeness.requests import (
    MIN_SCORE_FALL,
    ConversationRequest,
    UndoneRequestMark,
    starts_by_curve,
)
from engine.completeness.tables import requests, scores
from engine.completeness.tables.requests import requests_of
from engine.conversations.tables import conversations
from engine.goals.tables import clusterings, groups
from engine.project.project import Project
from engine.project.sql import id_pages

_CONVERSATIONS_AT_A_TIME = 200
"""Conversations whose requests are read at a time."""


def requests_with_goals(
    conn: sqlite3.Connection, ids: Sequence[int] | None
) -> Iterator[tuple[int, list[ConversationRequest]]]:
    """Yields each conversation with its requests; the only request of a conversation has the goal of all of it.

    Conversations without a message of a user are left out.
    """
    clustering = clusterings.shown_id(conn)
    for page in id_pages(conn, ids, _CONVERSATIONS_AT_A_TIME):
        starts, main_goals = requests.starts(conn, page), groups.goals_of(conn, page)
        goals = {} if clustering is None else requests.goals(conn, clustering, list(starts))
        for key, parts in requests_of(conn, page):
            if len(parts) == 1:
                (only,) = parts  # its goal is that of the conversation
                yield key, [replace(only, goal=main_goals.get(key))]
            else:
                yield (
                    key,
                    [replace(part, goal=goals.get((key, part.first, part.last))) for part in parts],
                )


class RequestService:
    """The requests of the conversations of one project."""

    def __init__(self, project: Project, changed: Callable[[], None]) -> None:
        """`changed` is called after requests were found or marked."""
        self._project, self._changed = project, changed

    def of_conversation(self, conversation_id: int) -> list[ConversationRequest]:
        """Quick. Returns the requests of one conversation, in order; none where no user speaks."""
        with self._project.reading() as conn:
            return next((parts for _, parts in requests_with_goals(conn, [conversation_id])), [])

    def of_conversations(self, ids: Sequence[int]) -> list[tuple[int, list[ConversationRequest]]]:
        """Returns each conversation with its requests in order; those where no user speaks are left out."""
        with self._project.reading() as conn:
            return list(requests_with_goals(conn, ids))

    def mark(
        self, conversation_id: int, message: int, annotator: str = "", *, begins: bool
    ) -> None:
        """Stores that, as a person says, a message begins a request or does not."""
        self._project.write(
            lambda conn: requests.mark(conn, conversation_id, message, annotator, begins=begins)
        )
        self._changed()

    def undo(self, annotator: str = "") -> UndoneRequestMark | None:
        """Takes back what a person said last, of any conversation, and returns it; None if there is nothing to undo."""
        undone = self._project.write(lambda conn: requests.undo(conn, annotator))
        self._changed()
        return undone

    def find_by_curve(self, ids: Sequence[int], fall: float = MIN_SCORE_FALL) -> int:
        """Finds requests by the scores in force, without a model, and replaces what was found before.

        Conversations without a score are left as they are.

        Args:
            fall: See `starts_by_curve`.

        Returns:
            The number of further requests that were found.
        """
        total = 0
        for start in range(0, len(ids), _CONVERSATIONS_AT_A_TIME):
            page = ids[start : start + _CONVERSATIONS_AT_A_TIME]
            starts_by_id = []
            with self._project.reading() as conn:
                curves = scores.current(conn, page)
                for key, messages in conversations.conversations_for(conn, page):
                    if key in curves and curves[key].curve:
                        curve = {
                            point.message: point.p_end_normalised for point in curves[key].curve
                        }
                        starts_by_id.append((key, starts_by_curve(messages, curve, fall)))
            self._project.write(partial(requests.put_found, found=starts_by_id))
            total += sum(len(starts) for _, starts in starts_by_id)
        self._changed()
        return total


def request_conversations(
    conn: sqlite3.Connection, ids: Sequence[int] | None
) -> Iterator[tuple[Conversation, str, dict[str, Any]]]:
    """Yields each request as a conversation without truth, named `ID#NUMBER`.

    With it come the label of its source and what the project knows of it: whose request it is, its completeness and
    goal.
    """
    for page in id_pages(conn, ids, _CONVERSATIONS_AT_A_TIME):
        requests_by_id = dict(requests_with_goals(conn, page))
        for key, source, conversation in conversations.export_conversations(conn, page):
            for request in requests_by_id.get(key, ()):
                part = replace(
                    conversation,
                    external_id=f"{conversation.external_id}#{request.number}",
                    messages=conversation.messages[request.first : request.last + 1],
                    truth=None,
                )
                known = {
                    "conversation": conversation.external_id,
                    "request": request.number,
                    "requests": len(requests_by_id[key]),
                    "goal": request.goal,
                    "p": request.p,
                    "state": request.state,
                }
                yield part, source, known
