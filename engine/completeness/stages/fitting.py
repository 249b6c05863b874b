"""The stage that fits the probe: from kept hidden states to a completeness score of every conversation read.

A hidden state is the vector that a model computes at a token; here one is kept for each boundary, a place where the
conversation could end. The probe is a regression from that vector to whether the conversation ends there. It is tested
on conversations cut off before their end, against two rules that read no states: keywords, and position alone.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import NotYet
from engine.base.number_format import counted, figure, figure_range
from engine.completeness import bundled_probe, probe, probe_calibration
from engine.completeness.baselines import Position, cross_fit_by_position, sounds_complete
from engine.completeness.conversation_logs import logs_of
from engine.completeness.probe_calibration import Floats
from engine.completeness.records import (
    BUNDLED_PROBE_ADAPTER,
    MIN_CONVERSATIONS_FOR_PROBE,
    CurvePoint,
    EndingTest,
)
from engine.completeness.tables import hidden_states, score_sets, scores
from engine.completeness.tables.hidden_states import StateEntry
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.completeness.truncation import draw_cuts, ending_test
from engine.conversations import shingle_overlap
from engine.conversations.tables.conversations import names
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.catalog import LoadableModel
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import snapshot

CONVERSATIONS_PER_TEXT_READ = 500
"""Number of conversations whose text is read at once for the keyword rule."""

CONVERSATIONS_PER_TRANSACTION = 2_000
"""Number of conversations whose scores are stored in one transaction.

More would hold more states in memory, and make what a person writes wait longer.
"""

BYTES_PER_NUMBER = 2
"""Bytes of each number of a stored state, a float16 (little-endian, `<f2`)."""

STEPS = probe.STEPS * 2
"""Number of steps of progress: the folds of the probe, and those of position alone."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What the reading stage kept.

    Attributes:
        states_key: The config hash of the hidden states.
        ids: All conversations that have an entry, which is states or a reason for none; in id order.
        entries: Those of them to learn from: all, or the ones that were drawn; in id order. Their states are in
            `states` only.
        usable: Those of `entries` with states; `names` are their external ids.
        states: The states at all boundaries of `usable` in order, shape (boundaries, dimensions).
    """

    states_key: str
    ids: array[int]
    entries: list[StateEntry]
    usable: list[StateEntry]
    names: list[str]
    states: NDArray[np.float16]

    @property
    def counts(self) -> list[int]:
        """Number of boundaries of each usable conversation."""
        return [len(entry.places) for entry in self.usable]


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The scores of the conversations that were learned from, and the probe for the others.

    Attributes:
        p: Scores of all boundaries of `_Read.states`, shape (boundaries,).
        score_unseen: Returns the scores of boundaries of the other conversations, given their states.
        drawn: Number of conversations with states that were drawn to learn from; None where all are learned from.
        spread: Spread of `p` between repeats of the fit; None where nothing was fitted.
        bundled: Name of the bundled probe, where there were too few conversations to fit one; empty otherwise.
        test: Test of the scores out of fold; None where too few conversations could be cut.
    """

    p: Floats
    score_unseen: Callable[[NDArray[np.float16]], Floats]
    drawn: int | None
    spread: Floats | None
    bundled: str = ""
    test: EndingTest | None = None

    def in_words(self) -> str:
        """Returns which probe scored, and the result of its test, for the summary."""
        scored_by = "by a probe that never saw them"
        if self.drawn is not None:
            scored_by += f", learned from {counted(self.drawn, 'conversation')} drawn at random"
        if self.bundled:
            scored_by = f"by the probe of the program's samples (your own needs {MIN_CONVERSATIONS_FOR_PROBE})"
        if self.test is None:
            return f"{scored_by}; too few to test"
        auroc, number = self.test.auroc, counted(self.test.conversations, "conversation")
        interval = figure_range(auroc.low, auroc.high)
        return f"{scored_by}; whole against cut: AUROC {figure(auroc.value)} ({interval}), {number}"


class FittingStage(CpuStage):
    """Fits the probe anew to the conversations that were read, at most `probe.MAX_CONVERSATIONS` of them, and scores
    each conversation by a probe that never saw it. Too few for a fit are scored by the bundled probe, where
    the model is the built-in one.
    """

    name = "fit"
    unit = "steps"

    def __init__(
        self,
        project: Project,
        model: LoadableModel,
        states_key: Callable[[], str],
        *,
        provisional: bool = False,
    ) -> None:
        """Prepares a run.

        Args:
            model: The model that read the conversations.
            states_key: Returns the config hash of the hidden states; called when the stage starts.
            provisional: The scores go when those of a later fit are in force.
        """
        super().__init__(project)
        self._model, self._states_key, self._provisional = model, states_key, provisional
        self._scored = 0
        self._summary = ""

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Fitting the probe"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the scores: how they are fitted, and the conversations that were read."""
        states_hash = self._states_key()
        with self._project.reading() as conn:
            ids = hidden_states.ids_with_entry(conn, states_hash)
            fingerprint = hidden_states.fingerprint(conn, ids)
        params: dict[str, Any] = {
            "probe": probe.VERSION,
            "states": states_hash,
            "conversations": fingerprint,
        }
        # Where all are learned from, the limit changes nothing, and is no part of the hash.
        if len(ids) > probe.MAX_CONVERSATIONS:
            params["drawn"] = probe.MAX_CONVERSATIONS
        return params

    def waiting(self) -> int:
        """Returns the number of conversations that were read and have no scores of a probe fitted to all that were
        read."""
        key = self.config_hash
        with self._project.reading() as conn:
            if score_sets.is_stored(conn, key):
                return 0
            return hidden_states.count_with_states(conn, self._states_key())

    def run(self, run_id: int) -> Iterator[Progress]:
        """Fits, tests and stores the scores in batches; the last batch puts the set in force. Does nothing if the set
        is stored. What a cancel or a crash leaves of it stays hidden, and the next run begins anew.

        Raises:
            UsageError: There are too few conversations for a probe, and the bundled one does not fit the model.
            Cancelled: The run was cancelled.
        """
        key = self.config_hash
        with self._project.reading() as conn:
            if score_sets.is_stored(conn, key):
                self._project.write(partial(self._put_in_force, config_hash=key))
                return
            read = _read(conn, self._states_key())
        yield Progress(0, STEPS)
        results: list[_Fitted] = []
        done = 0
        for count, note in self._run_on_thread(partial(self._fit, read), results.append):
            done += count
            yield Progress(min(done, STEPS), STEPS, note)
        (fitted,) = results
        for _, note in self._run_on_thread(
            partial(self._store, run_id, key, read, fitted), self._count
        ):
            yield Progress(STEPS, STEPS, note)
        self._summary = fitted.in_words()
        yield Progress(STEPS, STEPS)

    def _count(self, scored: int) -> None:
        """Takes the number of conversations that have a score, for the summary."""
        self._scored = scored

    def _store(
        self, run_id: int, key: str, read: _Read, fitted: _Fitted, report: OnProgress
    ) -> int:
        """Stores the scores part by part; returns the number of conversations that have one."""
        model = self._model
        noise = None if fitted.spread is None else float(fitted.spread.mean())
        config = ScoreConfig(
            key,
            "probe",
            model.label,
            adapter=fitted.bundled or model.adapter_name,
            noise=noise,
            test=fitted.test,
        )

        def store(
            conn: sqlite3.Connection, entries: Sequence[ScoreEntry], first: bool, last: bool
        ) -> None:
            """Stores one part; the first one begins the set, and the last one finishes it."""
            self._check()  # a thread that was cancelled runs on until here
            if first:
                score_sets.begin_set(conn, config)
            scores.add(conn, key, run_id, entries)
            if last:
                score_sets.finish_set(conn)
                self._put_in_force(conn, key)
                runs.count(conn, run_id, STEPS, STEPS)

        scored = 0
        for index, (done, entries) in enumerate(_score_entries(self._project, read, fitted)):
            last = done == len(read.ids)
            self._project.write(partial(store, entries=entries, first=index == 0, last=last))
            scored += sum(bool(entry.curve) for entry in entries)
            if not last:
                report(0, f"storing the scores of {done:,} of {len(read.ids):,} conversations")
        return scored

    def _put_in_force(self, conn: sqlite3.Connection, config_hash: str) -> None:
        """Puts a finished set in force, and marks it as provisional or drops what was provisional before."""
        score_sets.put_in_force_if_due(conn, config_hash, finished=not self._provisional)
        if self._provisional:
            score_sets.mark_provisional(conn, config_hash)
        else:
            score_sets.drop_provisional(conn)

    def summary(self) -> str:
        """Returns the result in one sentence, with the test of it."""
        if not self._scored:
            return "The scores of the probe are stored already."
        return f"Scored {counted(self._scored, 'conversation')} {self._summary}."

    def _fit(self, read: _Read, report: OnProgress) -> _Fitted:
        """Returns the scores by a fitted probe, or by the bundled one where there are too few conversations, with its
        test where enough can be cut.

        Raises:
            NotYet: There are too few conversations for a probe, and the bundled one does not fit the model.
        """
        counts = read.counts
        cuts = draw_cuts(read.names, counts)
        # `numbers`: for each conversation, which of all its boundaries were read.
        groups, keywords, numbers = self._read_texts(read)
        # Conversations with two boundaries and more teach what an end is not; nearly equal ones count once.
        different = len(np.unique(groups[np.array(counts, dtype=np.int64) > 1]))
        bundled = None
        if different < MIN_CONVERSATIONS_FOR_PROBE:
            bundled = bundled_probe.bundled_probe_for(self._model)
            if bundled is None or not read.usable:
                raise NotYet(
                    f"A probe needs {MIN_CONVERSATIONS_FOR_PROBE} conversations that could end in two places,"
                    f" nearly equal ones counted once; there are {different:,} among"
                    f" {len(counts):,}.",
                    "Read more conversations, or score with --mode tuned.",
                )
        is_end = np.concatenate([np.arange(count) == count - 1 for count in counts])
        group_ids = np.repeat(groups, counts)
        drawn = len(read.usable) if len(read.entries) < len(read.ids) else None
        if bundled is not None:
            score_by_bundled = partial(_score_by_bundled, bundled)
            fitted = _Fitted(
                score_by_bundled(read.states),
                score_by_bundled,
                drawn,
                spread=None,
                bundled=BUNDLED_PROBE_ADAPTER,
            )
        else:
            fit = probe.cross_fit(read.states, is_end, group_ids, lambda: report(1, "fitting"))
            fitted = _Fitted(fit.p, fit.score_unseen, drawn, fit.spread)
        if different < probe_calibration.FOLDS:
            return fitted
        position = cross_fit_by_position(
            [
                [
                    Position(number, place.chars, place.step_chars)
                    for number, place in zip(boundary_numbers, entry.places, strict=True)
                ]
                for boundary_numbers, entry in zip(numbers, read.usable, strict=True)
            ],
            groups,
            lambda: report(1, "comparing with position alone"),
        )
        return replace(fitted, test=ending_test(numbers, cuts, fitted.p, position.p, keywords))

    def _read_texts(self, read: _Read) -> tuple[shingle_overlap.Ints, Floats, list[list[int]]]:
        """Returns what only the texts tell, from one pass over them.

        Returns:
            A group for each usable conversation, which nearly equal ones share, so that they share a fold; and the
            keyword rule's answer at each boundary of `read.states`; and for each usable conversation the number of each
            boundary that was read among all that it has, from 0.
        """
        places_read = {entry.conversation_id: entry.places for entry in read.usable}
        numbers = []
        shingles = []
        keywords: list[float] = []
        ids = [entry.conversation_id for entry in read.usable]
        for first in range(0, len(ids), CONVERSATIONS_PER_TEXT_READ):
            self._check()
            for log in logs_of(self._project, ids[first : first + CONVERSATIONS_PER_TEXT_READ]):
                shingles.append(shingle_overlap.log_shingles(log.pieces))
                piece_of_message = {piece.message: index for index, piece in enumerate(log.pieces)}
                number_of_piece = {
                    piece: number for number, piece in enumerate(log.item.boundaries)
                }
                read_pieces = [piece_of_message[place.message] for place in places_read[log.id]]
                numbers.append([number_of_piece[piece] for piece in read_pieces])
                keywords += [
                    float(sounds_complete(log.pieces[: piece + 1])) for piece in read_pieces
                ]
        return shingle_overlap.groups(shingles), np.array(keywords), numbers


def _score_by_bundled(bundled: probe.Probe, states: NDArray[np.float16]) -> Floats:
    """Returns the probability of an end at each boundary by the bundled probe, shape (boundaries,)."""
    return bundled.p(states.astype(np.float32))


def _read(conn: sqlite3.Connection, states_key: str) -> _Read:
    """Returns the states to learn from, of all conversations with an entry or of those that are drawn."""
    with snapshot(conn):
        ids = hidden_states.ids_with_entry(conn, states_key)
        entries = list(
            hidden_states.entries_of_conversations(
                conn, states_key, probe.sample_conversations(ids)
            )
        )
    # One array, filled row by row; the bytes of each row are dropped at once, since states can take gigabytes.
    states = np.empty(_shape(entries), dtype="<f2")
    first = 0
    for index, entry in enumerate(entries):
        last = first + len(entry.places)
        if entry.places:
            states[first:last] = _states(entry)
        entries[index] = replace(entry, states=b"")
        first = last
    usable = [entry for entry in entries if entry.places]
    keys = [entry.conversation_id for entry in usable]
    external_ids = names(conn, keys)
    return _Read(
        states_key=states_key,
        ids=ids,
        entries=entries,
        usable=usable,
        names=[external_ids[key] for key in keys],
        states=states,
    )


def _shape(entries: Sequence[StateEntry]) -> tuple[int, int]:
    """Returns the number of boundaries and of dimensions of a state; (0, 0) without any."""
    boundary_count = sum(len(entry.places) for entry in entries)
    bytes_count = sum(len(entry.states) for entry in entries)
    if not boundary_count:
        return 0, 0
    return boundary_count, bytes_count // (BYTES_PER_NUMBER * boundary_count)


def _states(entry: StateEntry) -> NDArray[np.float16]:
    """Returns the states of a conversation with boundaries, shape (boundaries, dimensions)."""
    return np.frombuffer(entry.states, dtype="<f2").reshape(len(entry.places), -1)


def _score_entries(
    project: Project, read: _Read, fitted: _Fitted
) -> Iterator[tuple[int, list[ScoreEntry]]]:
    """Yields the scores of all conversations of `read` in parts, each with the number of conversations so far.

    A part has at most `CONVERSATIONS_PER_TRANSACTION` conversations.
    """
    learned = {
        entry.conversation_id: (entry, p) for entry, p in _pair_with_scores(read.entries, fitted.p)
    }
    for first in range(0, len(read.ids), CONVERSATIONS_PER_TRANSACTION):
        part = read.ids[first : first + CONVERSATIONS_PER_TRANSACTION]
        unseen_ids = [key for key in part if key not in learned]
        with project.reading() as conn:
            others = list(hidden_states.entries_of_conversations(conn, read.states_key, unseen_ids))
        states = [_states(entry) for entry in others if entry.places]
        p = fitted.score_unseen(np.concatenate(states)) if states else np.empty(0)
        learned_part = [learned[key] for key in part if key in learned]
        yield (
            first + len(part),
            [_score_entry(*each) for each in (*learned_part, *_pair_with_scores(others, p))],
        )


def _pair_with_scores(
    entries: Sequence[StateEntry], p: Floats
) -> Iterator[tuple[StateEntry, Floats]]:
    """Yields each conversation with the scores of its boundaries, shape (its boundaries,).

    Args:
        p: Scores of the boundaries of all entries in order, shape (boundaries,).
    """
    first = 0
    for entry in entries:
        last = first + len(entry.places)
        yield entry, p[first:last]
        first = last


def _score_entry(entry: StateEntry, p: Floats) -> ScoreEntry:
    """Returns the score of a conversation to store, given those of its boundaries, shape (boundaries,)."""
    points = tuple(
        CurvePoint(place.message, place.step, place.turn, value, 1 - value)
        for place, value in zip(entry.places, p.tolist(), strict=True)
    )
    return ScoreEntry(entry.conversation_id, points, entry.reason, entry.tokens)
