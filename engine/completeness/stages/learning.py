"""The training set of the probe and the fits to it, one for each kind of log.

`TrainingSet` holds the boundaries that a probe learns from. `Fit` is what one fit to them gives. `KindFits` holds the
fits of all kinds of log: it scores conversations that were not learned from, and explains all scores by words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.completeness import probe
from engine.completeness.kinds import Kinds
from engine.completeness.probe import CrossFit, Regression, Stack
from engine.completeness.records import CurvePoint, EndingTest
from engine.completeness.stages.log_texts import LogTexts
from engine.completeness.tables.hidden_states import StateEntry
from engine.completeness.tables.scores import ScoreEntry
from engine.completeness.word_reasons import WordWeights, boundary_id
from engine.conversations.records import Origin

BYTES_PER_NUMBER = 2
"""Bytes of each number of a stored state, a float16 (little-endian, `<f2`)."""

AT_CHANCE = "in logs of this kind whole and cut are not told apart better than by chance"
"""Reason why a conversation is unscored if its kind fails its test."""


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The boundaries of some conversations, and what a probe can read there.

    Attributes:
        texts: The texts of the conversations. On states alone its places are the boundaries at which states were read.
        reasons: Why each conversation has no boundary, or what is special about its states; None otherwise.
        tokens: Number of tokens that a model read of each conversation.
        states: The hidden states, shape (states, dimensions).
        state_of_boundary: Index of the state of each boundary, shape (boundaries,); -1 where none was read.
    """

    texts: LogTexts
    reasons: list[str | None]
    tokens: list[int]
    states: NDArray[np.float16]
    state_of_boundary: Ints

    def entries(self, p: Floats) -> Iterator[ScoreEntry]:
        """Yields the score entry of each conversation.

        Args:
            p: Scores of all boundaries, shape (boundaries,); NaN in conversations of a kind at chance.
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

    def subset(self, conversations: Ints) -> Boundaries:
        """Returns the boundaries of the conversations with these indices, which rise. Their states are shared, not
        copied."""
        chosen = np.isin(np.arange(len(self.tokens)), conversations)
        return replace(
            self,
            texts=self.texts.subset(conversations),
            reasons=[self.reasons[index] for index in conversations.tolist()],
            tokens=[self.tokens[index] for index in conversations.tolist()],
            state_of_boundary=self.state_of_boundary[np.repeat(chosen, self.texts.counts)],
        )

    @property
    def ids_with_state(self) -> Ints:
        """The `boundary_id` of each boundary at which a state was read, shape (states,)."""
        ids = [
            boundary_id(key, place.message)
            for key, places in zip(self.texts.ids, self.texts.places, strict=True)
            for place in places
        ]
        return np.array(ids, dtype=np.int64)[self.state_of_boundary >= 0]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The conversations that a probe learns from.

    Attributes:
        external_ids: The external id of each conversation.
        groups: Group of each conversation, shape (conversations,); near copies share a group.
        origins: Where each conversation is from.
    """

    boundaries: Boundaries
    external_ids: list[str]
    groups: Ints
    origins: list[Origin]

    def subset(self, conversations: Ints) -> TrainingSet:
        """Returns the training set of the conversations with these indices, which rise."""
        return TrainingSet(
            self.boundaries.subset(conversations),
            [self.external_ids[index] for index in conversations.tolist()],
            self.groups[conversations],
            [self.origins[index] for index in conversations.tolist()],
        )

    def boundary_rows(self, conversations: Ints) -> Ints:
        """Returns the indices of all boundaries of the conversations with these indices."""
        chosen = np.isin(np.arange(len(self.external_ids)), conversations)
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

    def count_cuttable(self, mask: Bools | None = None) -> int:
        """Returns the number of conversations with two boundaries or more, near copies counted once.

        Args:
            mask: Counts only conversations with a boundary in this mask, shape (boundaries,); None counts all.
        """
        is_cuttable = np.repeat(self.counts > 1, self.counts)
        return len(np.unique(self.group_ids[is_cuttable if mask is None else is_cuttable & mask]))


@dataclass(frozen=True, slots=True)
class Fit:
    """The probes that were fitted to a training set, and the scores of its boundaries.

    Attributes:
        p: Scores of the boundaries of the training set, shape (boundaries,).
        spread: Spread of `p` between repeats of the fit; None for the bundled probe, which is not fitted here.
        word_probe, state_probe: The probes on words and on states; None where such features are not read.
        stack: The probe that joins the two; None unless both are there, with enough states, and states help.
        bundled: The bundled probe, where there are too few conversations to fit one.
    """

    p: Floats
    spread: Floats | None
    word_probe: CrossFit | None = None
    state_probe: CrossFit | None = None
    stack: Stack | None = None
    bundled: probe.Probe | None = None

    def at_boundaries(self, rows: Ints, has_state: Bools) -> Fit:
        """Returns the fit with the scores of some of its boundaries only.

        Args:
            rows: Indices of these boundaries, rising.
            has_state: Whether a state was read at each boundary of this fit, shape (boundaries,).
        """
        state_probe, stack = self.state_probe, self.stack
        if state_probe is not None:
            # The probe on states has a row only for the boundaries at which a state was read.
            state_rows = np.flatnonzero(np.isin(np.flatnonzero(has_state), rows))
            state_probe = state_probe.at(state_rows)
            stack = stack and replace(
                stack,
                joined=stack.joined.at(state_rows),
                weights_of_rows=stack.weights_of_rows[state_rows],
            )
        return replace(
            self,
            p=self.p[rows],
            spread=None if self.spread is None else self.spread[rows],
            word_probe=self.word_probe and self.word_probe.at(rows),
            state_probe=state_probe,
            stack=stack,
        )

    def score_unseen(self, boundaries: Boundaries) -> Floats:
        """Returns the scores of boundaries of conversations that were not learned from, shape (boundaries,)."""
        has_state = boundaries.state_of_boundary >= 0
        states = boundaries.states[boundaries.state_of_boundary[has_state]]
        if self.bundled is not None:
            return self.bundled.p(states)
        if self.word_probe is None:
            assert self.state_probe is not None
            return self.state_probe.score_unseen(states)
        word_log_odds = self.word_probe.unseen_log_odds(boundaries.texts.words)
        p = self.word_probe.calibration.true_end_probability(word_log_odds)
        if self.stack is not None and self.state_probe is not None:
            state_log_odds = self.state_probe.unseen_log_odds(states)
            p[has_state] = self.stack.score_unseen(word_log_odds[has_state], state_log_odds)
        return p

    def learned_state_parts(self) -> Floats:
        """Returns `WordWeights.state_parts` of the boundaries of the training set at which a state was read."""
        if self.stack is None or self.state_probe is None:
            return np.empty((0, 2))
        weights = self.stack.weights_of_rows
        return np.column_stack(
            [weights[:, 0], weights[:, 1] * self.state_probe.log_odds.mean(axis=0)]
        )

    def unseen_state_parts(self, boundaries: Boundaries) -> Floats:
        """Returns `WordWeights.state_parts` of the boundaries of other conversations at which a state was read."""
        if self.stack is None or self.state_probe is None:
            return np.empty((0, 2))
        state_of_boundary = boundaries.state_of_boundary
        states = boundaries.states[state_of_boundary[state_of_boundary >= 0]]
        log_odds = self.state_probe.unseen_log_odds(states)
        word_weight, state_weight = self.stack.weights
        return np.column_stack([np.full(len(log_odds), word_weight), state_weight * log_odds])


@dataclass(frozen=True, slots=True)
class KindFit:
    """The fit of one kind of log.

    Conversations of no kind are scored by a fit to all conversations.

    Attributes:
        name: Name of the kind; empty where there is one only, and for the conversations of no kind.
        conversations: Indices, rising, of the conversations of the whole training set that it scores.
        training_set: These conversations.
        fit: The fit, with the scores of their boundaries.
        test: Test of the scores; None where too few conversations can be cut, and for those of no kind.
    """

    name: str
    conversations: Ints
    training_set: TrainingSet
    fit: Fit
    test: EndingTest | None

    @property
    def at_chance(self) -> bool:
        """Whether the test does not show that whole and cut are told apart."""
        return self.test is not None and self.test.at_chance

    def nan_if_at_chance(self, p: Floats) -> Floats:
        """Returns scores as they are, or as many NaN if the test is at chance."""
        return np.full(len(p), np.nan) if self.at_chance else p


@dataclass(slots=True)
class KindFits:
    """The fits of all kinds, and what explains the scores by them.

    `score_unseen` stores what explains its scores, so `word_weights` is called after it.

    Attributes:
        training_set: All conversations that were learned from.
        kinds: The kinds of log; None where there is one fit for all.
        kind_fits: In the order of the kinds; the fit for conversations of no kind last, if there are some.
        test: Test of the scores of all kinds together, set after `p` is known; None where too few conversations can be
            cut.
    """

    training_set: TrainingSet
    kinds: Kinds | None
    kind_fits: list[KindFit]
    test: EndingTest | None = None
    _unseen_ids: list[tuple[int, list[int]]] = field(default_factory=list)
    """Index of the fit and ids of the conversations, for each call of it on unseen ones."""
    _unseen_state_parts: list[tuple[Ints, Floats]] = field(default_factory=list)
    """Ids of boundaries and their `WordWeights.state_parts`, likewise."""

    @property
    def p(self) -> Floats:
        """Scores of all boundaries that were learned from, NaN in kinds at chance; shape (boundaries,)."""
        p = np.empty(int(self.training_set.counts.sum()))
        for kind_fit in self.kind_fits:
            rows = self.training_set.boundary_rows(kind_fit.conversations)
            p[rows] = kind_fit.nan_if_at_chance(kind_fit.fit.p)
        return p

    @property
    def spread(self) -> float | None:
        """Mean spread of the scores between repeats of the fits; None where nothing was fitted."""
        spreads = [
            kind_fit.fit.spread for kind_fit in self.kind_fits if kind_fit.fit.spread is not None
        ]
        return float(np.concatenate(spreads).mean()) if spreads else None

    def score_unseen(self, boundaries: Boundaries, origins: Sequence[Origin]) -> Floats:
        """Returns the scores of boundaries of conversations that were not learned from, NaN in kinds at chance.

        Args:
            origins: Where each conversation is from.
        """
        counts = boundaries.texts.counts
        p = np.empty(int(counts.sum()))
        fit_of_conversation = np.array(
            [self._fit_index(origin) for origin in origins], dtype=np.int64
        )
        for index in np.unique(fit_of_conversation):
            is_scored = fit_of_conversation == index
            part, kind_fit = boundaries.subset(np.flatnonzero(is_scored)), self.kind_fits[index]
            scores = kind_fit.fit.score_unseen(part)
            p[np.repeat(is_scored, counts)] = kind_fit.nan_if_at_chance(scores)
            self._unseen_ids.append((int(index), part.texts.ids))
            state_parts = kind_fit.fit.unseen_state_parts(part)
            self._unseen_state_parts.append(_with_boundary_ids(part, state_parts))
        return p

    def _fit_index(self, origin: Origin) -> int:
        """Returns the index of the fit that scores a conversation: of its kind, or the last one."""
        kind = 0 if self.kinds is None else self.kinds.index_of(origin)
        return kind if 0 <= kind < len(self.kind_fits) else len(self.kind_fits) - 1

    def word_weights(self) -> WordWeights | None:
        """Returns what explains the scores that were given; None where the probes read no words."""
        probes = [
            kind_fit.fit.word_probe
            for kind_fit in self.kind_fits
            if kind_fit.fit.word_probe is not None
        ]
        if len(probes) < len(self.kind_fits):
            return None
        ids, fit_of, folds = self._folds_of_conversations(probes)
        boundary_ids, state_parts = self._state_parts()
        regressions = [word_probe.regressions for word_probe in probes]
        return WordWeights(
            weights=np.array(_each(regressions, lambda r: r.weights), dtype=np.float16),
            intercepts=np.array(_each(regressions, lambda r: r.intercept)),
            absent=np.array(_each(regressions, lambda r: r.absent)),
            ids=ids,
            fit_of=fit_of,
            folds=folds,
            read=boundary_ids,
            state_parts=state_parts,
        )

    def _folds_of_conversations(
        self, word_probes: Sequence[CrossFit]
    ) -> tuple[Ints, NDArray[np.int16], NDArray[np.int8]]:
        """Returns `ids`, `fit_of` and `folds` of `WordWeights`, given the probe on words of each fit."""
        ids, fit_of, folds = [], [], []
        for index, (kind_fit, word_probe) in enumerate(
            zip(self.kind_fits, word_probes, strict=True)
        ):
            counts = kind_fit.training_set.counts
            all_ids = np.array(kind_fit.training_set.boundaries.texts.ids, dtype=np.int64)
            # All boundaries of a conversation are in one fold, so the first one tells it.
            first_rows = (np.cumsum(counts) - counts)[counts > 0]
            ids.append(all_ids[counts > 0])
            fit_of.append(np.full(len(first_rows), index, dtype=np.int16))
            folds.append(word_probe.folds[:, first_rows])
        for index, unseen_ids in self._unseen_ids:
            ids.append(np.array(unseen_ids, dtype=np.int64))
            fit_of.append(np.full(len(unseen_ids), index, dtype=np.int16))
            folds.append(np.full((probe.REPEATS, len(unseen_ids)), -1, dtype=np.int8))
        joined_ids = np.concatenate(ids)
        order = np.argsort(joined_ids)
        return (
            joined_ids[order],
            np.concatenate(fit_of)[order],
            np.concatenate(folds, axis=1)[:, order],
        )

    def _state_parts(self) -> tuple[Ints, Floats]:
        """Returns `read` and `state_parts` of `WordWeights`."""
        parts = list(self._unseen_state_parts)
        for kind_fit in self.kind_fits:
            boundaries = kind_fit.training_set.boundaries
            parts.append(_with_boundary_ids(boundaries, kind_fit.fit.learned_state_parts()))
        boundary_ids = np.concatenate([ids for ids, _ in parts])
        order = np.argsort(boundary_ids)
        return boundary_ids[order], np.concatenate([values for _, values in parts])[order]


def _with_boundary_ids(boundaries: Boundaries, state_parts: Floats) -> tuple[Ints, Floats]:
    """Returns the ids of the boundaries that state parts are of, and these; no ids where there are no parts."""
    if not len(state_parts):
        return np.empty(0, dtype=np.int64), state_parts
    return boundaries.ids_with_state, state_parts


def _each(
    regressions: Sequence[Sequence[Sequence[Regression]]], value: Callable[[Regression], Any]
) -> list[list[list[Any]]]:
    """Returns a value of each regression in the same nesting: by fit, repeat and fold."""
    return [
        [[value(regression) for regression in folds] for folds in repeats]
        for repeats in regressions
    ]


def match_states(
    texts: LogTexts, entries: Mapping[int, StateEntry]
) -> tuple[NDArray[np.float16], Ints]:
    """Returns the states of conversations, shape (states, dimensions), and the index of the state of each boundary,
    shape (boundaries,); -1 where none was read.

    Args:
        entries: The stored states by conversation id.
    """
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
