"""What the probe learns from, and what it learned: boundaries, fits, and a fit for each kind of log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from engine.completeness import probe
from engine.completeness.kinds import Kinds
from engine.completeness.probe import CrossFit, Stack
from engine.completeness.probe_calibration import Bools, Floats, Ints
from engine.completeness.records import CurvePoint, EndingTest
from engine.completeness.stages.log_texts import LogTexts
from engine.completeness.tables.hidden_states import StateEntry
from engine.completeness.tables.scores import ScoreEntry
from engine.completeness.word_reasons import WordWeights, boundary_id
from engine.conversations.records import Origin

BYTES_PER_NUMBER = 2
"""Bytes of each number of a stored state, a float16 (little-endian, `<f2`)."""

AT_CHANCE = "in logs of this kind whole and cut are not told apart better than by chance"
"""Reason why a conversation is unscored whose kind fails its test."""


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The boundaries of some conversations, and what can be read there.

    Attributes:
        texts: Of the conversations. On states alone its places are the boundaries at which states were read.
        reasons: Why each conversation has none, or what is special about its states; None otherwise.
        tokens: Number of tokens that a model read of each conversation.
        states: Shape (states, dimensions).
        state_of_boundary: Index of the state of each boundary, shape (boundaries,); -1 where none was read.
    """

    texts: LogTexts
    reasons: list[str | None]
    tokens: list[int]
    states: NDArray[np.float16]
    state_of_boundary: Ints

    def entries(self, p: Floats) -> Iterator[ScoreEntry]:
        """Yields what is stored of each conversation, given the scores of all boundaries, shape (boundaries,).

        A score that is NaN stands for a kind at chance.
        """
        first = 0
        for key, places, reason, tokens in zip(
            self.texts.ids, self.texts.places, self.reasons, self.tokens, strict=True
        ):
            values = p[first : first + len(places)].tolist()
            first += len(places)
            if values and np.isnan(values[0]):
                yield ScoreEntry(key, (), AT_CHANCE, tokens)
                continue
            points = tuple(
                CurvePoint(place.message, place.step, place.turn, value, 1 - value)
                for place, value in zip(places, values, strict=True)
            )
            yield ScoreEntry(key, points, reason, tokens)

    def of(self, conversations: Ints) -> Boundaries:
        """Returns those of some of the conversations, given by their indices, rising."""
        chosen = np.isin(np.arange(len(self.tokens)), conversations)
        return replace(
            self,
            texts=self.texts.of(conversations),
            reasons=[self.reasons[index] for index in conversations.tolist()],
            tokens=[self.tokens[index] for index in conversations.tolist()],
            state_of_boundary=self.state_of_boundary[np.repeat(chosen, self.texts.counts)],
        )

    @property
    def read_ids(self) -> Ints:
        """Number of each boundary at which a state was read, as `boundary_id` gives it, shape (states,)."""
        ids = [
            boundary_id(key, place.message)
            for key, places in zip(self.texts.ids, self.texts.places, strict=True)
            for place in places
        ]
        return np.array(ids, dtype=np.int64)[self.state_of_boundary >= 0]


@dataclass(frozen=True, slots=True)
class Learned:
    """The conversations that are learned from.

    Attributes:
        names: The external id of each.
        groups: Group of each, shape (conversations,); nearly equal ones share one.
        origins: Where each is from.
    """

    boundaries: Boundaries
    names: list[str]
    groups: Ints
    origins: list[Origin]

    def of(self, conversations: Ints) -> Learned:
        """Returns some of the conversations, given by their indices, rising."""
        return Learned(
            self.boundaries.of(conversations),
            [self.names[index] for index in conversations.tolist()],
            self.groups[conversations],
            [self.origins[index] for index in conversations.tolist()],
        )

    def rows(self, conversations: Ints) -> Ints:
        """Returns the indices of the boundaries of some of the conversations, given by their indices."""
        chosen = np.isin(np.arange(len(self.names)), conversations)
        return np.flatnonzero(np.repeat(chosen, self.counts))

    @property
    def counts(self) -> Ints:
        """Number of boundaries of each conversation, shape (conversations,)."""
        return self.boundaries.texts.counts

    @property
    def group_ids(self) -> Ints:
        """Group of each boundary, shape (boundaries,)."""
        return np.repeat(self.groups, self.counts)

    @property
    def is_end(self) -> Bools:
        """Whether each boundary is the last one of its conversation, shape (boundaries,)."""
        counts = self.counts
        ends = np.zeros(int(counts.sum()), dtype=bool)
        ends[np.cumsum(counts)[counts > 0] - 1] = True
        return ends

    def count_different(self, rows: Bools | None = None) -> int:
        """Returns how many conversations have two boundaries or more, nearly equal ones counted once.

        Args:
            rows: Counts only those with some of these boundaries, shape (boundaries,).
        """
        several = np.repeat(self.counts > 1, self.counts)
        return len(np.unique(self.group_ids[several if rows is None else several & rows]))


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted probes, and the scores of the boundaries that they were learned from.

    Attributes:
        p: Scores of these boundaries, shape (boundaries,).
        spread: Spread of `p` between repeats of the fit; None where nothing was fitted.
        words, states: The probes on words and on states; None where the features are others.
        stack: Joins the two; None where there are not both, or too few states.
        bundled: The bundled probe, where there are too few conversations to fit one.
    """

    p: Floats
    spread: Floats | None
    words: CrossFit | None = None
    states: CrossFit | None = None
    stack: Stack | None = None
    bundled: probe.Probe | None = None

    def at(self, rows: Ints, has_state: Bools) -> Fit:
        """Returns the same of some of the boundaries, given by their indices, rising.

        Args:
            has_state: Whether a state was read at each boundary of this fit, shape (boundaries,).
        """
        by_states, stack = self.states, self.stack
        if by_states is not None:
            # The probe on states knows those boundaries only at which there are some.
            of_states = np.flatnonzero(np.isin(np.flatnonzero(has_state), rows))
            by_states = by_states.at(of_states)
            stack = stack and replace(
                stack,
                joined=stack.joined.at(of_states),
                weights_of_rows=stack.weights_of_rows[of_states],
            )
        return replace(
            self,
            p=self.p[rows],
            spread=None if self.spread is None else self.spread[rows],
            words=self.words and self.words.at(rows),
            states=by_states,
            stack=stack,
        )

    def score_unseen(self, boundaries: Boundaries) -> Floats:
        """Returns the scores of boundaries of conversations that were not learned from, shape (boundaries,)."""
        has_state = boundaries.state_of_boundary >= 0
        read = boundaries.states[boundaries.state_of_boundary[has_state]]
        if self.bundled is not None:
            return self.bundled.p(read)
        if self.words is None:
            assert self.states is not None
            return self.states.score_unseen(read)
        log_odds = self.words.unseen_log_odds(boundaries.texts.words)
        p = self.words.calibration.true_end_probability(log_odds)
        if self.stack is not None and self.states is not None:
            by_state = self.states.unseen_log_odds(read)
            p[has_state] = self.stack.score_unseen(log_odds[has_state], by_state)
        return p

    def state_parts(self, boundaries: Boundaries, *, learned: bool) -> tuple[Ints, Floats]:
        """Returns the boundaries whose score is by states too, and their part of it, as in `WordWeights`.

        Args:
            learned: Whether these are the boundaries that were learned from, or others.
        """
        if self.stack is None or self.states is None:
            return np.empty(0, dtype=np.int64), np.empty((0, 2))
        if learned:
            weights, by_states = self.stack.weights_of_rows, self.states.log_odds.mean(axis=0)
        else:
            index = boundaries.state_of_boundary
            by_states = self.states.unseen_log_odds(boundaries.states[index[index >= 0]])
            weights = np.tile(self.stack.weights, (len(by_states), 1))
        return boundaries.read_ids, np.column_stack([weights[:, 0], weights[:, 1] * by_states])


@dataclass(frozen=True, slots=True)
class KindFit:
    """The fit of one kind of log.

    Attributes:
        name: Name of the kind; empty where there is one only, and for the conversations of no kind.
        conversations: Indices of the learned conversations that it scores, rising.
        learned: These conversations.
        fit: Of their boundaries. Those of no kind are scored by a fit to all.
        test: None where too few conversations can be cut, and for those of no kind.
    """

    name: str
    conversations: Ints
    learned: Learned
    fit: Fit
    test: EndingTest | None

    @property
    def at_chance(self) -> bool:
        """Whether the test does not show that whole and cut are told apart."""
        return self.test is not None and self.test.at_chance

    def scores(self, p: Floats) -> Floats:
        """Returns scores as they are, or NaN in their place where the test is at chance."""
        return np.full(len(p), np.nan) if self.at_chance else p


@dataclass(slots=True)
class KindFits:
    """The fits of all kinds, and what explains the scores by them.

    `score_unseen` keeps what explains its scores, so `word_weights` is called after it.

    Attributes:
        learned: All conversations that were learned from.
        kinds: None where there is one fit for all.
        fits: In the order of the kinds; those of no kind last, if there are some.
        test: Of the scores of all kinds together, set after `p` is known; None where too few conversations can be cut.
    """

    learned: Learned
    kinds: Kinds | None
    fits: list[KindFit]
    test: EndingTest | None = None
    _unseen: list[tuple[int, list[int]]] = field(default_factory=list)
    _state_parts: list[tuple[Ints, Floats]] = field(default_factory=list)

    @property
    def p(self) -> Floats:
        """Scores of all boundaries that were learned from, NaN in kinds at chance; shape (boundaries,)."""
        p = np.empty(int(self.learned.counts.sum()))
        for each in self.fits:
            p[self.learned.rows(each.conversations)] = each.scores(each.fit.p)
        return p

    @property
    def spread(self) -> float | None:
        """Mean spread of the scores between repeats of the fits; None where nothing was fitted."""
        spreads = [each.fit.spread for each in self.fits if each.fit.spread is not None]
        return float(np.concatenate(spreads).mean()) if spreads else None

    def score_unseen(self, boundaries: Boundaries, origins: Sequence[Origin]) -> Floats:
        """Returns the scores of boundaries of conversations that were not learned from, NaN in kinds at chance.

        Args:
            origins: Where each conversation is from.
        """
        counts = boundaries.texts.counts
        p = np.empty(int(counts.sum()))
        numbers = np.array([self._fit_of(origin) for origin in origins], dtype=np.int64)
        for number in np.unique(numbers):
            conversations = np.flatnonzero(numbers == number)
            part, kind = boundaries.of(conversations), self.fits[number]
            p[np.repeat(numbers == number, counts)] = kind.scores(kind.fit.score_unseen(part))
            self._unseen.append((int(number), part.texts.ids))
            self._state_parts.append(kind.fit.state_parts(part, learned=False))
        return p

    def _fit_of(self, origin: Origin) -> int:
        """Returns the index of the fit that scores a conversation: of its kind, or the last one."""
        kind = 0 if self.kinds is None else self.kinds.of(origin)
        return kind if 0 <= kind < len(self.fits) else len(self.fits) - 1

    def word_weights(self) -> WordWeights | None:
        """Returns what explains the scores that were given; None where the probes read no words."""
        by_words = [each.fit.words for each in self.fits if each.fit.words is not None]
        if len(by_words) < len(self.fits):
            return None
        ids, fit_of, folds = [], [], []
        parts = list(self._state_parts)
        for number, (each, words) in enumerate(zip(self.fits, by_words, strict=True)):
            parts.append(each.fit.state_parts(each.learned.boundaries, learned=True))
            counts = each.learned.counts
            first = (np.cumsum(counts) - counts)[counts > 0]
            ids.append(np.array(each.learned.boundaries.texts.ids, dtype=np.int64)[counts > 0])
            fit_of.append(np.full(len(first), number, dtype=np.int16))
            folds.append(words.folds[:, first])
        for number, unseen in self._unseen:
            ids.append(np.array(unseen, dtype=np.int64))
            fit_of.append(np.full(len(unseen), number, dtype=np.int16))
            folds.append(np.full((probe.REPEATS, len(unseen)), -1, dtype=np.int8))
        order = np.argsort(np.concatenate(ids))
        read, state_parts = (np.concatenate(each) for each in zip(*parts, strict=True))
        by_place = np.argsort(read)
        regressions = [words.regressions for words in by_words]
        return WordWeights(
            weights=np.array(
                [[[each.weights for each in fits] for fits in part] for part in regressions],
                dtype=np.float16,
            ),
            intercepts=np.array(
                [[[each.intercept for each in fits] for fits in part] for part in regressions]
            ),
            absent=np.array(
                [[[each.absent for each in fits] for fits in part] for part in regressions]
            ),
            ids=np.concatenate(ids)[order],
            fit_of=np.concatenate(fit_of)[order],
            folds=np.concatenate(folds, axis=1)[:, order],
            read=read[by_place],
            state_parts=state_parts[by_place],
        )


def match_states(
    texts: LogTexts, entries: Mapping[int, StateEntry]
) -> tuple[NDArray[np.float16], Ints]:
    """Returns the states of conversations, and the index of the state of each boundary; -1 where none was read."""
    read = [entries[key] for key in texts.ids if key in entries and entries[key].places]
    count = sum(len(entry.places) for entry in read)
    dimensions = len(read[0].states) // BYTES_PER_NUMBER // len(read[0].places) if read else 0
    # One array, filled conversation by conversation: states can take gigabytes.
    states = np.empty((count, dimensions), dtype="<f2")
    index_by_place: dict[tuple[int, int], int] = {}
    for entry in read:
        first = len(index_by_place)
        rows = np.frombuffer(entry.states, dtype="<f2").reshape(len(entry.places), -1)
        states[first : first + len(rows)] = rows
        for place in entry.places:
            index_by_place[entry.conversation_id, place.message] = len(index_by_place)
    index = [
        index_by_place.get((key, place.message), -1)
        for key, places in zip(texts.ids, texts.places, strict=True)
        for place in places
    ]
    return states, np.array(index, dtype=np.int64)
