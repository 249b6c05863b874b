"""Requests in conversations: where further ones begin by the curve of scores, and each with its completeness.

A conversation has one request, or several where its user asks for another thing after the first. A boundary is a
message after which the conversation could end; the curve has a normalized score at each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.base.conversation import Message, State, turn_numbers
from engine.completeness.records import CurvePoint, DecisionRule

MIN_SCORE_FALL = 0.2
"""Smallest fall of the normalized score over a turn that begins a request."""


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    """One of the things that the user asks for in a conversation, with the messages about it.

    Attributes:
        number: Number of the request in its conversation, from 1.
        first, last: Indices of its first and its last message. The first request has what stands before it too, such
            as a system message.
        turn: Number of the turn that its opening begins.
        user_messages: Number of the user's messages.
        opening: The message of the user that begins it.
        goal: Label of its goal in the clustering that is shown; that of the conversation where this is its only
            request. None where it is like no goal or was not assigned.
        p: Normalized score at the last boundary in it; None where nothing is scored.
        state: State of the request by that score.
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
class UndoneRequestMark:
    """What a person had said of a message and took back.

    Attributes:
        message: Index of the message.
        begins: Whether they had said that it begins a request.
    """

    conversation_id: int
    message: int
    begins: bool


def starts_by_curve(
    messages: Sequence[Message], curve: Mapping[int, float], fall: float = MIN_SCORE_FALL
) -> list[int]:
    """Returns the indices of the messages of the user that begin a further request, ascending.

    Args:
        curve: Normalized score (0 to 1) by the index of the message after which the conversation could end.
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
                number=number,
                first=first,
                last=end - 1,
                turn=turns[own_messages[0]],
                user_messages=len(own_messages),
                opening=messages[own_messages[0]].content,
                p=p,
                state=rule.state(p),
            )
        )
    return parts
