"""The probes that were fitted, one for each kind of log: how they score, and what explains their scores.

`Fit` is what one fit to a training set gives. `KindFits` holds the fits of all kinds of log: it scores conversations
that were not learned from, and explains all scores by words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.completeness import probe
from engine.completeness.kinds import Kinds
from engine.completeness.probe import CrossFit, Stack
from engine.completeness.records import EndingTest
from engine.completeness.regression import Regression
from engine.completeness.stages.training_set import Boundaries, TrainingSet
from engine.completeness.word_reasons import WordWeights
from engine.conversations.records import Origin


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
        has_state, states = boundaries.has_state, boundaries.read_states
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
        log_odds = self.state_probe.unseen_log_odds(boundaries.read_states)
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

    def nan_if_at_chance(self, p: Floats) -> Floats:
        """Returns scores as they are, or as many NaN if the test is at chance."""
        return np.full(len(p), np.nan) if self.test is not None and self.test.at_chance else p


@dataclass(slots=True)
class KindFits:
    """The fits of all kinds, and what explains the scores by them.

    `score_unseen` notes what explains its scores, so `word_weights` is called after it.

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
    """Of each part that `score_unseen` scored by one fit: the index of the fit, and the ids of the conversations."""
    _unseen_state_parts: list[tuple[Ints, Floats]] = field(default_factory=list)
    """Of each such part: the ids of the boundaries at which states were read, and their `WordWeights.state_parts`."""

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
        """Returns `ids`, `fit_of` and `folds` of `WordWeights`, in the order of `ids`.

        Args:
            word_probes: The probe on words of each fit.
        """
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
        """Returns `read` and `state_parts` of `WordWeights`, in the order of the ids of the boundaries."""
        parts = list(self._unseen_state_parts)
        for kind_fit in self.kind_fits:
            boundaries = kind_fit.training_set.boundaries
            parts.append(_with_boundary_ids(boundaries, kind_fit.fit.learned_state_parts()))
        boundary_ids = np.concatenate([ids for ids, _ in parts])
        order = np.argsort(boundary_ids)
        return boundary_ids[order], np.concatenate([values for _, values in parts])[order]


def _with_boundary_ids(boundaries: Boundaries, state_parts: Floats) -> tuple[Ints, Floats]:
    """Returns the ids of the boundaries at which states were read, and the state parts of these; nothing where there
    are no parts."""
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
