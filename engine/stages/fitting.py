"""The stage that fits the probe: from kept hidden states to a completeness score of every conversation read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from engine.completeness import near_duplicates, probe
from engine.completeness.position import by_position
from engine.completeness.probe import CrossFit
from engine.errors import UsageError
from engine.jobs.contract import Progress
from engine.number_format import counted, figure, figure_range
from engine.records.scores import LEAST_FOR_PROBE, EndingTest
from engine.stages.cpu_stage import CpuStage
from engine.stages.logs import logs_of
from engine.stages.model_work import RunModel
from engine.store import conversations, hidden_states, runs, scores
from engine.store.hidden_states import StateEntry
from engine.store.project import Project
from engine.store.scores import BoundaryEntry, ScoreConfig, ScoreEntry
from engine.validate.endings import Cuts, draw_cuts, matched
from engine.validate.keywords import sounds_complete
from engine.validate.statistics.ranking import auroc
from engine.worker.client import OnProgress

CHUNK = 500
"""Conversations whose text is read at once for the keyword rule."""

WHOLE = 0.5
"""Score from which the test calls a conversation whole."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What the reading stage kept, in the order of the conversations' ids.

    Attributes:
        entries: All conversations, those without states too.
        usable: Those with states; `names` are their external ids.
    """

    entries: list[StateEntry]
    usable: list[StateEntry]
    names: list[str]

    @property
    def counts(self) -> list[int]:
        """Number of boundaries of each usable conversation."""
        return [len(entry.places) for entry in self.usable]


class FittingStage(CpuStage):
    """Fits the probe anew on all conversations that were read, and scores each by a probe that never saw it."""

    name = "fit"

    def __init__(self, project: Project, model: RunModel, states_key: Callable[[], str]) -> None:
        """Prepares a run.

        Args:
            model: The model that read the conversations.
            states_key: Returns the config hash of the hidden states; called when the stage starts.
        """
        super().__init__(project)
        self._model, self._states_key = model, states_key
        self._scored = 0
        self._result = ""

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Fitting the probe"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the scores: how they are fitted, and the conversations that were read."""
        states = self._states_key()
        with self._project.reading() as conn:
            known = hidden_states.fingerprint(conn, states)
        return {"probe": probe.VERSION, "states": states, "conversations": known}

    def waiting(self) -> int:
        """Number of conversations that were read and have no scores of a probe fitted to all that were read."""
        key = self.config_hash
        with self._project.reading() as conn:
            if scores.is_stored(conn, key):
                return 0
            return hidden_states.readable(conn, self._states_key())

    def run(self, run_id: int) -> Iterator[Progress]:
        """Fits, tests and stores the scores in one transaction; does nothing if they are stored already.

        Raises:
            UsageError: There are too few conversations for a probe.
            Cancelled: `interrupt` was called.
        """
        key = self.config_hash
        with self._project.reading() as conn:
            if scores.is_stored(conn, key):
                self._project.write(lambda conn: scores.put_in_force_unless_another_is(conn, key))
                return
            read = _read(conn, self._states_key())
        total = probe.STEPS * 2
        yield Progress(0, total)
        found: list[tuple[CrossFit, EndingTest]] = []
        done = 0
        for count, note in self._live(partial(self._fit, read), found.append):
            done += count
            yield Progress(min(done, total), total, note)
        ((fit, test),) = found
        model = self._model.model
        config = ScoreConfig(
            key, "probe", model.label, model.adapter_name, float(fit.spread.mean()), test
        )
        entries = _score_entries(read, fit)
        self._scored = len(read.usable)
        self._result = in_words(test)

        def store(conn: sqlite3.Connection) -> None:
            scores.register(conn, config)
            scores.add(conn, key, run_id, entries)
            scores.put_in_force_unless_another_is(conn, key)
            runs.count(conn, run_id, total, total)

        self._project.write(store)
        yield Progress(total, total)

    def summary(self) -> str:
        """The result in one sentence, with the test of it."""
        if not self._scored:
            return "The scores of the probe are stored already."
        text = f"Scored {self._scored:,} conversations by a probe that never saw them"
        return f"{text}; {self._result}."

    def _fit(self, read: _Read, report: OnProgress) -> tuple[CrossFit, EndingTest]:
        counts = read.counts
        cuts = draw_cuts(read.names, counts)
        groups, keywords = self._read_texts(read, cuts)
        different = len(np.unique(groups[np.array(counts, dtype=np.int64) > 1]))
        if different < LEAST_FOR_PROBE:
            raise UsageError(
                f"A probe needs {LEAST_FOR_PROBE} conversations that could end in two places, nearly"
                f" equal ones counted once; there are {different:,} among {len(counts):,}.",
                "Read more conversations, or score with --mode tuned.",
            )
        states = np.concatenate(
            [
                np.frombuffer(entry.states, dtype="<f2").reshape(len(entry.places), -1)
                for entry in read.usable
            ]
        ).astype(np.float32)
        end = np.concatenate([np.arange(count) == count - 1 for count in counts])
        group = np.repeat(groups, counts)
        fit = probe.cross_fit(states, end, group, lambda: report(1, "fitting"))
        position = by_position(
            [
                [(number, place.chars, place.step_chars) for number, place in enumerate(one.places)]
                for one in read.usable
            ],
            groups,
            lambda: report(1, "comparing with position alone"),
        )
        return fit, _test(counts, cuts, fit, position, keywords)

    def _read_texts(self, read: _Read, cuts: Cuts) -> tuple[near_duplicates.Ints, list[float]]:
        """What only the texts tell, from one pass over them.

        Returns:
            A group for each usable conversation, which nearly equal ones share, so that they share a fold; and the
            keyword rule's answer at each whole boundary, then at each cut one.
        """
        owner = np.repeat(np.arange(len(read.usable)), read.counts)
        places = [place for entry in read.usable for place in entry.places]
        asked: dict[int, list[tuple[int, int]]] = {}
        for at, boundary in enumerate([*cuts.whole.tolist(), *cuts.cut.tolist()]):
            entry = read.usable[owner[boundary]]
            asked.setdefault(entry.conversation_id, []).append((at, places[boundary].message))
        found = []
        keywords = [0.0] * (2 * len(cuts.whole))
        ids = [entry.conversation_id for entry in read.usable]
        for first in range(0, len(ids), CHUNK):
            self._check()
            for log in logs_of(self._project, ids[first : first + CHUNK]):
                text = " ".join(piece.text for piece in log.pieces)
                found.append(near_duplicates.shingles(text))
                index = {piece.message: nth for nth, piece in enumerate(log.pieces)}
                for at, message in asked.get(log.id, ()):
                    keywords[at] = float(sounds_complete(log.pieces[: index[message] + 1]))
        return near_duplicates.groups(found), keywords


def _test(
    counts: list[int], cuts: Cuts, fit: CrossFit, position: CrossFit, keywords: list[float]
) -> EndingTest:
    both = np.concatenate([cuts.whole, cuts.cut])
    label = [True] * len(cuts.whole) + [False] * len(cuts.cut)
    pair = [*range(len(cuts.whole))] * 2
    hits = int((fit.p[cuts.whole] >= WHOLE).sum())
    alarms = int((fit.p[cuts.cut] >= WHOLE).sum())
    share, pairs = matched(np.split(fit.p, np.cumsum(counts)[:-1]))
    return EndingTest(
        conversations=len(cuts.whole),
        auroc=auroc(fit.p[both].tolist(), label, pair),
        f1=2 * hits / (len(cuts.whole) + hits + alarms),
        keywords=auroc(keywords, label, pair).value,
        position=auroc(position.p[both].tolist(), label, pair).value,
        matched=share,
        matched_pairs=pairs,
    )


def in_words(test: EndingTest) -> str:
    """The result of a test in a few words."""
    area = test.auroc
    return (
        f"whole against cut: AUROC {figure(area.value)} ({figure_range(area.low, area.high)}),"
        f" {counted(test.conversations, 'conversation')}"
    )


def _read(conn: sqlite3.Connection, states_key: str) -> _Read:
    entries = list(hidden_states.of_config(conn, states_key))
    usable = [entry for entry in entries if entry.places]
    ids = [entry.conversation_id for entry in usable]
    names = {row.id: row.external_id for row in conversations.rows(conn, ids)}
    return _Read(entries, usable, [names[key] for key in ids])


def _score_entries(read: _Read, fit: CrossFit) -> list[ScoreEntry]:
    entries = []
    first = 0
    for entry in read.entries:
        p = fit.p[first : first + len(entry.places)].tolist()
        first += len(entry.places)
        points = tuple(
            BoundaryEntry(place.message, place.step, place.turn, value, 1 - value)
            for place, value in zip(entry.places, p, strict=True)
        )
        entries.append(ScoreEntry(entry.conversation_id, points, entry.reason, entry.tokens))
    return entries
