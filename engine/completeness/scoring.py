"""Scores conversations on one model: one pass over each log gives the probability of the end at every boundary.

A piece is the text of one step of a log, with its header. A window is a list of pieces that together fit the context;
a log that fits has one window. The tokens of a window are a segment. A boundary is a piece after which the conversation
could end.

The question at a boundary is how probable two answers are: the end and the continuation. `QuestionTokens` holds it in
tokens, with a suffix that may stand before both answers. A question is inline if it has no suffix and its end tag is
one token; then the pass over the log itself gives both probabilities, and the continuation is the step header (the
tokens that open the next step) that follows each boundary in the log. For any other question the cached sequence is
forked at each boundary, and suffix and answers are decoded on the forks, many in a batch.
`engine.completeness.packing` explains more words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.base.conversation import LogPiece, count_pinned
from engine.base.errors import ContextTooSmall, ModelError
from engine.completeness import packing
from engine.completeness.boundaries import BoundaryReading, QuestionTokens, boundaries
from engine.model.interface import HiddenState, Span, Tokenizer, TokenModel
from engine.model.log_windows import MIN_LOG_TOKENS, longest_piece, plan_windows, tokens_of_windows
from engine.model.prompt_files import Prompt, TokensAround, opening_tokens, tokens_around

NOT_A_NUMBER = "the model, with its adapter if it has one, gave values that are not numbers"
"""Reason why a conversation is unscored whose probabilities are NaN, or whose states are beyond 16 bits."""


class BoundaryScorer:
    """Scores segments on one model; keeps a shared prefix in the cache from call to call.

    Attributes:
        _chunk_tokens: Unit of shared prefixes, in tokens.
        _cached_prefix: Tokens that the sequence `PREFIX_SEQUENCE` of the cache holds.
        _keeps_states: Whether the model now keeps the hidden states of what it decodes.
    """

    def __init__(self, model: TokenModel) -> None:
        """Decodes nothing yet."""
        self.model = model
        self._chunk_tokens = min(packing.SHARED_CHUNK, model.capacity.batch)
        self._cached_prefix: list[int] = []
        self._keeps_states = False

    def forget(self) -> None:
        """Drops the cached prefix, and lets the model keep no states; needed before anything else uses the model."""
        self.model.keep_states(False)
        self._keeps_states = False
        self._clear()

    def _clear(self) -> None:
        """Empties the cache of the model."""
        self.model.clear()
        self._cached_prefix = []

    def score(
        self,
        segments: Sequence[packing.Segment],
        question: QuestionTokens,
        on_tokens: packing.OnTokens = lambda count: None,
    ) -> list[list[BoundaryReading]]:
        """Asks the question at every mark of every segment.

        Args:
            on_tokens: Called after each decode with the number of its tokens.

        Returns:
            For each segment, one `BoundaryReading` per mark.

        Raises:
            ModelError: The question needs forks, and the model cannot fork or states are asked for too; or a log does
                not go on with a step header.
            ContextTooSmall: The question exceeds a batch, or a segment exceeds the context.
            Cancelled: The request was cancelled.
        """
        if not question.inline and not self.model.capacity.forkable:
            raise ModelError(
                "This model is recurrent or hybrid and cannot be asked at earlier places of a log.",
                "Use mode `tuned`, which needs no forks.",
            )
        batch = self.model.capacity.batch
        if question.forked_tokens > batch:
            raise ContextTooSmall(
                f"The question is {question.forked_tokens:,} tokens long; at most {batch:,} fit.",
                "Shorten the prompt.",
            )
        self._match_states_to(question)
        readings: list[list[BoundaryReading]] = [[] for _ in segments]
        try:
            for group in packing.plan_groups(segments, self._chunk_tokens, question.head):
                self._cache_shared_prefix(segments, group, on_tokens)
                packer = packing.Packer(self.model, question, group.shared, on_tokens)
                for index in group.members:
                    member = packing.begin_member(segments[index], question)
                    readings[index] = member.readings
                    packer.add(member)
                packer.flush()
        except BaseException:
            self.forget()
            raise
        return readings

    def _match_states_to(self, question: QuestionTokens) -> None:
        """Lets the model keep hidden states, or none, as the question needs; a change clears the cache.

        Raises:
            ModelError: The question needs both states and forks.
        """
        if question.states and not question.inline:
            raise ModelError("Hidden states are read only where the end tag is one token.")
        if question.states != self._keeps_states:
            self.model.keep_states(question.states)
            self._keeps_states = question.states
            self._clear()

    def _cache_shared_prefix(
        self, segments: Sequence[packing.Segment], group: packing.Group, on_tokens: packing.OnTokens
    ) -> None:
        """Brings exactly the group's shared prefix into the cache."""
        prefix = segments[group.members[0]].tokens[: group.shared]
        if prefix and prefix == self._cached_prefix:
            return
        self._clear()
        for position in range(0, len(prefix), self._chunk_tokens):
            chunk = prefix[position : position + self._chunk_tokens]
            self.model.decode([Span(chunk, position, (packing.PREFIX_SEQUENCE,))])
            on_tokens(len(chunk))
        self._cached_prefix = prefix


@dataclass(frozen=True, slots=True)
class LogItem:
    """One conversation to score.

    Attributes:
        texts: The pieces of its log.
        boundaries: Indices of the pieces after which it could end, rising; a log that is scored has one at least.
        pinned_pieces: Number of leading pieces that every window keeps, see `count_pinned`.
    """

    texts: tuple[str, ...]
    boundaries: tuple[int, ...]
    pinned_pieces: int


def log_item(pieces: Sequence[LogPiece]) -> LogItem:
    """Returns a rendered log with its boundaries, of which there may be none."""
    texts = tuple(piece.text for piece in pieces)
    return LogItem(texts, tuple(boundaries(pieces)), count_pinned(pieces))


@dataclass(frozen=True, slots=True)
class ItemScore:
    """The result for one conversation.

    Attributes:
        curve: One reading for each of the item's boundaries, without its state; empty when unscored.
        tokens: Number of tokens of the log up to its last boundary.
        note: Windows and shortened steps, in words, or None.
        unscored: Reason why there is no score, or None.
        states: Hidden states at the boundaries, shape (boundaries, dimensions); None where the question does
            not ask for them.
    """

    curve: tuple[BoundaryReading, ...]
    tokens: int
    note: str | None = None
    unscored: str | None = None
    states: HiddenState | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """The question at each boundary.

    Attributes:
        prompt: The text around the log; None asks after the log alone, for the end-of-text token.
        states: Whether the hidden state at each boundary is read too; only without a prompt.
    """

    prompt: Prompt | None
    states: bool = False


def question_tokens(question: Question, model: Tokenizer) -> tuple[TokensAround, QuestionTokens]:
    """Returns the prompt around each log and the question at each boundary, in tokens of this model."""
    around = tokens_around(question.prompt, model)
    if question.prompt is None:
        return around, QuestionTokens(
            suffix=(),
            end=(model.end_token,),
            continuation=tuple(opening_tokens(model)),
            head=len(around.head),
            states=question.states,
        )
    return around, QuestionTokens(
        suffix=tuple(around.tail),
        end=tuple(model.tokenize(question.prompt.end)),
        continuation=tuple(model.tokenize(question.prompt.continuation)),
        head=len(around.head),
    )


def score_block(
    scorer: BoundaryScorer,
    items: Sequence[LogItem],
    question: Question,
    on_tokens: packing.OnTokens = lambda count: None,
) -> list[ItemScore]:
    """Scores every boundary of every conversation of a block, decoded together.

    Returns:
        One `ItemScore` per item, in order; a conversation that fits no window is unscored with the reason.

    Raises:
        ModelError: The model cannot answer this kind of question.
        Cancelled: The request was cancelled.
    """
    model = scorer.model
    around, tokens = question_tokens(question, model)
    context = model.capacity.context
    # An inline question has no forked tokens; its last boundary is followed by the continuation in the log itself.
    limit = context - len(around.head) - tokens.forked_tokens - len(tokens.continuation)
    prepared = [prepare_log(model, item, around.head, limit, context) for item in items]
    segments = [segment for log in prepared for segment in log.segments]
    readings = iter(scorer.score(segments, tokens, on_tokens))
    return [log.score([next(readings) for _ in log.segments]) for log in prepared]


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """One conversation in tokens, divided into windows.

    Attributes:
        segments: One for each window, with a mark for each boundary that the window gives.
        tokens: Number of tokens of the log up to its last boundary.
        note, unscored: As in `ItemScore`.
    """

    segments: tuple[packing.Segment, ...]
    tokens: int
    note: str | None = None
    unscored: str | None = None

    def score(self, readings: Sequence[Sequence[BoundaryReading]]) -> ItemScore:
        """Returns the score, unscored if a reading or a state is not a number.

        Args:
            readings: The readings of each segment, one for each of its marks.
        """
        curve = [reading for segment_readings in readings for reading in segment_readings]
        if any(
            math.isnan(reading.log_end) or math.isnan(reading.log_continue) for reading in curve
        ):
            return ItemScore((), self.tokens, self.note, NOT_A_NUMBER)
        states = [reading.state for reading in curve if reading.state is not None]
        with np.errstate(over="ignore"):
            # States are kept in 16 bits; one that is no number there would end every later fit with an error.
            if not all(np.isfinite(state.astype(np.float16)).all() for state in states):
                return ItemScore((), self.tokens, self.note, NOT_A_NUMBER)
        return ItemScore(
            tuple(replace(reading, state=None) for reading in curve),
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
    if limit < MIN_LOG_TOKENS:
        reason = f"a context of {context:,} tokens has no room for a log"
        return PreparedLog((), 0, unscored=reason)
    # What follows the last boundary is not needed to read it.
    texts = item.texts[: item.boundaries[-1] + 1]
    pieces = [tokenizer.tokenize(text) for text in texts]
    lengths = list(map(len, pieces))
    windows = plan_windows(lengths, item.boundaries, item.pinned_pieces, limit)
    # a clipped window shortens pieces that are longer; see `plan_windows`
    longest = longest_piece(limit)
    shortened = {
        index
        for window in windows
        if window.clipped
        for index in window.pieces
        if lengths[index] > longest
    }
    note = None
    if sum(lengths) > limit:
        note = f"over the context of {context:,} tokens"
        if shortened:
            steps = "step" if len(shortened) == 1 else "steps"
            note += f", {len(shortened)} long {steps} shortened"
        note += f", read in {len(windows)} {'window' if len(windows) == 1 else 'windows'}"
    segments = []
    window_pieces = tokens_of_windows(tokenizer, pieces, windows, limit)
    for window, pieces_of_window in zip(windows, window_pieces, strict=True):
        tokens = list(head)
        marks = []
        for index, piece in zip(window.pieces, pieces_of_window, strict=True):
            tokens.extend(piece)
            if index in window.boundaries:
                marks.append(len(tokens))
        segments.append(packing.Segment(tokens, tuple(marks)))
    return PreparedLog(tuple(segments), sum(lengths), note)
