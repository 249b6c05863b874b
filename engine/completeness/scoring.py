"""Scores boundaries: one pass over each log gives `p_end` at every boundary.

The question at a boundary, in tokens, is a `QuestionTokens`: after an optional suffix, how probable is the end answer
and how probable the continuation. With an end tag of one token and no suffix both are read off the pass itself;
otherwise the cached sequence is forked at the boundary and suffix and answers are decoded on the fork, many forks a
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.base.errors import ContextTooSmall, ModelError
from engine.completeness.boundaries import BoundaryLogProbs
from engine.completeness.kept_logs import KeptLogs, KnownPrefix
from engine.completeness.packing import SHARED_CHUNK, Group, Segment, plan_groups
from engine.model.interface import Logits, Span, TokenModel, log_probs

PREFIX_SEQUENCE = 0
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    """The question at a boundary, in tokens.

    Attributes:
        suffix: Decoded after the log, before either answer; may be empty.
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
        """Tokens decoded on the fork of one boundary."""
        if self.inline:
            return 0
        return len(self.suffix) + len(self.end) + len(self.continuation) - 2


class SequenceRetainer(Protocol):
    """Keeps sequences that would otherwise be dropped when their segment is decoded."""

    def growth(self, segment: int, decoded: int) -> int:
        """Further cells that a segment of `decoded` tokens would need if it were kept."""

    @property
    def full(self) -> bool:
        """Whether `write` should be called before more sequences are kept."""

    def keeps(self, segment: int, last: BoundaryLogProbs, tokens: list[int], sequence: int) -> bool:
        """Whether it keeps the sequence of a segment, given the log-probabilities at its last mark."""

    def write(self, progress: Progress | None) -> list[int]:
        """Continues the kept sequences; returns them, empty again."""


@dataclass(slots=True)
class _Member:
    """A segment while it is decoded; `picks` maps token positions to the log-probabilities that are read there."""

    index: int
    tokens: list[int]
    marks: tuple[int, ...]
    readings: list[BoundaryLogProbs]
    start: KnownPrefix
    picks: dict[int, list[tuple[BoundaryLogProbs, str, int]]] = field(default_factory=dict)

    def pick(self, position: int, reading: BoundaryLogProbs, answer: str, token: int) -> None:
        self.picks.setdefault(position, []).append((reading, answer, token))


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
        asked: QuestionTokens,
        progress: Progress | None = None,
        retainer: SequenceRetainer | None = None,
        kept: KeptLogs | None = None,
    ) -> list[list[BoundaryLogProbs]]:
        """Asks the question at every mark of every segment.

        Args:
            progress: Called after each decode with the tokens it held.
            retainer: Keeps sequences of decoded segments and continues them.
            kept: Logs that were read before, of which nothing is read again, and which these logs join; only with a
                question that is `inline`.

        Returns:
            For each segment, one `BoundaryLogProbs` per mark.

        Raises:
            ModelError: The model cannot fork and the question needs forks, or a segment exceeds the context.
            Cancelled: The request was cancelled.
        """
        if not asked.inline and not self.model.capacity.forkable:
            raise ModelError(
                "This model is recurrent or hybrid and cannot be asked at earlier places of a log.",
                "Use mode `tuned` with the model's own end token, which needs no forks.",
            )
        batch = self.model.capacity.batch
        if asked.forked_tokens > batch:
            raise ContextTooSmall(
                f"The question is {asked.forked_tokens:,} tokens long; at most {batch:,} fit.",
                "Shorten the prompt.",
            )
        if kept is not None and not asked.inline:
            raise ModelError("Growing logs are read only where the end tag is one token.")
        self._keep_states(asked)
        done: list[list[BoundaryLogProbs]] = [[] for _ in segments]
        try:
            # What a log has in common with others it may have with a kept one, so nothing else is shared.
            alone = [Group(0, tuple(range(len(segments))))] if segments else []
            groups = plan_groups(segments, self._chunk, asked.head) if kept is None else alone
            for group in groups:
                self._enter(segments, group, progress)
                packer = _Packer(self.model, asked, group.shared, progress, retainer, kept)
                for index in group.members:
                    member = _member(index, segments[index], asked, kept)
                    done[index] = member.readings
                    packer.add(member)
                packer.close()
        except BaseException:
            self.forget()
            raise
        return done

    def _keep_states(self, asked: QuestionTokens) -> None:
        if asked.states and not asked.inline:
            raise ModelError("Hidden states are read only where the end tag is one token.")
        if asked.states != self._states:
            self.model.keep_states(asked.states)
            self._states = asked.states
            self._clear()

    def _enter(self, segments: Sequence[Segment], group: Group, progress: Progress | None) -> None:
        """Brings exactly the group's shared prefix into the cache."""
        prefix = segments[group.members[0]].tokens[: group.shared]
        if prefix and prefix == self._prefix:
            return
        self._clear()
        for at in range(0, len(prefix), self._chunk):
            chunk = prefix[at : at + self._chunk]
            self.model.decode([Span(chunk, at, (PREFIX_SEQUENCE,))])
            if progress:
                progress(len(chunk))
        self._prefix = prefix


def _member(index: int, segment: Segment, asked: QuestionTokens, kept: KeptLogs | None) -> _Member:
    tokens, rest = list(segment.tokens), asked.continuation[:-1]
    if asked.inline and segment.marks[-1] == len(tokens):
        # Nothing attends to tokens at the very end, so the last boundary may be continued in place.
        tokens.extend(rest)
    start = kept.start(tokens, segment.marks) if kept else KnownPrefix()
    readings = [
        start.readings.get(mark) or BoundaryLogProbs(generated=True) for mark in segment.marks
    ]
    member = _Member(index, tokens, segment.marks, readings, start)
    for mark, reading in zip(segment.marks, member.readings, strict=True):
        if asked.suffix or mark in start.readings:
            continue
        member.pick(mark - 1, reading, "log_end", asked.end[0])
        member.pick(mark - 1, reading, "log_continue", asked.continuation[0])
        if not asked.inline:
            continue
        if tuple(tokens[mark : mark + len(rest)]) != rest:
            raise ModelError(f"The log does not continue with a step header after token {mark}.")
        for offset, token in enumerate(asked.continuation[1:]):
            member.pick(mark + offset, reading, "log_continue", token)
    return member


class _Packer:
    """Fills decode batches with the tokens of many members, one after another."""

    def __init__(
        self,
        model: TokenModel,
        asked: QuestionTokens,
        shared: int,
        progress: Progress | None,
        retainer: SequenceRetainer | None,
        kept: KeptLogs | None,
    ) -> None:
        capacity = model.capacity
        self._model, self._asked, self._shared, self._progress = model, asked, shared, progress
        self._retainer, self._cells, self._kept = retainer, capacity.cells, 0
        self._kept_logs = kept
        self._batch, self._rows = capacity.batch, capacity.rows
        half = capacity.sequences // 2
        self._free = list(range(half - 1, PREFIX_SEQUENCE, -1))
        self._fork_ids = list(range(half, capacity.sequences))
        self._context = capacity.context
        self._spans: list[Span] = []
        self._filled = self._wanted = 0
        self._sinks: list[list[tuple[BoundaryLogProbs, str, int]]] = []
        self._finished: list[tuple[_Member, int]] = []

    def add(self, member: _Member) -> None:
        """Adds all tokens of a member, decoding each batch as it fills."""
        if len(member.tokens) + self._asked.forked_tokens > self._context:
            raise ContextTooSmall(
                f"A log of {len(member.tokens):,} tokens exceeds the context of {self._context:,}."
            )
        if self._retainer and not self._fits(self._retainer, member):
            self.close()
        if not self._free or (self._kept_logs is not None and not self._fits_beside(member)):
            self.flush()
        sequence = self._free.pop()
        if self._shared:
            self._model.fork(PREFIX_SEQUENCE, sequence, self._shared)
        at = self._shared
        if member.start.log is not None:
            self._model.restore(sequence, member.start.log.cells)
            self._model.drop(sequence, member.start.tokens)
            at = member.start.tokens
        while at < len(member.tokens):
            if self._filled >= self._batch or self._wanted >= self._rows:
                self.flush()
            stop = self._stop(member, at)
            wanted = [p for p in range(at, stop) if p in member.picks]
            self._spans.append(
                Span(member.tokens[at:stop], at, (sequence,), tuple(p - at for p in wanted))
            )
            self._sinks.extend(member.picks[p] for p in wanted)
            self._filled += stop - at
            self._wanted += len(wanted)
            at = stop
        self._finished.append((member, sequence))

    def _stop(self, member: _Member, at: int) -> int:
        stop = min(len(member.tokens), at + self._batch - self._filled)
        room = self._rows - self._wanted
        wanted = [p for p in range(at, stop) if p in member.picks]
        return wanted[room] if len(wanted) > room else stop

    def flush(self) -> None:
        """Decodes what was added, asks the question on forks of finished members, and drops or keeps them."""
        if self._spans:
            self._decode(self._spans, self._sinks)
        if not self._asked.inline:
            self._ask_on_forks()
        retainer = self._retainer
        for member, sequence in self._finished:
            last = member.readings[-1]
            if self._kept_logs is not None:
                readings = dict(zip(member.marks, member.readings, strict=True))
                cells = self._model.save(sequence)
                self._kept_logs.keep(member.tokens, readings, cells, member.start)
            if retainer and retainer.keeps(member.index, last, member.tokens, sequence):
                self._kept += self._fills(retainer, member)
            else:
                self._model.drop(sequence)
                self._free.append(sequence)
        self._spans, self._sinks, self._finished = [], [], []
        self._filled = self._wanted = 0
        if retainer and retainer.full:
            self._write(retainer)

    def close(self) -> None:
        """Decodes what was added and continues the sequences that were kept."""
        self.flush()
        if self._retainer:
            self._write(self._retainer)

    def _write(self, retainer: SequenceRetainer) -> None:
        self._free.extend(retainer.write(self._progress))
        self._kept = 0

    def _fits(self, retainer: SequenceRetainer, member: _Member) -> bool:
        """Whether a batch of cells would be left if this member and all finished ones were kept."""
        read = [finished for finished, _ in self._finished]
        filled = sum(self._fills(retainer, one) for one in [*read, member])
        return self._shared + self._kept + filled + self._batch <= self._cells

    def _fits_beside(self, member: _Member) -> bool:
        """Whether all cells of a member that was kept fit beside those that wait for the next decode."""
        before = 0 if member.start.log is None else len(member.start.log.tokens)
        waiting = sum(len(one.tokens) for one, _ in self._finished)
        return waiting + max(before, len(member.tokens)) <= self._cells

    def _fills(self, retainer: SequenceRetainer, member: _Member) -> int:
        """Cells of its own that a member may need."""
        length = len(member.tokens)
        return length - self._shared + retainer.growth(member.index, length)

    def _decode(
        self, spans: Sequence[Span], sinks: Sequence[list[tuple[BoundaryLogProbs, str, int]]]
    ) -> None:
        rows = self._model.decode(spans)
        for row, sink in zip(rows, sinks, strict=True):
            _distribute(row, sink)
        if self._asked.states:
            for state, sink in zip(self._model.hidden_states(), sinks, strict=True):
                for reading, answer, _ in sink:
                    if answer == "log_end":
                        reading.state = state
        if self._progress:
            self._progress(sum(len(span.tokens) for span in spans))

    def _ask_on_forks(self) -> None:
        spans: list[Span] = []
        sinks: list[list[tuple[BoundaryLogProbs, str, int]]] = []
        used: list[int] = []
        tokens = self._asked.forked_tokens
        for member, sequence in self._finished:
            for mark, reading in zip(member.marks, member.readings, strict=True):
                filled = sum(len(span.tokens) for span in spans)
                rows = len(sinks) + len(self._asked.end) + len(self._asked.continuation)
                full = filled + tokens > self._batch or rows > self._rows
                if full or len(used) + 2 > len(self._fork_ids):
                    self._ask(spans, sinks, used)
                    spans, sinks, used = [], [], []
                ask, other = self._fork_ids[len(used)], self._fork_ids[len(used) + 1]
                used += [ask, other]
                self._model.fork(sequence, ask, mark)
                self._model.fork(sequence, other, mark)
                self._fork_spans(mark, reading, ask, other, spans, sinks)
        self._ask(spans, sinks, used)

    def _fork_spans(
        self, mark: int, reading: BoundaryLogProbs, ask: int, other: int,
        spans: list[Span], sinks: list[list[tuple[BoundaryLogProbs, str, int]]],
    ) -> None:  # fmt: skip
        asked = self._asked
        at = mark + len(asked.suffix)
        if asked.suffix:
            spans.append(Span(asked.suffix, mark, (ask, other), (len(asked.suffix) - 1,)))
            first = [(reading, "log_end", asked.end[0])]
            sinks.append([*first, (reading, "log_continue", asked.continuation[0])])
        for answer, name, sequence in (
            (asked.end, "log_end", ask),
            (asked.continuation, "log_continue", other),
        ):
            if len(answer) > 1:
                spans.append(Span(answer[:-1], at, (sequence,), tuple(range(len(answer) - 1))))
                sinks.extend([(reading, name, token)] for token in answer[1:])

    def _ask(
        self,
        spans: list[Span],
        sinks: list[list[tuple[BoundaryLogProbs, str, int]]],
        used: list[int],
    ) -> None:
        if spans:
            self._decode(spans, sinks)
        for sequence in used:
            self._model.drop(sequence)


def _distribute(row: Logits, sink: list[tuple[BoundaryLogProbs, str, int]]) -> None:
    values = log_probs(row, [token for _, _, token in sink])
    best = int(row.argmax())
    for (reading, name, token), value in zip(sink, values, strict=True):
        setattr(reading, name, getattr(reading, name) + float(value))
        if name == "log_end" and token != best:
            reading.generated = False
