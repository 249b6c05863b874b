"""Requests of conversations: finds where further ones begin, and takes a person's word on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from engine.completeness.records.requests import Request, UndoneMark
from engine.completeness.request_view import requests_of
from engine.completeness.starts_by_curve import FALL, starts_by_curve
from engine.completeness.tables import requests, scores
from engine.conversations.tables import conversations
from engine.project.project import Project

_PAGE = 200


class RequestService:
    """The requests of the conversations of one project."""

    def __init__(self, project: Project, changed: Callable[[], None]) -> None:
        """`changed` is called after requests were found or marked."""
        self._project, self._changed = project, changed

    def of_conversation(self, conversation_id: int) -> list[Request]:
        """Quick. The requests of one conversation, in order; none where no user speaks."""
        with self._project.reading() as conn:
            return next((found for _, found in requests_of(conn, [conversation_id])), [])

    def of_conversations(self, wanted: Sequence[int]) -> list[tuple[int, list[Request]]]:
        """The requests of these conversations, of each in order; those where no user speaks are left out."""
        with self._project.reading() as conn:
            return list(requests_of(conn, wanted))

    def mark(
        self, conversation_id: int, message: int, annotator: str = "", *, begins: bool
    ) -> None:
        """Stores that a person says that a message begins a request, or that it does not."""
        self._project.write(
            lambda conn: requests.mark(conn, conversation_id, message, annotator, begins=begins)
        )
        self._changed()

    def undo(self, annotator: str = "") -> UndoneMark | None:
        """Takes back what a person said last, of any conversation; None when there is nothing to undo."""
        undone = self._project.write(lambda conn: requests.undo(conn, annotator))
        self._changed()
        return undone

    def find_by_curve(self, wanted: Sequence[int], fall: float = FALL) -> int:
        """Finds requests by the scores in force, without a model, and replaces what was found before; returns how many
        further ones. Conversations without a score are left as they are.

        Args:
            fall: See `starts_by_curve`.
        """
        total = 0
        for start in range(0, len(wanted), _PAGE):
            page = wanted[start : start + _PAGE]
            found = []
            with self._project.reading() as conn:
                curves = scores.current(conn, page)
                for key, messages in conversations.conversations_for(conn, page):
                    if key in curves and curves[key].curve:
                        curve = {one.message: one.p_end_normalised for one in curves[key].curve}
                        found.append((key, starts_by_curve(messages, curve, fall)))
            self._project.write(partial(requests.put_found, found=found))
            total += sum(len(starts) for _, starts in found)
        self._changed()
        return total

    def store_found_by_model(self, starts: Mapping[int, Sequence[int]]) -> int:
        """Stores where a model says that further requests begin, in place of what was found before; returns how many.

        Args:
            starts: Indices of the first messages of further requests, by conversation.
        """
        found = [(key, list(indices)) for key, indices in starts.items()]
        self._project.write(lambda conn: requests.put_found(conn, found))
        self._changed()
        return sum(map(len, starts.values()))
