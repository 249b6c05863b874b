"""Fits probes to a training set, one for each kind of log, tests them, and says what explains their scores.

A probe is a regression from what is read at a boundary, a place where a conversation could end, to whether it ends. It
is tested on conversations cut off before their end, against two rules that read neither words nor states: keywords, and
position alone.

`ProbeLearner` fits and tests. A `Fit` is the probes that one fit to a training set gives. `KindFits` holds the fits of
all kinds of log: it scores conversations that were not learned from, and explains all scores by words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.base.errors import NotYet
from engine.completeness import bundled_probe, probe, probe_calibration
from engine.completeness.kinds import Kinds, find_kinds
from engine.completeness.probe import CrossFit, Stack
from engine.completeness.records import (
    MIN_CONVERSATIONS_FOR_PROBE,
    EndingTest,
    KindTest,
    ProbeFeatures,
)
from engine.completeness.stages.training_set import Boundaries, TrainingSet
from engine.completeness.truncation import (
    Position,
    cross_fit_by_position,
    draw_cuts,
    ending_test,
    matched_difference,
)
from engine.completeness.word_reasons import WordWeights
from engine.conversations.records import Origin
from engine.jobs.contract import OnProgress
from engine.model.catalog import LoadableModel

STEPS = probe.STEPS * 3
"""Number of steps of progress that are reported: the folds of the fits on words, on states, and on position alone."""


# Fitting and testing


class ProbeLearner:
    """Fits the probes of one run to its training set, and tests them."""

    def __init__(
        self, features: ProbeFeatures, model: LoadableModel | None, report: OnProgress
    ) -> None:
        """Fits nothing yet.

        Args:
            features: What the probes read.
            model: The model that read the conversations; None for words.
            report: Called with the number of steps that were done and with what is done next, `STEPS` in all for one
                kind of log.
        """
        self._features, self._model, self._report = features, model, report

    def learn(self, training_set: TrainingSet, *, has_unknown: bool) -> KindFits:
        """Returns the fits to a training set, one for each kind of log, with their tests.

        Args:
            has_unknown: Whether conversations will be scored that are not in the training set, so that their kind is
                not known.

        Raises:
            NotYet: There are too few conversations for a probe, and the bundled one does not fit the model.
        """
        texts = training_set.boundaries.texts
        kinds = find_kinds(training_set.origins, texts.roles, texts.counts, texts.words)
        if len(kinds.names) < 2:
            fit = self._fit(training_set)
            test = self._test(training_set, fit.p)
            all_conversations = np.arange(len(training_set.external_ids))
            only_fit = KindFit("", all_conversations, training_set, fit, test)
            return KindFits(training_set, None, [only_fit], test)
        fits = self._fit_by_kind(training_set, kinds, has_unknown=has_unknown)
        p = fits.p
        test = self._test(training_set, np.where(np.isnan(p), 0.5, p))
        fits.test = test and replace(test, kinds=_kind_tests(fits.kind_fits))
        return fits

    def _fit_by_kind(
        self, training_set: TrainingSet, kinds: Kinds, *, has_unknown: bool
    ) -> KindFits:
        """Returns a fit for each kind that has enough different conversations, and one to all for the others."""
        kind_of_conversation = np.array(
            [kinds.index_of(origin) for origin in training_set.origins], dtype=np.int64
        )
        kind_fits: list[KindFit] = []
        fit_of_kind = []
        for number, name in enumerate(kinds.names):
            conversations = np.flatnonzero(kind_of_conversation == number)
            part = training_set.subset(conversations)
            if part.count_cuttable() < MIN_CONVERSATIONS_FOR_PROBE:
                kind_of_conversation[conversations] = -1  # they are copies of one another
                fit_of_kind.append(-1)
                continue
            fit_of_kind.append(len(kind_fits))
            fit = self._fit(part)
            kind_fits.append(KindFit(name, conversations, part, fit, self._test(part, fit.p)))
        others = np.flatnonzero(kind_of_conversation < 0)
        if len(others) or has_unknown:
            fit_to_all = self._fit(training_set)
            fit = fit_to_all.at_boundaries(
                training_set.boundary_rows(others), training_set.boundaries.has_state
            )
            kind_fits.append(KindFit("", others, training_set.subset(others), fit, None))
        return KindFits(training_set, kinds.reindexed(fit_of_kind), kind_fits)

    def _fit(self, training_set: TrainingSet) -> Fit:
        """Returns the fitted probes, or the bundled one where there are too few conversations.

        Raises:
            NotYet: There are too few, and the bundled probe does not fit the model.
        """
        boundaries = training_set.boundaries
        is_end, groups = training_set.is_end, training_set.group_ids
        if training_set.count_cuttable() < MIN_CONVERSATIONS_FOR_PROBE:
            return self._fit_bundled(training_set)
        if self._features == "states":
            state_probe = probe.cross_fit(
                boundaries.read_states,
                is_end,
                groups,
                lambda: self._report(2, "fitting to states"),
            )
            return Fit(state_probe.p, state_probe.spread, state_probe=state_probe)
        word_probe = probe.cross_fit(
            boundaries.texts.words,
            is_end,
            groups,
            lambda: self._report(1, "fitting to words"),
            probe.INVERSE_STRENGTHS_OF_WORDS,
            ~boundaries.texts.is_inner,
        )
        read_count = training_set.count_cuttable(boundaries.has_state)
        # Of one kind of log most may end with a call, where states say nothing.
        has_ends = 2 * training_set.count_cuttable(boundaries.has_state & is_end) >= read_count
        is_read = read_count >= MIN_CONVERSATIONS_FOR_PROBE and has_ends
        if self._features == "words" or not is_read:
            return Fit(word_probe.p, word_probe.spread, word_probe)
        return self._add_states(training_set, word_probe)

    def _fit_bundled(self, training_set: TrainingSet) -> Fit:
        """Returns the scores by the bundled probe, which reads states.

        Raises:
            NotYet: No state was read, or the bundled probe does not fit the model.
        """
        bundled, states = None, training_set.boundaries.read_states
        if self._model is not None and len(states):
            bundled = bundled_probe.bundled_probe_for(self._model)
        if bundled is not None:
            return Fit(bundled.p(states), spread=None, bundled=bundled)
        if not training_set.counts.any():
            raise NotYet(
                "No conversation has an answer after which it could end, so none can be scored.",
                "If the answers are in the files, `import --map` shows how to read them.",
            )
        raise NotYet(
            f"A probe needs {MIN_CONVERSATIONS_FOR_PROBE} conversations that could end in two places,"
            f" nearly equal ones counted once; there are {training_set.count_cuttable():,} among"
            f" {int((training_set.counts > 0).sum()):,}.",
            "Import more conversations, or score with --mode tuned.",
        )

    def _add_states(self, training_set: TrainingSet, word_probe: CrossFit) -> Fit:
        """Returns the fit to words and states: where a state was read, the scores of both, if these have a lower
        loss."""
        rows = np.flatnonzero(training_set.boundaries.has_state)
        is_end, groups = training_set.is_end[rows], training_set.group_ids[rows]
        state_probe = probe.cross_fit(
            training_set.boundaries.read_states,
            is_end,
            groups,
            lambda: self._report(1, "fitting to states"),
        )
        stack = probe.stack(word_probe.at(rows), state_probe, is_end, groups)
        p, spread = word_probe.p, word_probe.spread
        word_loss = probe_calibration.log_loss(p[rows], is_end, groups)
        stack_loss = probe_calibration.log_loss(stack.joined.p, is_end, groups)
        if stack_loss >= word_loss:  # from few conversations states may tell nothing more
            return Fit(p, spread, word_probe, state_probe)
        p[rows], spread[rows] = stack.joined.p, stack.joined.spread
        return Fit(p, spread, word_probe, state_probe, stack)

    def _test(self, training_set: TrainingSet, p: Floats) -> EndingTest | None:
        """Returns the test of scores of the boundaries, on the conversations for which the keyword rule was asked; None
        where too few of them can be cut."""
        texts, counts = training_set.boundaries.texts, training_set.counts
        rows = ~np.isnan(texts.keywords)
        tested = np.unique(np.repeat(np.arange(len(counts)), counts)[rows])
        cuttable = training_set.groups[tested][counts[tested] > 1]
        if len(np.unique(cuttable)) < probe_calibration.FOLDS:
            return None
        numbers = [texts.numbers[index] for index in tested]
        positions = []
        for index in tested:
            numbered_places = zip(texts.numbers[index], texts.places[index], strict=True)
            positions.append(
                [Position(number, at.chars, at.step_chars) for number, at in numbered_places]
            )
        by_position = cross_fit_by_position(
            positions,
            training_set.groups[tested],
            lambda: self._report(1, "comparing with position alone"),
        )
        names = [training_set.external_ids[index] for index in tested]
        cuts = draw_cuts(names, counts[tested].tolist())
        test = ending_test(numbers, cuts, p[rows], by_position.p, texts.keywords[rows])
        if not texts.is_inner[rows].any():
            return test
        # both rules know that nothing ends within a turn: whether the scores tell more, the ends of turns show
        at_turn_ends = ~texts.is_inner[rows]
        curves, of_position, of_keywords = (
            _curves_at(at_turn_ends, counts[tested], values)
            for values in (p[rows], by_position.p, texts.keywords[rows])
        )
        return replace(
            test,
            over_keywords=matched_difference(curves, of_keywords),
            over_position=matched_difference(curves, of_position),
        )


def _curves_at(chosen: Bools, counts: Ints, values: Floats) -> list[Floats]:
    """Returns the values at the chosen boundaries of each conversation, numbered anew; conversations without one have
    none.

    Args:
        chosen, values: Shape (boundaries,), one conversation after another.
        counts: Number of boundaries of each conversation.
    """
    parts = zip(
        *(np.split(array, np.cumsum(counts)[:-1]) for array in (values, chosen)), strict=True
    )
    return [part[is_chosen] for part, is_chosen in parts if is_chosen.any()]


def _kind_tests(kind_fits: Sequence[KindFit]) -> tuple[KindTest, ...]:
    """Returns the test of each kind that has conversations, to be stored."""
    return tuple(
        KindTest(
            kind_fit.name or "others, by a probe fitted to all",
            len(kind_fit.conversations),
            kind_fit.test,
        )
        for kind_fit in kind_fits
        if len(kind_fit.conversations)
    )


# The probes of one fit


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


# The fits of all kinds of log


@dataclass(frozen=True, slots=True)
class KindFit:
    """The fit of one kind of log.

    Conversations of no kind are scored by a fit to all conversations.

    Attributes:
        name: Name of the kind; empty where there is one only, and for the conversations of no kind.
        conversations: Indices, rising, of the conversations of the whole training set that the fit scores.
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


class _ExplainedPart(NamedTuple):
    """What explains the scores of conversations that one fit scored, to be joined in `WordWeights`.

    Attributes:
        fit: Index of the fit.
        ids: Ids of the conversations, shape (conversations,).
        folds: The fold of each conversation in each repeat, shape (repeats, conversations), as in `WordWeights`.
        read: Ids of the boundaries at which states were read, shape (read,).
        state_parts: What the states add at these, shape (read, 2), as in `WordWeights`.
    """

    fit: int
    ids: Ints
    folds: NDArray[np.int8]
    read: Ints
    state_parts: Floats

    @classmethod
    def of(
        cls, fit: int, ids: Ints, folds: NDArray[np.int8], boundaries: Boundaries, parts: Floats
    ) -> _ExplainedPart:
        """Returns the part for some boundaries; no boundary was read for it where there are no state parts."""
        read = boundaries.ids_with_state if len(parts) else np.empty(0, dtype=np.int64)
        return cls(fit, ids, folds, read, parts)


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
    _unseen: list[_ExplainedPart] = field(default_factory=list)
    """What explains the scores that `score_unseen` gave."""

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
            kind_fit.fit.spread[~kind_fit.training_set.boundaries.texts.is_inner]
            for kind_fit in self.kind_fits
            if kind_fit.fit.spread is not None
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
            ids = np.array(part.texts.ids, dtype=np.int64)
            folds = np.full((probe.REPEATS, len(ids)), -1, dtype=np.int8)
            state_parts = kind_fit.fit.unseen_state_parts(part)
            self._unseen.append(_ExplainedPart.of(int(index), ids, folds, part, state_parts))
        return p

    def _fit_index(self, origin: Origin) -> int:
        """Returns the index of the fit that scores a conversation: of its kind, or the last one."""
        kind = 0 if self.kinds is None else self.kinds.index_of(origin)
        return kind if 0 <= kind < len(self.kind_fits) else len(self.kind_fits) - 1

    def word_weights(self) -> WordWeights | None:
        """Returns what explains the scores that were given; None where the probes read no words."""
        word_probes = [
            kind_fit.fit.word_probe
            for kind_fit in self.kind_fits
            if kind_fit.fit.word_probe is not None
        ]
        if len(word_probes) < len(self.kind_fits):
            return None
        regressions = [
            regression
            for word_probe in word_probes
            for repeat in word_probe.regressions
            for regression in repeat
        ]
        first_probe = word_probes[0].regressions
        shape = len(word_probes), len(first_probe), len(first_probe[0])  # fits, repeats, folds
        weights = np.array([regression.weights for regression in regressions], dtype=np.float16)
        intercepts = np.array([regression.intercept for regression in regressions])
        absent = np.array([regression.absent for regression in regressions])
        parts = [*self._unseen, *map(self._learned_part, range(len(word_probes)), word_probes)]
        ids = np.concatenate([part.ids for part in parts])
        fit_of = np.concatenate([np.full(len(part.ids), part.fit, np.int16) for part in parts])
        folds = np.concatenate([part.folds for part in parts], axis=1)
        read = np.concatenate([part.read for part in parts])
        state_parts = np.concatenate([part.state_parts for part in parts])
        by_id, by_boundary = np.argsort(ids), np.argsort(read)
        return WordWeights(
            weights=weights.reshape(*shape, -1),
            intercepts=intercepts.reshape(shape),
            absent=absent.reshape(*shape, -1),
            ids=ids[by_id],
            fit_of=fit_of[by_id],
            folds=folds[:, by_id],
            read=read[by_boundary],
            state_parts=state_parts[by_boundary],
        )

    def _learned_part(self, fit: int, word_probe: CrossFit) -> _ExplainedPart:
        """Returns what explains the scores of the conversations that a fit, given by its index, learned from."""
        kind_fit = self.kind_fits[fit]
        boundaries, counts = kind_fit.training_set.boundaries, kind_fit.training_set.counts
        ids = np.array(boundaries.texts.ids, dtype=np.int64)[counts > 0]
        # All boundaries of a conversation are in one fold, so the first one tells it.
        folds = word_probe.folds[:, (np.cumsum(counts) - counts)[counts > 0]]
        state_parts = kind_fit.fit.learned_state_parts()
        return _ExplainedPart.of(fit, ids, folds, boundaries, state_parts)
