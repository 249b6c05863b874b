"""Where a conversation can end, and what is read there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.base.conversation import LogPiece
from engine.model.interface import HiddenState

RULE = 2
"""Version of the rule of `boundaries`; part of the config hash, so that scores of different rules are kept apart."""

NO_TEXT = "no message has any text, so there is nothing to score"
"""Reason why a conversation without text is unscored."""

NO_BOUNDARY = "no assistant step, so there is no place where it could end"
"""Reason why a conversation with text but without a boundary is unscored."""

Answer = Literal["end", "continuation"]
"""The two answers to the question at a boundary."""


def no_boundary_reason(pieces: Sequence[LogPiece]) -> str:
    """Returns why a log without boundaries has none."""
    return NO_BOUNDARY if _has_text(pieces) else NO_TEXT


def _has_text(pieces: Sequence[LogPiece]) -> bool:
    """Returns whether somebody says or calls anything; instructions to the model are no part of the conversation."""
    return any(
        piece.body.strip() for piece in pieces if piece.role in ("user", "assistant", "tool")
    )


def boundaries(pieces: Sequence[LogPiece]) -> list[int]:
    """Returns the indices of the pieces after which the conversation could end, rising; none in a log without any text.

    A boundary is the end of an assistant or tool step that is followed by a user step or by the end of the log. Where
    that gives a single one, because an agent and its tools work alone after one request, it is the end of every
    assistant or tool step that the other of the two, or nothing, follows: such a log can break off after each.
    """
    if not _has_text(pieces):
        return []
    ends = []
    for index, piece in enumerate(pieces):
        if piece.role not in ("assistant", "tool"):
            continue
        if index + 1 == len(pieces) or pieces[index + 1].role == "user":
            ends.append(index)
    return _boundaries_of_one_turn(pieces, ends[0]) if len(ends) == 1 else ends


def _boundaries_of_one_turn(pieces: Sequence[LogPiece], end: int) -> list[int]:
    """Returns each index up to `end` where the assistant hands over to a tool or a tool to it, and `end` itself."""
    handed_over = [
        index
        for index in range(end)
        if {pieces[index].role, pieces[index + 1].role} == {"assistant", "tool"}
    ]
    return [*handed_over, end]


@dataclass(slots=True)
class BoundaryLogProbs:
    """Natural log-probabilities of the end tag and of the continuation at one mark, which is a number of log tokens.

    Attributes:
        state: The last hidden state there, shape (dimensions,); None where it was not asked for.
        generated: Whether the end tag is what the model writes there, each of its tokens being the most probable one
            after those before it; None where it is not known.
    """

    log_end: float = 0.0
    log_continue: float = 0.0
    state: HiddenState | None = None
    generated: bool | None = None

    def add(self, answer: Answer, log_p: float) -> None:
        """Adds the log-probability of one more token of an answer."""
        if answer == "end":
            self.log_end += log_p
        else:
            self.log_continue += log_p
