"""Where a conversation can end, what is asked there, and what the answer is.

A boundary is a step of a log after which the conversation could end. The question there has two answers: the
conversation ends, or it continues.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.base.conversation import LogPiece
from engine.model.interface import HiddenState

BOUNDARY_RULE_VERSION = 3
"""Version of the rules of `boundaries` and of `engine.model.log_windows`; part of the config hash, so that scores of
different rules are kept apart."""

NO_TEXT = "no message has any text, so there is nothing to score"
"""Reason why a conversation without text is unscored."""

NO_BOUNDARY = "no assistant step, so there is no place where it could end"
"""Reason why a conversation with text but without a boundary is unscored."""

ENDS_WITH_CALL = "the last message is a call"
ENDS_WITH_RESULT = "the last message is a tool's answer"
"""Notes on a score at the end of a log that stops within a turn; in the words of the sign `tool-last`."""

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

    A boundary is the end of an assistant or tool step that is followed by a user step or by the end of the log. If
    there is only one such place, an agent and its tools work alone after one request, and can break off at each step.
    Boundaries are then all steps at which the assistant hands over to a tool or a tool to the assistant, and the last.
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
    handovers = [
        index
        for index in range(end)
        if {pieces[index].role, pieces[index + 1].role} == {"assistant", "tool"}
    ]
    return [*handovers, end]


def with_inner_steps(pieces: Sequence[LogPiece], boundaries: list[int]) -> list[int]:
    """Returns the boundaries of a log together with its inner steps, rising: all steps of the assistant and of tools up
    to the last boundary. A log may break off after an inner step, but no conversation ends there.

    Args:
        boundaries: As `boundaries` returns them; fewer than two are returned alone.
    """
    if len(boundaries) < 2:
        return boundaries
    steps = enumerate(pieces[: boundaries[-1] + 1])
    return [index for index, piece in steps if piece.role in ("assistant", "tool")]


def note_on_end(pieces: Sequence[LogPiece], boundaries: Sequence[int]) -> str | None:
    """Returns the note on a log of several turns that ends with a call or with its result; None for any other log.

    Args:
        boundaries: As `boundaries` returns them, one at least.
    """
    if not any(pieces[index + 1].role == "user" for index in boundaries[:-1]):
        return None
    if pieces[-1].role == "tool":
        return ENDS_WITH_RESULT
    return ENDS_WITH_CALL if pieces[-1].kind == "action" else None


@dataclass(slots=True)
class BoundaryReading:
    """What a model says at one boundary of a log.

    Attributes:
        log_end, log_continue: Natural log-probabilities of the end and of the continuation. They are sums over the
            tokens of each, which grow while these are read.
        generated: Whether the end is what the model writes there, each of its tokens being the most probable one after
            those before it.
        state: The last hidden state there, shape (dimensions,); None where it was not asked for.
    """

    log_end: float = 0.0
    log_continue: float = 0.0
    generated: bool = True
    state: HiddenState | None = None

    def add(self, answer: Answer, log_p: float) -> None:
        """Adds the log-probability of one more token of an answer."""
        if answer == "end":
            self.log_end += log_p
        else:
            self.log_continue += log_p

    @property
    def p_end(self) -> float:
        """Probability of the end, in [0, 1]."""
        return math.exp(self.log_end)

    @property
    def p_continue(self) -> float:
        """Probability of the continuation, in [0, 1]."""
        return math.exp(self.log_continue)


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    """The question at a boundary, in tokens.

    Attributes:
        suffix: Tokens that are decoded after the log, before either answer; may be empty.
        end: The end tag, at least one token; its probability is the product over its tokens.
        continuation: The beginning of the other answer, at least one token.
        head: Number of tokens before every log; they are decoded once for all.
        states: Whether the hidden state at each boundary is read too; needs a question that is `inline`.
    """

    suffix: tuple[int, ...]
    end: tuple[int, ...]
    continuation: tuple[int, ...]
    head: int = 0
    states: bool = False

    @property
    def inline(self) -> bool:
        """Whether one pass over the log answers the question without forks."""
        return not self.suffix and len(self.end) == 1

    @property
    def forked_tokens(self) -> int:
        """Number of tokens that are decoded on the forks of one boundary.

        The last token of each answer is not decoded: its probability is read from the row before it.
        """
        if self.inline:
            return 0
        return len(self.suffix) + len(self.end) + len(self.continuation) - 2
