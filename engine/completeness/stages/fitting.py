"""The stage that fits the probe: from the words of logs, and the hidden states that were read, to completeness scores.

A hidden state is the vector that a model computes at a token; here one is kept for each boundary, a place where the
conversation could end. The stage reads both from the project, lets `engine.completeness.stages.probe_fits` fit and
test the probe, and stores the scores.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np

from engine.base.errors import NotYet
from engine.base.number_format import counted, figure, figure_range
from engine.completeness import probe, probe_calibration
from engine.completeness.records import (
    BUNDLED_PROBE_ADAPTER,
    MIN_CONVERSATIONS_FOR_PROBE,
    EndingTest,
    ProbeFeatures,
)
from engine.completeness.stages.probe_fits import STEPS, KindFits, ProbeLearner
from engine.completeness.stages.training_set import Boundaries, LogTexts, TrainingSet, match_states
from engine.completeness.tables import hidden_states, score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
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

MAX_SHARE_OF_NOTES = 0.5
"""Share of conversations that end with a call or its result from which this is how they end, and no sign of a cut."""

NOT_READ = "the model has not read it"
"""Reason why a conversation is unscored that only states could score."""

_STORING = Lock()
"""Lock that is held while a set of scores is stored: `score_sets.begin_set` deletes another set that is not finished,
and fits may run side by side, on words alone and after a model."""


class FittingStage(CpuStage):
    """Fits a probe for each kind of log to at most `probe.MAX_CONVERSATIONS` conversations in all, and scores all
    selected ones.

    A conversation is scored by regressions that never saw it nor, where it is learned from too, a near copy of it. On
    words every selected conversation is scored, on states each that was read. On both the words score what is not read
    yet. Where there are too few for a fit, the bundled probe scores them if the model is the built-in one.
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
            part: Whether the stage is a part of the run of another stage, which then counts the work of the run.
        """
        super().__init__(project)
        self._required, self._part = required, part
        self._features, self._selection = features, selection
        self._model, self._states_key = model, states_key
        # Whether boundaries without a state are left out; the bundled probe needs that too.
        self._on_states = features == "states"
        self._summary = ""

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Reading words" if self._features == "words" else "Fitting the probe"

    @property
    def method(self) -> dict[str, Any]:
        """The parameters of a fit, whichever conversations it is fitted to."""
        return {"probe": probe.VERSION, "features": self._features}

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the scores: how they are fitted, and the conversations that were read."""
        states_hash = self._states_key()
        with self._project.reading() as conn:
            ids = self._ids_to_score(conn)
            read_ids = hidden_states.ids_with_entry(conn, states_hash)
            fingerprints = [hidden_states.fingerprint(conn, keys) for keys in (ids, read_ids)]
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
        scored_count, read_count = yield from self._run_on_thread(
            partial(self._store, run_id, key, ids, fits),
            lambda _count, note: Progress(STEPS, STEPS, note),
        )
        drawn = len(fits.training_set.external_ids) if len(ids) > probe.MAX_CONVERSATIONS else None
        self._summary = (
            f"Scored {counted(scored_count, 'conversation')} {_summary_text(fits, drawn)}."
        )
        if self._part and fits.test is not None:
            # This fit is one of several; the sentence has only what changes from one to the next.
            figures = _auroc_text(fits.test)
            self._summary = f"After {read_count:,} of {scored_count:,} read: {figures}."
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
        read_count = training_set.count_cuttable(training_set.boundaries.has_state)
        may_wait = self._features == "both" and not self._required
        if may_wait and read_count < MIN_CONVERSATIONS_FOR_PROBE:
            raise NotYet(
                f"{counted(read_count, 'conversation')} read, and a probe on states needs"
                f" {MIN_CONVERSATIONS_FOR_PROBE}: the scores by words stay."
            )
        learner = ProbeLearner(self._features, self._model, report)
        # Of more than are learned from, some may be of a kind that none of these is of.
        has_unknown = len(ids) > len(training_set.external_ids)
        return learner.learn(training_set, has_unknown=has_unknown)

    def _read_training_set(self, ids: Sequence[int]) -> TrainingSet:
        """Returns the conversations to learn from, all of them or some that are drawn."""
        read_ids = set(self._project.read(hidden_states.ids_with_entry, self._states_key()))
        drawn_ids = probe.sample_conversations(ids, read_ids)
        shuffled_ids = np.random.default_rng(probe_calibration.SEED).permutation(drawn_ids)
        tested_ids = frozenset(shuffled_ids[:MAX_TESTED_CONVERSATIONS].tolist())
        boundaries = self._read_boundaries(drawn_ids, tested_ids)
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
        self, ids: Sequence[int], tested_ids: frozenset[int] = frozenset()
    ) -> Boundaries:
        """Returns what the texts and the states of these conversations tell, given in rising order.

        Args:
            tested_ids: The conversations that the probe is tested on.
        """
        texts = LogTexts.read(
            self._project, ids, self._raise_if_cancelled, tested_ids, inner=bool(tested_ids)
        )
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
            # All other states of a log of several turns are at answers, so one at a call or its result says nothing,
            # unless most logs end there.
            has_note = np.array([bool(reason) for reason in reasons]) & (texts.counts > 0)
            if has_note.mean() < MAX_SHARE_OF_NOTES:
                state_of_boundary[np.cumsum(texts.counts)[has_note] - 1] = -1
            notes = {key: entry.reason for key, entry in entries.items() if entry.places}
            reasons = [
                reason or notes.get(key) for key, reason in zip(texts.ids, reasons, strict=True)
            ]
        tokens = [entries[key].tokens if key in entries else 0 for key in texts.ids]
        return Boundaries(texts, reasons, tokens, states, state_of_boundary)

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
        with _STORING:
            self._write(lambda conn: score_sets.begin_set(conn, config))
            scored_count = read_count = 0
            by_states = any(kind.fit.state_probe or kind.fit.bundled for kind in fits.kind_fits)
            for done, entries in self._score_entries(ids, fits):
                self._write(
                    partial(scores.add_scores, config_hash=key, run_id=run_id, entries=entries)
                )
                scored_count += sum(bool(entry.curve) for entry in entries)
                if by_states:
                    read_count += sum(bool(entry.curve and entry.tokens) for entry in entries)
                if done < len(ids):
                    report(0, f"storing the scores of {done:,} of {len(ids):,} conversations")
            weights = fits.word_weights()
            packed = None if weights is None else weights.packed()

            def finish(conn: sqlite3.Connection) -> None:
                """Stores what explains the scores, and shows the set, which is hidden before."""
                if packed is not None:
                    score_sets.put_word_weights(conn, key, packed)
                score_sets.finish_set(conn, scored_count, read_count)
                self._put_in_force(conn, key)
                if not self._part:
                    runs.count(conn, run_id, STEPS, STEPS)

            self._write(finish)
            return scored_count, read_count

    def _write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Does work in a transaction of its own, unless the run was cancelled: its thread runs on until here.

        Raises:
            Cancelled: The run was cancelled.
        """

        def work_unless_cancelled(conn: sqlite3.Connection) -> None:
            """Does the work; checked here, because a transaction may have had to wait for another one."""
            self._raise_if_cancelled()
            work(conn)

        self._project.write(work_unless_cancelled)

    def _adapter(self, fits: KindFits) -> str | None:
        """Returns the name of the adapter behind the scores, None without one; the bundled probe has a name of its
        own."""
        if fits.kind_fits[0].fit.bundled is not None:
            return BUNDLED_PROBE_ADAPTER
        return None if self._model is None else self._model.adapter_name

    def _put_in_force(self, conn: sqlite3.Connection, config_hash: str) -> None:
        """Puts a finished set in force where it is due, and drops the set that was made when less was read."""
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
            origins = self._project.read(origins_of, unseen.texts.ids)
            p = fits.score_unseen(unseen, origins)
            yield (
                first + len(part),
                [
                    *islice(learned_entries, sum(key in learned_ids for key in part)),
                    *unseen.entries(p),
                ],
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
