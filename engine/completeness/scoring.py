"""Scores boundaries: one pass over each log gives `p_end` at every boundary.

The question at a boundary, in tokens, is a `QuestionTokens`: after an optional suffix, how probable is the end answer
and how probable the continuation. With an end tag of one token and no suffix both are read off the pass itself, and
the question is called inline; otherwise the cached sequence is forked at the boundary and suffix and answers are
decoded on the fork, many forks a batch.

Words of this file:

- Cell: the place of one token in the model's cache. A batch is the tokens of one decode.
- Sequence: a list of cells under a number. A fork is a second sequence that shares the first cells of another one.
- Segment: the tokens of one log, or of one window of a log. A mark is the number of tokens before one boundary.
- Group: segments that share a prefix, which is decoded once and forked for each of them.
- Member: a segment of a group while it is decoded. A span is those of its tokens that one decode takes.
- Row: the logits after one position. A pick is one log-probability to take from a row, and the reading it is added to.
- Reading: the log-probabilities of both answers at one mark, a `BoundaryLogProbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from engine.base.errors import ContextTooSmall, ModelError
from engine.completeness.boundaries import Answer, BoundaryLogProbs
from engine.completeness.kept_logs import KeptLogs, KnownPrefix
from engine.completeness.packing import SHARED_CHUNK, Group, Segment, plan_groups
from engine.model.interface import Logits, Span, TokenModel, log_probs

PREFIX_SEQUENCE = 0
"""Number of the sequence that holds the prefix which a group shares."""

Progress = Callable[[int], None]
"""Takes the number of tokens of each decode when it is done."""


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


class SequenceRetainer(Protocol):
    """Retains sequences that would otherwise be dropped when their segment is decoded."""

    def cells_to_continue(self, segment: int, decoded: int) -> int:
        """Returns the number of further cells that a segment of `decoded` tokens would need if it were retained."""

    @property
    def is_full(self) -> bool:
        """Whether `continue_sequences` should be called before more sequences are retained."""

    def retain(
        self, segment: int, last: BoundaryLogProbs, tokens: list[int], sequence: int
    ) -> bool:
        """Retains the sequence of a segment if its reading at the last mark asks for it; returns whether it did."""

    def continue_sequences(self, progress: Progress | None) -> list[int]:
        """Continues the retained sequences, empties them, and returns their numbers."""


class _Pick(NamedTuple):
    """One log-probability to take from a row.

    Attributes:
        reading: What it is added to.
        answer: The answer that the token belongs to.
        token: Id of the token whose log-probability is taken.
    """

    reading: BoundaryLogProbs
    answer: Answer
    token: int


@dataclass(slots=True)
class _Member:
    """A segment while it is decoded.

    Attributes:
        index: Index of the segment.
        tokens: Its tokens and, after a last mark at their end, those of the continuation but the last.
        readings: One for each of `marks`.
        start: What a kept log already has of it.
        picks: Position of a token -> what is read from the row after it.
    """

    index: int
    tokens: list[int]
    marks: tuple[int, ...]
    readings: list[BoundaryLogProbs]
    start: KnownPrefix
    picks: dict[int, list[_Pick]] = field(default_factory=dict)

    def add_pick(self, position: int, pick: _Pick) -> None:
        """Adds what is read from the row after this position."""
        self.picks.setdefault(position, []).append(pick)

    def positions_to_read(self, start: int, stop: int) -> list[int]:
        """Returns the positions in `range(start, stop)` whose rows are read, rising."""
        return [position for position in range(start, stop) if position in self.picks]


class BoundaryScorer:
    """Scores segments on one model; keeps a shared prefix in the cache from call to call."""

    def __init__(self, model: TokenModel) -> None:
        self.model = model
        self._chunk = min(SHARED_CHUNK, model.capacity.batch)
        self._prefix: list[int] = []
        self._states = False

    def forget(self) -> None:
        """Drops the cached prefix, and lets the model keep no states; needed before anything else uses the model."""
        self.model.keep_states(False)
        self._states = False
        self._clear()

    def _clear(self) -> None:
        self.model.clear()
        self._prefix = []

    def score(
        self,
        segments: Sequence[Segment],
        question: QuestionTokens,
        progress: Progress | None = None,
        retainer: SequenceRetainer | None = None,
        kept_logs: KeptLogs | None = None,
    ) -> list[list[BoundaryLogProbs]]:
        """Asks the question at every mark of every segment.

        Args:
            progress: Called after each decode with the tokens it held.
            retainer: Retains sequences of decoded segments and continues them.
            kept_logs: Logs that were read before, of which nothing is read again, and which these logs join; only with
                a question that is `inline`.

        Returns:
            For each segment, one `BoundaryLogProbs` per mark.

        Raises:
            ModelError: The model cannot fork and the question needs forks, or the question needs forks and `kept_logs`
                or states are given, or a log does not go on with a step header.
            ContextTooSmall: The question exceeds a batch, or a segment exceeds the context.
            Cancelled: The request was cancelled.
        """
        if not question.inline and not self.model.capacity.forkable:
            raise ModelError(
                "This model is recurrent or hybrid and cannot be asked at earlier places of a log.",
                "Use mode `tuned` with the model's own end token, which needs no forks.",
            )
        batch = self.model.capacity.batch
        if question.forked_tokens > batch:
            raise ContextTooSmall(
                f"The question is {question.forked_tokens:,} tokens long; at most {batch:,} fit.",
                "Shorten the prompt.",
            )
        if kept_logs is not None and not question.inline:
            raise ModelError("Growing logs are read only where the end tag is one token.")
        self._keep_states(question)
        readings: list[list[BoundaryLogProbs]] = [[] for _ in segments]
        try:
            # What a log has in common with others it may have with a kept one, so nothing else is shared.
            unshared = [Group(0, tuple(range(len(segments))))] if segments else []
            sharing = kept_logs is None
            groups = plan_groups(segments, self._chunk, question.head) if sharing else unshared
            for group in groups:
                self._cache_shared_prefix(segments, group, progress)
                packer = _Packer(self.model, question, group.shared, progress, retainer, kept_logs)
                for index in group.members:
                    member = _begin_member(index, segments[index], question, kept_logs)
                    readings[index] = member.readings
                    packer.add(member)
                packer.close()
        except BaseException:
            self.forget()
            raise
        return readings

    def _keep_states(self, question: QuestionTokens) -> None:
        """Lets the model keep hidden states, or none, as the question needs; a change clears the cache."""
        if question.states and not question.inline:
            raise ModelError("Hidden states are read only where the end tag is one token.")
        if question.states != self._states:
            self.model.keep_states(question.states)
            self._states = question.states
            self._clear()

    def _cache_shared_prefix(
        self, segments: Sequence[Segment], group: Group, progress: Progress | None
    ) -> None:
        """Brings exactly the group's shared prefix into the cache."""
        prefix = segments[group.members[0]].tokens[: group.shared]
        if prefix and prefix == self._prefix:
            return
        self._clear()
        for position in range(0, len(prefix), self._chunk):
            chunk = prefix[position : position + self._chunk]
            self.model.decode([Span(chunk, position, (PREFIX_SEQUENCE,))])
            if progress:
                progress(len(chunk))
        self._prefix = prefix


def _begin_member(
    index: int, segment: Segment, question: QuestionTokens, kept_logs: KeptLogs | None
) -> _Member:
    """Returns a segment as a member, with what is to be read at each of its positions.

    The readings at marks that a kept log knows are taken from there. With a suffix nothing is picked here, since both
    answers are read on forks; without one their first tokens are read in the pass. An inline question also reads the
    continuation's further tokens there, which the log itself has to hold after each mark.

    Raises:
        ModelError: The log does not go on with the continuation after a mark, and the question is inline.
    """
    tokens, continuation = list(segment.tokens), question.continuation
    header = continuation[:-1]
    if question.inline and segment.marks[-1] == len(tokens):
        # Nothing attends to tokens at the very end, so the last boundary may be continued in place.
        tokens.extend(header)
    start = kept_logs.start(tokens, segment.marks) if kept_logs else KnownPrefix()
    readings = [
        start.readings.get(mark) or BoundaryLogProbs(generated=True) for mark in segment.marks
    ]
    member = _Member(index, tokens, segment.marks, readings, start)
    for mark, reading in zip(segment.marks, member.readings, strict=True):
        if question.suffix or mark in start.readings:
            continue
        member.add_pick(mark - 1, _Pick(reading, "end", question.end[0]))
        member.add_pick(mark - 1, _Pick(reading, "continuation", continuation[0]))
        if not question.inline:
            continue
        if tuple(tokens[mark : mark + len(header)]) != header:
            raise ModelError(f"The log does not continue with a step header after token {mark}.")
        for offset, token in enumerate(continuation[1:]):
            member.add_pick(mark + offset, _Pick(reading, "continuation", token))
    return member


class _Packer:
    """Fills decode batches with the tokens of many members, one after another."""

    def __init__(
        self,
        model: TokenModel,
        question: QuestionTokens,
        shared: int,
        progress: Progress | None,
        retainer: SequenceRetainer | None,
        kept_logs: KeptLogs | None,
    ) -> None:
        self._model, self._question, self._shared = model, question, shared
        self._progress, self._retainer, self._kept_logs = progress, retainer, kept_logs
        self._capacity = model.capacity
        self._retained_cells = 0
        # The lower half of the sequences holds members, the upper half their forks, so that neither starves the other.
        half = self._capacity.sequences // 2
        self._free_sequences = list(range(half - 1, PREFIX_SEQUENCE, -1))
        self._fork_sequences = list(range(half, self._capacity.sequences))
        self._spans: list[Span] = []
        self._batch_tokens = self._batch_rows = 0
        self._picks_by_row: list[list[_Pick]] = []
        self._finished: list[tuple[_Member, int]] = []

    def add(self, member: _Member) -> None:
        """Adds all tokens of a member, decoding each batch as it fills.

        Raises:
            ContextTooSmall: The member and the question exceed the context.
        """
        capacity = self._capacity
        if len(member.tokens) + self._question.forked_tokens > capacity.context:
            raise ContextTooSmall(
                f"A log of {len(member.tokens):,} tokens exceeds the context of {capacity.context:,}."
            )
        if self._retainer and not self._has_room_to_retain(self._retainer, member):
            self.close()
        if not self._free_sequences or (
            self._kept_logs is not None and not self._has_room_to_save(member)
        ):
            self.flush()
        sequence = self._free_sequences.pop()
        if self._shared:
            self._model.fork(PREFIX_SEQUENCE, sequence, self._shared)
        position = self._shared
        if member.start.log is not None:
            self._model.restore(sequence, member.start.log.cells)
            self._model.drop(sequence, member.start.tokens)
            position = member.start.tokens
        while position < len(member.tokens):
            if self._batch_tokens >= capacity.batch or self._batch_rows >= capacity.rows:
                self.flush()
            stop = self._end_of_span(member, position)
            to_read = member.positions_to_read(position, stop)
            offsets = tuple(read - position for read in to_read)
            self._spans.append(Span(member.tokens[position:stop], position, (sequence,), offsets))
            self._picks_by_row.extend(member.picks[read] for read in to_read)
            self._batch_tokens += stop - position
            self._batch_rows += len(to_read)
            position = stop
        self._finished.append((member, sequence))

    def _end_of_span(self, member: _Member, start: int) -> int:
        """Returns the position before which the next span of a member ends: where the batch has no room for more of its
        tokens, or for more rows."""
        stop = min(len(member.tokens), start + self._capacity.batch - self._batch_tokens)
        rows_left = self._capacity.rows - self._batch_rows
        to_read = member.positions_to_read(start, stop)
        return to_read[rows_left] if len(to_read) > rows_left else stop

    def flush(self) -> None:
        """Decodes what was added, asks the question on forks of finished members, and drops or retains them."""
        if self._spans:
            self._decode(self._spans, self._picks_by_row)
        if not self._question.inline:
            self._ask_on_forks()
        retainer = self._retainer
        for member, sequence in self._finished:
            last = member.readings[-1]
            if self._kept_logs is not None:
                readings = dict(zip(member.marks, member.readings, strict=True))
                cells = self._model.save(sequence)
                self._kept_logs.keep(member.tokens, readings, cells, member.start)
            if retainer and retainer.retain(member.index, last, member.tokens, sequence):
                self._retained_cells += self._cells_if_retained(retainer, member)
            else:
                self._model.drop(sequence)
                self._free_sequences.append(sequence)
        self._spans, self._picks_by_row, self._finished = [], [], []
        self._batch_tokens = self._batch_rows = 0
        if retainer and retainer.is_full:
            self._continue_retained(retainer)

    def close(self) -> None:
        """Decodes what was added and continues the sequences that were retained."""
        self.flush()
        if self._retainer:
            self._continue_retained(self._retainer)

    def _continue_retained(self, retainer: SequenceRetainer) -> None:
        self._free_sequences.extend(retainer.continue_sequences(self._progress))
        self._retained_cells = 0

    def _has_room_to_retain(self, retainer: SequenceRetainer, member: _Member) -> bool:
        """Whether a batch of cells would be left if this member and all finished ones were retained."""
        members = [*(finished for finished, _ in self._finished), member]
        cells = sum(self._cells_if_retained(retainer, each) for each in members)
        used = self._shared + self._retained_cells + cells
        return used + self._capacity.batch <= self._capacity.cells

    def _has_room_to_save(self, member: _Member) -> bool:
        """Whether all cells of a member that was kept fit beside those that wait for the next decode."""
        before = 0 if member.start.log is None else len(member.start.log.tokens)
        waiting = sum(len(finished.tokens) for finished, _ in self._finished)
        return waiting + max(before, len(member.tokens)) <= self._capacity.cells

    def _cells_if_retained(self, retainer: SequenceRetainer, member: _Member) -> int:
        """Returns the number of cells, without the shared ones, that a member needs if it is retained."""
        length = len(member.tokens)
        return length - self._shared + retainer.cells_to_continue(member.index, length)

    def _decode(self, spans: Sequence[Span], picks_by_row: Sequence[list[_Pick]]) -> None:
        """Decodes one batch and adds what its rows say to the readings; `picks_by_row` has an entry for each row."""
        rows = self._model.decode(spans)
        for row, picks in zip(rows, picks_by_row, strict=True):
            _read_row(row, picks)
        if self._question.states:
            for state, picks in zip(self._model.hidden_states(), picks_by_row, strict=True):
                for pick in picks:
                    if pick.answer == "end":
                        pick.reading.state = state
        if self._progress:
            self._progress(sum(len(span.tokens) for span in spans))

    def _ask_on_forks(self) -> None:
        """Asks the question at every mark of the finished members, on two forks each: one for the suffix and the end,
        one for the continuation."""
        spans: list[Span] = []
        picks_by_row: list[list[_Pick]] = []
        forks: list[int] = []
        question = self._question
        for member, sequence in self._finished:
            for mark, reading in zip(member.marks, member.readings, strict=True):
                tokens = sum(len(span.tokens) for span in spans) + question.forked_tokens
                rows = len(picks_by_row) + len(question.end) + len(question.continuation)
                full = tokens > self._capacity.batch or rows > self._capacity.rows
                if full or len(forks) + 2 > len(self._fork_sequences):
                    self._decode_forks(spans, picks_by_row, forks)
                    spans, picks_by_row, forks = [], [], []
                end_fork, continuation_fork = self._fork_sequences[len(forks) : len(forks) + 2]
                forks += [end_fork, continuation_fork]
                self._model.fork(sequence, end_fork, mark)
                self._model.fork(sequence, continuation_fork, mark)
                self._add_fork_spans(
                    mark, reading, end_fork, continuation_fork, spans, picks_by_row
                )
        self._decode_forks(spans, picks_by_row, forks)

    def _add_fork_spans(
        self, mark: int, reading: BoundaryLogProbs, end_fork: int, continuation_fork: int,
        spans: list[Span], picks_by_row: list[list[_Pick]],
    ) -> None:  # fmt: skip
        """Adds the spans of one boundary's forks and the picks of their rows.

        The suffix is decoded once for both forks, and the row after it gives the first token of each answer; the other
        tokens are read on the fork of their answer, each from the row before it.
        """
        question = self._question
        position = mark + len(question.suffix)
        if question.suffix:
            both = (end_fork, continuation_fork)
            spans.append(Span(question.suffix, mark, both, (len(question.suffix) - 1,)))
            first_end = _Pick(reading, "end", question.end[0])
            picks_by_row.append(
                [first_end, _Pick(reading, "continuation", question.continuation[0])]
            )
        answers: tuple[tuple[tuple[int, ...], Answer, int], ...] = (
            (question.end, "end", end_fork),
            (question.continuation, "continuation", continuation_fork),
        )
        for tokens, answer, fork in answers:
            if len(tokens) > 1:
                spans.append(Span(tokens[:-1], position, (fork,), tuple(range(len(tokens) - 1))))
                picks_by_row.extend([_Pick(reading, answer, token)] for token in tokens[1:])

    def _decode_forks(
        self, spans: list[Span], picks_by_row: list[list[_Pick]], forks: list[int]
    ) -> None:
        """Decodes the spans of forks, if there are any, and drops the forks."""
        if spans:
            self._decode(spans, picks_by_row)
        for sequence in forks:
            self._model.drop(sequence)


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
