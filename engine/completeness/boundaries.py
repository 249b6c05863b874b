"""Where a conversation can end."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.conversation import LogPiece

RULE = 2
"""Version of the rule below. It is part of the config hash, so that scores of different rules are kept apart."""


NO_TEXT = "no message has any text, so there is nothing to score"
NO_BOUNDARY = "no assistant step, so there is no place where it could end"


def no_boundary_reason(pieces: Sequence[LogPiece]) -> str:
    """Why a log without boundaries has none."""
    return NO_BOUNDARY if _has_text(pieces) else NO_TEXT


def _has_text(pieces: Sequence[LogPiece]) -> bool:
    """Whether somebody says or calls anything; instructions to the model are no part of the conversation."""
    return any(
        piece.body.strip() for piece in pieces if piece.role in ("user", "assistant", "tool")
    )


def boundaries(pieces: Sequence[LogPiece]) -> list[int]:
    """Indices of the pieces after which the conversation could end, rising; none in a log without any text.

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
    return _of_one_turn(pieces, ends[0]) if len(ends) == 1 else ends


def _of_one_turn(pieces: Sequence[LogPiece], end: int) -> list[int]:
    handed_over = [
        index
        for index in range(end)
        if {pieces[index].role, pieces[index + 1].role} == {"assistant", "tool"}
    ]
    return [*handed_over, end]
