"""Packs segments into decodes: which of them share a prefix, and what is read after each token.

The plan of groups depends only on the segments and their order, never on what was decoded before: a block of
conversations scored again after a crash is packed in the same way and gives the same bits.

Words of this file:

- Cell: the place of one token in the model's cache. A batch is the tokens of one decode.
- Sequence: a list of cells under a number. A fork is a second sequence that shares the first cells of another one.
- Segment: the tokens of one log, or of one window of a log. A mark is the number of tokens before one boundary.
- Group: segments that share a prefix, which is decoded once and forked for each of them.
- Member: a segment of a group while it is decoded. A span is those of its tokens that one decode takes.
- Row: the logits after one position. A pick is one log-probability to take from a row, and the reading it is added to.
- Reading: the log-probabilities of both answers at one mark, a `BoundaryReading`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.errors import ContextTooSmall, ModelError
from engine.completeness.boundaries import Answer, BoundaryReading, QuestionTokens
from engine.model.interface import Logits, Span, TokenModel, log_probs

PREFIX_SEQUENCE = 0
"""Number of the sequence that holds the prefix which a group shares."""

OnTokens = Callable[[int], None]
"""Is called after each decode with the number of its tokens."""

SHARED_CHUNK = 256
"""Shared prefixes are whole multiples of this many tokens (of one batch, where that is less) and are decoded in
batches of this size, so that a prefix kept from an earlier block has the same bits as one decoded anew. Only the head
that all segments have may be no multiple; its last batch is smaller, at every time alike."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens to decode as one sequence.

    Attributes:
        tokens: Token ids, from the start of the sequence.
        marks: Numbers of tokens after which the question is asked, rising; the last is at most len(tokens).
    """

    tokens: list[int]
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Segments (by index) that share their first `shared` tokens."""

    shared: int
    members: tuple[int, ...]


def plan_groups(segments: Sequence[Segment], chunk: int, head: int = 0) -> list[Group]:
    """Returns groups of segments by shared prefix. The first group has the segments that share no whole chunk with
    another; it is left out where there are none.

    Args:
        segments: The segments to group.
        chunk: Unit of shared prefixes, in tokens.
        head: Leading tokens that all segments have in common by construction; the first group shares them.
    """
    # Sorted, those with an equal first chunk are neighbors. A run of neighbors takes the next one in while all still
    # share a chunk; what they share can only shrink.
    order = sorted(range(len(segments)), key=lambda index: (segments[index].tokens[:chunk], index))
    ungrouped: list[int] = []
    groups: list[Group] = []
    start = 0
    while start < len(order):
        run = [order[start]]
        shared = _shareable_tokens(segments[order[start]], chunk)
        while start + len(run) < len(order) and shared:
            following = order[start + len(run)]
            common = _common_tokens(segments[run[0]], segments[following], shared, chunk)
            if not common:
                break
            shared = common
            run.append(following)
        if len(run) > 1:
            groups.append(Group(shared, tuple(sorted(run))))
        else:
            ungrouped.append(run[0])
        start += len(run)
    return ([Group(head, tuple(sorted(ungrouped)))] if ungrouped else []) + groups


def _shareable_tokens(segment: Segment, chunk: int) -> int:
    """Returns the number of tokens before the first mark, in whole chunks; at least one token is left to decode."""
    return (segment.marks[0] - 1) // chunk * chunk


def _common_tokens(first: Segment, other: Segment, limit: int, chunk: int) -> int:
    """Returns the number of first tokens that two segments share, in whole chunks and at most `limit`."""
    limit = min(limit, _shareable_tokens(other, chunk))
    shared = 0
    while shared < limit:
        next_chunk = slice(shared, shared + chunk)
        if first.tokens[next_chunk] != other.tokens[next_chunk]:
            break
        shared += chunk
    return shared


class _Pick(NamedTuple):
    """One log-probability to take from a row.

    Attributes:
        reading: The reading that it is added to.
        answer: The answer that the token belongs to.
        token: Id of the token whose log-probability is taken.
    """

    reading: BoundaryReading
    answer: Answer
    token: int


@dataclass(slots=True)
class _Batch:
    """What one decode will take.

    Attributes:
        spans: The tokens to decode.
        picks_by_row: The picks of each row of these spans.
        forks: Numbers of the sequences of forks among them, which are dropped after the decode.
    """

    spans: list[Span] = field(default_factory=list)
    picks_by_row: list[list[_Pick]] = field(default_factory=list)
    forks: list[int] = field(default_factory=list)

    @property
    def token_count(self) -> int:
        """Number of tokens to decode."""
        return sum(len(span.tokens) for span in self.spans)


@dataclass(slots=True)
class Member:
    """A segment while it is decoded.

    Attributes:
        tokens: Tokens of the segment and, after a last mark at their end, those of the continuation but the last.
        marks: Marks of the segment.
        readings: A reading for each mark.
        picks: The picks of the row after a token, by the position of the token.
    """

    tokens: list[int]
    marks: tuple[int, ...]
    readings: list[BoundaryReading]
    picks: dict[int, list[_Pick]] = field(default_factory=dict)

    def add_pick(self, position: int, pick: _Pick) -> None:
        """Adds a pick of the row after this position."""
        self.picks.setdefault(position, []).append(pick)

    def positions_to_read(self, start: int, stop: int) -> list[int]:
        """Returns the positions in `range(start, stop)` whose rows are read, rising."""
        return [position for position in range(start, stop) if position in self.picks]


def begin_member(segment: Segment, question: QuestionTokens) -> Member:
    """Returns a segment as a member, with what is to be read at each of its positions.

    With a suffix nothing is picked here, since both answers are read on forks; without one their first tokens are read
    in the pass. An inline question also reads the continuation's further tokens there, which the log itself has to hold
    after each mark.

    Raises:
        ModelError: The log does not go on with the continuation after a mark, and the question is inline.
    """
    tokens, continuation = list(segment.tokens), question.continuation
    step_header = continuation[:-1]
    if question.inline and segment.marks[-1] == len(tokens):
        # Each token attends to earlier ones only, so what is added at the very end changes no reading.
        tokens.extend(step_header)
    member = Member(tokens, segment.marks, [BoundaryReading() for _ in segment.marks])
    if question.suffix:
        return member
    for mark, reading in zip(segment.marks, member.readings, strict=True):
        member.add_pick(mark - 1, _Pick(reading, "end", question.end[0]))
        member.add_pick(mark - 1, _Pick(reading, "continuation", continuation[0]))
        if not question.inline:
            continue
        if tuple(tokens[mark : mark + len(step_header)]) != step_header:
            raise ModelError(f"The log does not continue with a step header after token {mark}.")
        for offset, token in enumerate(continuation[1:]):
            member.add_pick(mark + offset, _Pick(reading, "continuation", token))
    return member


class Packer:
    """Fills decode batches with the tokens of many members, one after another.

    Attributes:
        _shared: Number of first tokens that all members have in the sequence `PREFIX_SEQUENCE`.
        _batch: What the next decode takes of members; the forks of members have batches of their own.
        _finished: Members whose last token is decoded, or is in the next decode, with their sequences.
    """

    def __init__(
        self,
        model: TokenModel,
        question: QuestionTokens,
        shared: int,
        on_tokens: OnTokens,
    ) -> None:
        """Decodes nothing yet.

        Args:
            question: What is asked at each mark of each member.
            shared: Number of first tokens that all members have in the sequence `PREFIX_SEQUENCE`.
            on_tokens: Is called with the number of tokens of each decode.
        """
        self._model, self._question, self._shared = model, question, shared
        self._on_tokens = on_tokens
        self._capacity = model.capacity
        # The lower half of the sequences, but for the shared prefix, holds members, the upper half their forks, so that
        # neither starves the other.
        half = self._capacity.sequences // 2
        self._free_sequences = list(range(half - 1, PREFIX_SEQUENCE, -1))
        self._fork_sequences = list(range(half, self._capacity.sequences))
        self._batch = _Batch()
        self._finished: list[tuple[Member, int]] = []

    def add(self, member: Member) -> None:
        """Adds all tokens of a member, decoding each batch as it fills.

        Raises:
            ContextTooSmall: The member and the question exceed the context.
        """
        capacity = self._capacity
        if len(member.tokens) + self._question.forked_tokens > capacity.context:
            raise ContextTooSmall(
                f"A log of {len(member.tokens):,} tokens exceeds the context of {capacity.context:,}."
            )
        if not self._free_sequences:
            self.flush()
        sequence = self._free_sequences.pop()
        if self._shared:
            self._model.fork(PREFIX_SEQUENCE, sequence, self._shared)
        position = self._shared
        while position < len(member.tokens):
            row_count = len(self._batch.picks_by_row)
            if self._batch.token_count >= capacity.batch or row_count >= capacity.rows:
                self.flush()  # this member is not finished, so it keeps its sequence
            stop = self._end_of_span(member, position)
            to_read = member.positions_to_read(position, stop)
            offsets = tuple(row_position - position for row_position in to_read)
            span = Span(member.tokens[position:stop], position, (sequence,), offsets)
            self._batch.spans.append(span)
            self._batch.picks_by_row.extend(member.picks[row_position] for row_position in to_read)
            position = stop
        self._finished.append((member, sequence))

    def _end_of_span(self, member: Member, start: int) -> int:
        """Returns the position before which the next span of a member ends: where the batch has no room for more of its
        tokens, or for more rows."""
        stop = min(len(member.tokens), start + self._capacity.batch - self._batch.token_count)
        rows_left = self._capacity.rows - len(self._batch.picks_by_row)
        to_read = member.positions_to_read(start, stop)
        return to_read[rows_left] if len(to_read) > rows_left else stop

    def flush(self) -> None:
        """Decodes what was added, asks the question on forks of finished members, and drops them."""
        self._decode(self._batch)
        if not self._question.inline:
            self._ask_on_forks()
        for _, sequence in self._finished:
            self._model.drop(sequence)
            self._free_sequences.append(sequence)
        self._batch, self._finished = _Batch(), []

    def _decode(self, batch: _Batch) -> None:
        """Decodes a batch, unless it is empty, adds what its rows say to the readings, and drops its forks."""
        if batch.spans:
            rows = self._model.decode(batch.spans)
            for row, picks in zip(rows, batch.picks_by_row, strict=True):
                _read_row(row, picks)
            if self._question.states:
                self._keep_states(batch)
            self._on_tokens(batch.token_count)
        for sequence in batch.forks:
            self._model.drop(sequence)

    def _keep_states(self, batch: _Batch) -> None:
        """Adds the hidden state of each row after which the end was asked for to its reading."""
        for state, picks in zip(self._model.hidden_states(), batch.picks_by_row, strict=True):
            for pick in picks:
                if pick.answer == "end":
                    pick.reading.state = state

    def _ask_on_forks(self) -> None:
        """Asks the question at every mark of the finished members, on two forks each: one for the suffix and the end,
        one for the continuation."""
        batch = _Batch()
        question = self._question
        for member, sequence in self._finished:
            for mark, reading in zip(member.marks, member.readings, strict=True):
                token_count = batch.token_count + question.forked_tokens
                # An upper bound: the first tokens of both answers share a row.
                row_count = len(batch.picks_by_row) + len(question.end) + len(question.continuation)
                is_full = token_count > self._capacity.batch or row_count > self._capacity.rows
                used = len(batch.forks)
                if is_full or used + 2 > len(self._fork_sequences):
                    self._decode(batch)
                    batch, used = _Batch(), 0
                end_fork, continuation_fork = self._fork_sequences[used : used + 2]
                batch.forks += [end_fork, continuation_fork]
                self._model.fork(sequence, end_fork, mark)
                self._model.fork(sequence, continuation_fork, mark)
                self._add_fork_spans(batch, mark, reading, (end_fork, continuation_fork))
        self._decode(batch)

    def _add_fork_spans(
        self, batch: _Batch, mark: int, reading: BoundaryReading, forks: tuple[int, int]
    ) -> None:
        """Adds the spans of one boundary's two forks, of the end and of the continuation, and the picks of their rows.

        The suffix is decoded once for both forks, and the row after it gives the first token of each answer; the other
        tokens are read on the fork of their answer, each from the row before it.
        """
        question = self._question
        end_fork, continuation_fork = forks
        position = mark + len(question.suffix)
        if question.suffix:
            batch.spans.append(Span(question.suffix, mark, forks, (len(question.suffix) - 1,)))
            first_end = _Pick(reading, "end", question.end[0])
            batch.picks_by_row.append(
                [first_end, _Pick(reading, "continuation", question.continuation[0])]
            )
        answers: tuple[tuple[tuple[int, ...], Answer, int], ...] = (
            (question.end, "end", end_fork),
            (question.continuation, "continuation", continuation_fork),
        )
        for tokens, answer, fork in answers:
            if len(tokens) > 1:
                offsets = tuple(range(len(tokens) - 1))
                batch.spans.append(Span(tokens[:-1], position, (fork,), offsets))
                batch.picks_by_row.extend([_Pick(reading, answer, token)] for token in tokens[1:])


def _read_row(row: Logits, picks: list[_Pick]) -> None:
    """Adds the log-probabilities that a row gives its picks' tokens to their readings.

    The end is no longer what the model writes at a boundary once one of its tokens is not the most probable one.
    """
    values = log_probs(row, [pick.token for pick in picks])
    best = int(row.argmax())
    for pick, value in zip(picks, values, strict=True):
        pick.reading.add(pick.answer, float(value))
        if pick.answer == "end" and pick.token != best:
            pick.reading.generated = False
