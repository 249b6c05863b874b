"""Requests of a conversation: what one user asks for, up to where they ask for something else."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.outcomes import (
    State,
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a conversation.

    Attributes:
        number: From 1.
        first, last: Indices of its first and its last message. The first request has what stands before it too, such
            as a system message.
        turn: Number of the turn that its opening begins.
        user_messages: Number of the user's messages.
        opening: The message of the user that begins it.
        goal: Label of its goal in the clustering that is shown; that of the conversation where this is its only
            request. None where it is like no goal or was not assigned.
        p: Completeness at the last boundary in it, `p_end / (p_end + p_continue)`; None where nothing is scored.
    """

    number: int
    first: int
    last: int
    turn: int
    user_messages: int
    opening: str
    p: float | None
    state: State
    goal: str | None = None


@dataclass(frozen=True, slots=True)
class UndoneMark:
    """What a person had said of a message and took back.

    Attributes:
        message: Index of the message.
        begins: Whether they had said that it begins a request.
    """

    conversation_id: int
    message: int
    begins: bool
