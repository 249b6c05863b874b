"""Scores a block of conversations: from log pieces to probabilities at their boundaries.

A piece is the text of one step of a log, with its header. A window is those pieces of a log that fit the context; a
log that fits has one. A boundary is a piece after which the conversation could end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np

from engine.base.conversation import LogPiece
from engine.completeness.boundaries import BoundaryLogProbs, boundaries
from engine.completeness.kept_logs import KeptLogs
from engine.completeness.packing import Segment
from engine.completeness.remaining_tasks import InlineWriter, RemainingRequest
from engine.completeness.scoring import BoundaryScorer, Progress, QuestionTokens
from engine.model.generation import GenerativeModel, Stopped
from engine.model.interface import HiddenState, Tokenizer
from engine.model.log_windows import SMALLEST_ROOM, Window, pieces_within, plan_windows
from engine.model.prompt_files import Frame, Prompt, frame, opening_tokens

NOT_A_NUMBER = "the model, with its adapter if it has one, gave values that are not numbers"
"""Reason why a conversation is unscored whose probabilities are NaN."""


@dataclass(frozen=True, slots=True)
class LogItem:
    """One conversation to score.

    Attributes:
        texts: The pieces of its log.
        boundaries: Piece indices after which it could end, rising; at least one of what is scored.
        kept: Number of leading pieces that every window keeps (1 if the first is a system message, else 0).
    """

    texts: tuple[str, ...]
    boundaries: tuple[int, ...]
    kept: int


def log_item(pieces: Sequence[LogPiece]) -> LogItem:
    """Returns a rendered log with its boundaries, of which there may be none."""
    kept = int(bool(pieces) and pieces[0].role in ("system", "developer"))
    return LogItem(tuple(piece.text for piece in pieces), tuple(boundaries(pieces)), kept)


@dataclass(frozen=True, slots=True)
class BoundaryProbability:
    """Probabilities of the end tag and of the continuation at one boundary (a piece index), and whether the end tag is
    what the model writes there; None where that is not known."""

    boundary: int
    p_end: float
    p_continue: float
    generated: bool | None = None


@dataclass(frozen=True, slots=True)
class WrittenOn:
    """Text that the model wrote after a log, and why it stopped."""

    text: str
    stopped: Stopped


@dataclass(frozen=True, slots=True)
class ItemScore:
    """The result for one conversation.

    Attributes:
        curve: One entry per boundary, in order; empty when unscored.
        tokens: Number of tokens of the log up to its last boundary.
        note: Windows and shortened steps, in words, or None.
        unscored: Reason why there is no score, or None.
        written: Remaining tasks written in the same pass, or None.
        states: Hidden states at the boundaries, shape (boundaries, dimensions); None where the question does
            not ask for them.
    """

    curve: tuple[BoundaryProbability, ...]
    tokens: int
    note: str | None = None
    unscored: str | None = None
    written: WrittenOn | None = None
    states: HiddenState | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """The question at each boundary.

    Attributes:
        prompt: The text around the log; None asks after the log alone.
        end_tag: The text that ends a conversation; None is the end-of-text token.
        states: Whether the hidden state at each boundary is read too; only without a prompt.
    """

    prompt: Prompt | None
    end_tag: str | None = None
    states: bool = False


def question_tokens(question: Question, model: Tokenizer) -> tuple[Frame, QuestionTokens]:
    """Returns the frame around each log and the question at each boundary, in tokens of this model."""
    around = frame(question.prompt, model)
    if question.prompt is None:
        end = model.tokenize(question.end_tag) if question.end_tag else [model.end_token]
        opening = tuple(opening_tokens(model))
        return around, QuestionTokens((), tuple(end), opening, len(around.head), question.states)
    end = model.tokenize(question.prompt.end)
    other = model.tokenize(question.prompt.continuation)
    return around, QuestionTokens(tuple(around.tail), tuple(end), tuple(other), len(around.head))


def score_block(
    scorer: BoundaryScorer,
    items: Sequence[LogItem],
    question: Question,
    progress: Progress | None = None,
    *,
    writer: GenerativeModel | None = None,
    remaining: RemainingRequest | None = None,
    kept_logs: KeptLogs | None = None,
) -> list[ItemScore]:
    """Scores every boundary of every conversation of a block, decoded together.

    Args:
        writer: The scorer's model, for `remaining`.
        remaining: Remaining tasks to write in the same pass after logs below a threshold. Logs that need several
            windows are left out.
        kept_logs: See `BoundaryScorer.score`.

    Returns:
        One `ItemScore` per item, in order; a conversation that fits no window is unscored with the reason.

    Raises:
        ModelError: The model cannot answer this kind of question.
        Cancelled: The request was cancelled.
    """
    model = scorer.model
    around, tokens = question_tokens(question, model)
    limit = (
        model.capacity.context - len(around.head) - tokens.forked_tokens - len(tokens.continuation)
    )
    context = model.capacity.context
    prepared = [prepare_log(model, item, around.head, limit, context) for item in items]
    segments = [segment for log in prepared for segment in log.segments]
    first_segments = list(accumulate((len(log.segments) for log in prepared), initial=0))
    inline_writer = None
    if writer is not None and remaining is not None:
        reply_frame = frame(remaining.prompt, model)
        inline_writer = InlineWriter(writer, remaining, reply_frame.tail)
        for item, log, first in zip(items, prepared, first_segments, strict=False):
            if log.whole and reply_frame.head == around.head:
                after = map(model.tokenize, item.texts[item.boundaries[-1] + 1 :])
                inline_writer.offer(first, [*log.segments[0].tokens, *chain.from_iterable(after)])
    readings = iter(scorer.score(segments, tokens, progress, inline_writer, kept_logs))
    scores = [log.score([next(readings) for _ in log.segments]) for log in prepared]
    replies = inline_writer.replies if inline_writer else {}
    return [
        replace(score, written=WrittenOn(reply.text, reply.stopped))
        if (reply := replies.get(first))
        else score
        for score, first in zip(scores, first_segments, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """One conversation in tokens, divided into windows.

    Attributes:
        segments: One for each window, with a mark for each boundary that the window gives.
        windows: The pieces and boundaries of each segment.
        tokens: Number of tokens of the log up to its last boundary.
        clipped: Number of pieces that were shortened.
        note, unscored: As in `ItemScore`.
    """

    segments: tuple[Segment, ...]
    windows: tuple[Window, ...]
    tokens: int
    clipped: int = 0
    note: str | None = None
    unscored: str | None = None

    @property
    def whole(self) -> bool:
        """Whether one window holds the whole log up to the last boundary."""
        return len(self.windows) == 1 and self.note is None

    def score(self, readings: Sequence[Sequence[BoundaryLogProbs]]) -> ItemScore:
        """Returns the score, given the readings at each mark of each segment; unscored if one of them is NaN."""
        all_readings = [reading for window in readings for reading in window]
        if any(math.isnan(each.log_end) or math.isnan(each.log_continue) for each in all_readings):
            return ItemScore((), self.tokens, self.note, NOT_A_NUMBER)
        curve = [
            BoundaryProbability(
                boundary,
                math.exp(reading.log_end),
                math.exp(reading.log_continue),
                reading.generated,
            )
            for window, window_readings in zip(self.windows, readings, strict=True)
            for boundary, reading in zip(window.boundaries, window_readings, strict=True)
        ]
        states = [each.state for each in all_readings if each.state is not None]
        return ItemScore(
            tuple(curve),
            self.tokens,
            self.note,
            self.unscored,
            states=np.stack(states) if states else None,
        )


def prepare_log(
    tokenizer: Tokenizer, item: LogItem, head: list[int], limit: int, context: int
) -> PreparedLog:
    """Returns a conversation in tokens, divided into windows; unscored if the limit has no room for a log.

    Args:
        head: Tokens before every window.
        limit: Tokens of the log that a window may hold.
        context: Context of the model in tokens, for notes.
    """
    if limit < SMALLEST_ROOM:
        reason = f"a context of {context:,} tokens has no room for a log"
        return PreparedLog((), (), 0, unscored=reason)
    # What follows the last boundary is not needed to read it.
    texts = item.texts[: item.boundaries[-1] + 1]
    pieces, clipped = pieces_within(tokenizer, texts, limit)
    total = sum(map(len, pieces))
    note = None
    if total > limit or clipped:
        note = f"over the context of {context:,} tokens"
        if clipped:
            note += f", {clipped} long {'step' if clipped == 1 else 'steps'} shortened"
    windows = plan_windows(list(map(len, pieces)), item.boundaries, item.kept, limit)
    if note:
        note += f", read in {len(windows)} {'window' if len(windows) == 1 else 'windows'}"
    segments = []
    for window in windows:
        tokens = list(head)
        marks = []
        for index in window.pieces:
            tokens.extend(pieces[index])
            if index in window.boundaries:
                marks.append(len(tokens))
        segments.append(Segment(tokens, tuple(marks)))
    return PreparedLog(tuple(segments), tuple(windows), total, clipped, note)
