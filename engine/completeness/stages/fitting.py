"""The stage that fits the probe: from the words of logs, and the hidden states that were read, to completeness scores.

A hidden state is the vector that a model computes at a token; here one is kept for each boundary, a place where the
conversation could end. The probe is a regression from what is read there to whether the conversation ends. It is tested
on conversations cut off before their end, against two rules that read neither: keywords, and position alone.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from engine.base.arrays import Floats
from engine.base.errors import NotYet
from engine.base.number_format import counted, figure, figure_range
from engine.completeness import bundled_probe, probe, probe_calibration
from engine.completeness.kinds import Kinds, find_kinds
from engine.completeness.probe import CrossFit
from engine.completeness.records import (
    BUNDLED_PROBE_ADAPTER,
    MIN_CONVERSATIONS_FOR_PROBE,
    EndingTest,
    KindTest,
    ProbeFeatures,
)
from engine.completeness.stages.learning import (
    Boundaries,
    Fit,
    KindFit,
    KindFits,
    TrainingSet,
    match_states,
)
from engine.completeness.stages.log_texts import LogTexts
from engine.completeness.tables import hidden_states, score_sets, scores, word_weights
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.completeness.truncation import Position, cross_fit_by_position, draw_cuts, ending_test
from engine.conversations import shingle_overlap
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables.conversations import names, origins_of
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.catalog import LoadableModel
from engine.project import runs
from engine.project.project import Project

CONVERSATIONS_PER_TRANSACTION = 2_000
"""Number of conversations whose scores are stored in one transaction.

More would hold more of them in memory, and make what a person writes wait longer.
"""

MAX_TESTED_CONVERSATIONS = 2_000
"""Largest number of conversations that the probe is tested on; of more, this many are drawn. An AUROC of .9 is known to
.01 then."""

NOT_READ = "the model has not read it"
"""Reason why a conversation is unscored that only states could score."""

STEPS = probe.STEPS * 3
"""Number of steps of progress: the folds on words, on states, and those of position alone."""


class FittingStage(CpuStage):
    """Fits the probe to at most `probe.MAX_CONVERSATIONS` conversations, for each kind of log, and scores all selected
    ones, each by regressions that never saw it nor, where it is learned from too, a near copy of it.

    On words every selected conversation is scored, on states each that was read. On both the words score what is not
    read yet. Too few for a fit are scored by the bundled probe, where the model is the built-in one.
    """

    name = "fit"
    unit = "steps"

    def __init__(
        self,
        project: Project,
        features: ProbeFeatures,
        *,
        selection: Selection = ALL,
        model: LoadableModel | None = None,
        states_key: Callable[[], str] = str,
        required: bool = True,
        part: bool = False,
    ) -> None:
        """Prepares a run.

        Args:
            features: What the probe reads.
            selection: The conversations to score; on states alone these are the ones that were read.
            model: The model that read the conversations; None for words.
            states_key: Returns the config hash of the hidden states, empty without any; called when the stage starts.
            required: Whether it is an error if there are too few conversations; else nothing is scored then.
            part: Whether the stage is a part of the run of another one, which counts what it does itself.
        """
        super().__init__(project)
        self._required, self._part = required, part
        self._features, self._selection = features, selection
        self._model, self._states_key = model, states_key
        self._on_states = features == "states"
        self._scored = self._read_count = 0
        self._summary = ""

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Reading words" if self._features == "words" else "Fitting the probe"

    @property
    def method(self) -> dict[str, Any]:
        """The parameters of a fit to any conversations."""
        return {"probe": probe.VERSION, "features": self._features}

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the scores: how they are fitted, and the conversations that were read."""
        states_hash = self._states_key()
        with self._project.reading() as conn:
            ids = self._ids_to_score(conn)
            read = hidden_states.ids_with_entry(conn, states_hash)
            fingerprints = [hidden_states.fingerprint(conn, keys) for keys in (ids, read)]
        params = {**self.method, "states": states_hash, "conversations": fingerprints}
        # Where all are learned from, the limit changes nothing, and is no part of the hash.
        if len(ids) > probe.MAX_CONVERSATIONS:
            params["drawn"] = probe.MAX_CONVERSATIONS
        return params

    def _ids_to_score(self, conn: sqlite3.Connection) -> array[int]:
        """Returns the ids of the conversations to score, rising."""
        if self._features == "states":
            return hidden_states.ids_with_entry(conn, self._states_key())
        return array("q", sorted(self._selection.ids(conn)))

    def waiting(self) -> int:
        """Returns the number of conversations to score anew: none once all that was read so far is fitted to."""
        key = self.config_hash
        with self._project.reading() as conn:
            return 0 if score_sets.is_stored(conn, key) else len(self._ids_to_score(conn))

    def run(self, run_id: int) -> Iterator[Progress]:
        """Fits, tests and stores the scores in batches; the last batch puts the set in force. Does nothing if the set
        is stored. What a cancel or a crash leaves of it stays hidden, and the next run begins anew.

        Raises:
            NotYet: There are too few conversations for a probe, and the bundled one does not fit the model.
            Cancelled: The run was cancelled.
        """
        key = self.config_hash
        with self._project.reading() as conn:
            if score_sets.is_stored(conn, key):
                self._project.write(partial(self._put_in_force, config_hash=key))
                return
            ids = self._ids_to_score(conn)
        yield Progress(0, STEPS)
        done = 0

        def progress(count: int, note: str) -> Progress:
            """Returns the progress after further steps."""
            nonlocal done
            done += count
            return Progress(min(done, STEPS), STEPS, note)

        try:
            fits = yield from self._run_on_thread(partial(self._learn_and_test, ids), progress)
        except NotYet as error:
            if self._required:
                raise
            self._summary = error.message
            return
        # how many conversations have a score, and how many of these one by states too
        self._scored, self._read_count = yield from self._run_on_thread(
            partial(self._store, run_id, key, ids, fits),
            lambda _count, note: Progress(STEPS, STEPS, note),
        )
        drawn = len(fits.training_set.external_ids) if len(ids) > probe.MAX_CONVERSATIONS else None
        self._summary = (
            f"Scored {counted(self._scored, 'conversation')} {_summary_text(fits, drawn)}."
        )
        if self._part and fits.test is not None:
            # One of several: what changes from one to the next is enough.
            figures = _auroc_text(fits.test)
            self._summary = f"After {self._read_count:,} of {self._scored:,} read: {figures}."
        yield Progress(STEPS, STEPS)

    def summary(self) -> str:
        """Returns the result in one sentence, with the test of it, or why there is none."""
        return self._summary or "The scores of the probe are stored already."

    # Learning

    def _learn_and_test(self, ids: Sequence[int], report: OnProgress) -> KindFits:
        """Returns the fits to these conversations, or to some drawn from them, with their tests.

        Raises:
            NotYet: There are too few conversations for a probe, and the bundled one does not fit the model; or too few
                are read, and a fit to states is not required.
        """
        report(0, "reading words")
        training_set = self._read_training_set(ids)
        if self._features == "both" and training_set.count_cuttable() < MIN_CONVERSATIONS_FOR_PROBE:
            self._on_states = True  # the bundled probe reads nothing else
            training_set = self._read_training_set(ids)
        read = training_set.count_cuttable(training_set.boundaries.state_of_boundary >= 0)
        if self._features == "both" and not self._required and read < MIN_CONVERSATIONS_FOR_PROBE:
            raise NotYet(
                f"{counted(read, 'conversation')} read, and a probe on states needs"
                f" {MIN_CONVERSATIONS_FOR_PROBE}: the scores by words stay."
            )
        texts = training_set.boundaries.texts
        kinds = find_kinds(training_set.origins, texts.roles, texts.counts, texts.words)
        if len(kinds.names) < 2:
            fit = self._fit_probes(training_set, report)
            test = self._test_scores(training_set, fit.p, report)
            all_conversations = np.arange(len(training_set.external_ids))
            only_fit = KindFit("", all_conversations, training_set, fit, test)
            return KindFits(training_set, None, [only_fit], test)
        # Of more than are learned from, some may be of a kind that none of these is of.
        has_unknown = len(ids) > len(training_set.external_ids)
        fits = self._fit_by_kind(training_set, kinds, report, has_unknown=has_unknown)
        p = fits.p
        test = self._test_scores(training_set, np.where(np.isnan(p), 0.5, p), report)
        fits.test = test and replace(test, kinds=_kind_tests(fits.kind_fits))
        return fits

    def _fit_by_kind(
        self, training_set: TrainingSet, kinds: Kinds, report: OnProgress, *, has_unknown: bool
    ) -> KindFits:
        """Returns a fit for each kind that has enough different conversations, and one to all for the others.

        Args:
            has_unknown: Whether conversations will be scored that were not drawn, so that their kind is not known.
        """
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
            fit = self._fit_probes(part, report)
            test = self._test_scores(part, fit.p, report)
            kind_fits.append(KindFit(name, conversations, part, fit, test))
        others = np.flatnonzero(kind_of_conversation < 0)
        if len(others) or has_unknown:
            has_state = training_set.boundaries.state_of_boundary >= 0
            fit_to_all = self._fit_probes(training_set, report)
            fit = fit_to_all.at_boundaries(training_set.boundary_rows(others), has_state)
            kind_fits.append(KindFit("", others, training_set.subset(others), fit, None))
        return KindFits(training_set, kinds.reindexed(fit_of_kind), kind_fits)

    def _read_training_set(self, ids: Sequence[int]) -> TrainingSet:
        """Returns the conversations to learn from, all of them or some that are drawn."""
        with self._project.reading() as conn:
            read = set(hidden_states.ids_with_entry(conn, self._states_key()))
        drawn = probe.sample_conversations(ids, read)
        tested = np.random.default_rng(probe_calibration.SEED).permutation(drawn)
        tested_ids = frozenset(tested[:MAX_TESTED_CONVERSATIONS].tolist())
        boundaries = self._read_boundaries(drawn, tested_ids)
        with self._project.reading() as conn:
            names_by_id = names(conn, boundaries.texts.ids)
            origins = origins_of(conn, boundaries.texts.ids)
        return TrainingSet(
            boundaries,
            [names_by_id[key] for key in boundaries.texts.ids],
            shingle_overlap.groups(boundaries.texts.runs),
            origins,
        )

    def _read_boundaries(
        self, ids: Sequence[int], tested: frozenset[int] = frozenset()
    ) -> Boundaries:
        """Reads the texts and the states of these conversations, given in rising order.

        Args:
            tested: The conversations that the probe is tested on.
        """
        texts = LogTexts.read(self._project, ids, self._raise_if_cancelled, tested)
        with self._project.reading() as conn:
            entries = {
                entry.conversation_id: entry
                for entry in hidden_states.entries_of_conversations(
                    conn, self._states_key(), texts.ids
                )
            }
        states, state_of_boundary = match_states(texts, entries)
        reasons = list(texts.reasons)
        if self._on_states:
            texts = texts.at_boundaries(state_of_boundary >= 0)
            state_of_boundary = state_of_boundary[state_of_boundary >= 0]
            reasons = [entries[key].reason if key in entries else NOT_READ for key in texts.ids]
        elif entries:
            noted = {key: entry.reason for key, entry in entries.items() if entry.places}
            reasons = [
                reason or noted.get(key) for key, reason in zip(texts.ids, reasons, strict=True)
            ]
        tokens = [entries[key].tokens if key in entries else 0 for key in texts.ids]
        return Boundaries(texts, reasons, tokens, states, state_of_boundary)

    def _fit_probes(self, training_set: TrainingSet, report: OnProgress) -> Fit:
        """Returns the fitted probes, or the bundled one where there are too few conversations.

        Raises:
            NotYet: There are too few, and the bundled probe does not fit the model.
        """
        boundaries = training_set.boundaries
        is_end, groups = training_set.is_end, training_set.group_ids
        has_state = boundaries.state_of_boundary >= 0
        states = boundaries.states[boundaries.state_of_boundary[has_state]]
        if training_set.count_cuttable() < MIN_CONVERSATIONS_FOR_PROBE:
            return self._fit_bundled(training_set, states)
        if self._features == "states":
            state_probe = probe.cross_fit(
                states, is_end, groups, lambda: report(2, "fitting to states")
            )
            return Fit(state_probe.p, state_probe.spread, state_probe=state_probe)
        word_probe = probe.cross_fit(
            boundaries.texts.words,
            is_end,
            groups,
            lambda: report(1, "fitting to words"),
            probe.INVERSE_STRENGTHS_OF_WORDS,
        )
        if (
            self._features == "words"
            or training_set.count_cuttable(has_state) < MIN_CONVERSATIONS_FOR_PROBE
        ):
            return Fit(word_probe.p, word_probe.spread, word_probe)
        return _add_states(training_set, word_probe, states, report)

    def _fit_bundled(self, training_set: TrainingSet, states: probe.StoredStates) -> Fit:
        """Returns the scores by the bundled probe, which reads states.

        Raises:
            NotYet: No state was read, or the bundled probe does not fit the model.
        """
        bundled = None
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

    def _test_scores(
        self, training_set: TrainingSet, p: Floats, report: OnProgress
    ) -> EndingTest | None:
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
            lambda: report(1, "comparing with position alone"),
        )
        cuts = draw_cuts(
            [training_set.external_ids[index] for index in tested], counts[tested].tolist()
        )
        return ending_test(numbers, cuts, p[rows], position.p, texts.keywords[rows])

    # Storing

    def _store(
        self, run_id: int, key: str, ids: Sequence[int], fits: KindFits, report: OnProgress
    ) -> tuple[int, int]:
        """Stores the scores part by part; returns how many conversations have one, and how many of these one by states
        too."""
        config = ScoreConfig(
            key,
            "words" if self._features == "words" else "probe",
            "" if self._model is None else self._model.label,
            adapter=self._adapter(fits),
            noise=fits.spread,
            test=fits.test,
            features=self._features,
        )
        scored = read = 0

        def store(
            conn: sqlite3.Connection,
            entries: Sequence[ScoreEntry],
            first: bool,
            last: bool,
            packed: bytes | None,
        ) -> None:
            """Stores one part; the first one begins the set, and the last one finishes it."""
            self._raise_if_cancelled()  # a thread that was cancelled runs on until here
            if first:
                score_sets.begin_set(conn, config)
            scores.add(conn, key, run_id, entries)
            if packed is not None:
                word_weights.put(conn, key, packed)
            if last:
                score_sets.finish_set(conn, scored, read)
                self._put_in_force(conn, key)
                if not self._part:
                    runs.count(conn, run_id, STEPS, STEPS)

        by_states = any(kind.fit.state_probe or kind.fit.bundled for kind in fits.kind_fits)
        for index, (done, entries) in enumerate(self._score_entries(ids, fits)):
            last, packed = done == len(ids), None
            if last and (weights := fits.word_weights()) is not None:
                packed = word_weights.pack(weights)
            scored += sum(bool(entry.curve) for entry in entries)
            read += sum(bool(entry.curve and entry.tokens) for entry in entries) * by_states
            self._project.write(
                partial(store, entries=entries, first=index == 0, last=last, packed=packed)
            )
            if not last:
                report(0, f"storing the scores of {done:,} of {len(ids):,} conversations")
        return scored, read

    def _adapter(self, fits: KindFits) -> str | None:
        """Returns the name of the adapter behind the scores; the bundled probe has that of its own."""
        if fits.kind_fits[0].fit.bundled is not None:
            return BUNDLED_PROBE_ADAPTER
        return None if self._model is None else self._model.adapter_name

    def _put_in_force(self, conn: sqlite3.Connection, config_hash: str) -> None:
        """Puts a finished set in force, and drops the one from when less was read."""
        score_sets.put_in_force_if_due(conn, config_hash)
        if self._features != "words":
            unread = set(self._selection.ids(conn)).difference(
                hidden_states.ids_with_entry(conn, self._states_key())
            )
            score_sets.put_partial(conn, config_hash if unread else None)
        else:
            score_sets.drop_other_words(conn, config_hash)

    def _score_entries(
        self, ids: Sequence[int], fits: KindFits
    ) -> Iterator[tuple[int, list[ScoreEntry]]]:
        """Yields the scores of all conversations in parts, each with the number of conversations so far.

        A part has at most `CONVERSATIONS_PER_TRANSACTION` conversations.
        """
        # Both are in id order, so that no more than a part of the entries is in memory.
        learned_entries = fits.training_set.boundaries.entries(fits.p)
        learned_ids = frozenset(fits.training_set.boundaries.texts.ids)
        for first in range(0, len(ids), CONVERSATIONS_PER_TRANSACTION):
            part = ids[first : first + CONVERSATIONS_PER_TRANSACTION]
            unseen = self._read_boundaries([key for key in part if key not in learned_ids])
            with self._project.reading() as conn:
                origins = origins_of(conn, unseen.texts.ids)
            p = fits.score_unseen(unseen, origins)
            yield (
                first + len(part),
                [
                    *islice(learned_entries, sum(key in learned_ids for key in part)),
                    *unseen.entries(p),
                ],
            )


def _add_states(
    training_set: TrainingSet, word_probe: CrossFit, states: probe.StoredStates, report: OnProgress
) -> Fit:
    """Returns the fit to words and states: where a state was read, the scores of both, if these have a lower loss.

    Args:
        states: The states that were read, in the order of their boundaries, shape (states, dimensions).
    """
    rows = np.flatnonzero(training_set.boundaries.state_of_boundary >= 0)
    is_end, groups = training_set.is_end[rows], training_set.group_ids[rows]
    state_probe = probe.cross_fit(states, is_end, groups, lambda: report(1, "fitting to states"))
    stack = probe.stack(word_probe.at(rows), state_probe, is_end, groups)
    p, spread = word_probe.p, word_probe.spread
    word_loss = probe_calibration.log_loss(p[rows], is_end, groups)
    stack_loss = probe_calibration.log_loss(stack.joined.p, is_end, groups)
    if stack_loss >= word_loss:  # from few conversations states may tell nothing more
        return Fit(p, spread, word_probe, state_probe)
    p[rows], spread[rows] = stack.joined.p, stack.joined.spread
    return Fit(p, spread, word_probe, state_probe, stack)


def _kind_tests(fits: Sequence[KindFit]) -> tuple[KindTest, ...]:
    """Returns the test of each kind, to be stored."""
    return tuple(
        KindTest(
            kind_fit.name or "others, by a probe fitted to all",
            len(kind_fit.conversations),
            kind_fit.test,
        )
        for kind_fit in fits
        if len(kind_fit.conversations)
    )


def _summary_text(fits: KindFits, drawn: int | None) -> str:
    """Returns which probe scored, and the result of its test, for the summary.

    Args:
        drawn: Number of conversations that were drawn to learn from; None where all are learned from.
    """
    scored_by, test = "by a probe that never saw them", fits.test
    if len(fits.kind_fits) > 1:
        scored_by = "by probes that never saw them, one for each kind of log"
    if drawn is not None:
        scored_by += f", learned from {counted(drawn, 'conversation')} drawn at random"
    if fits.kind_fits[0].fit.bundled is not None:
        scored_by = (
            f"by the probe of the program's samples (your own needs {MIN_CONVERSATIONS_FOR_PROBE})"
        )
    if test is None:
        return f"{scored_by}; too few to test"
    number = counted(test.conversations, "conversation")
    return f"{scored_by}; whole against cut: {_auroc_text(test)}, {number}"


def _auroc_text(test: EndingTest) -> str:
    """Returns the AUROC of a test with its interval."""
    auroc = test.auroc
    return f"AUROC {figure(auroc.value)} ({figure_range(auroc.low, auroc.high)})"
