"""Fits probes to a training set, one for each kind of log, and tests them.

A probe is a regression from what is read at a boundary, a place where a conversation could end, to whether it ends. It
is tested on conversations cut off before their end, against two rules that read neither words nor states: keywords, and
position alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.base.arrays import Floats
from engine.base.errors import NotYet
from engine.completeness import bundled_probe, probe, probe_calibration
from engine.completeness.kinds import Kinds, find_kinds
from engine.completeness.probe import CrossFit
from engine.completeness.records import (
    MIN_CONVERSATIONS_FOR_PROBE,
    EndingTest,
    KindTest,
    ProbeFeatures,
)
from engine.completeness.stages.probe_fits import Fit, KindFit, KindFits
from engine.completeness.stages.training_set import TrainingSet
from engine.completeness.truncation import Position, cross_fit_by_position, draw_cuts, ending_test
from engine.jobs.contract import OnProgress
from engine.model.catalog import LoadableModel

STEPS = probe.STEPS * 3
"""Number of steps of progress that are reported: the folds on words, on states, and those of position alone."""


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
        )
        read_count = training_set.count_cuttable(boundaries.has_state)
        if self._features == "words" or read_count < MIN_CONVERSATIONS_FOR_PROBE:
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
        position = cross_fit_by_position(
            [
                [
                    Position(number, place.chars, place.step_chars)
                    for number, place in zip(texts.numbers[index], texts.places[index], strict=True)
                ]
                for index in tested
            ],
            training_set.groups[tested],
            lambda: self._report(1, "comparing with position alone"),
        )
        cuts = draw_cuts(
            [training_set.external_ids[index] for index in tested], counts[tested].tolist()
        )
        return ending_test(numbers, cuts, p[rows], position.p, texts.keywords[rows])


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
