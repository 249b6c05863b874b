"""Probes fitted to a person's examples: success from verdicts, and any tag from tagging; refitted while one works.

A fit (`engine.questions.example_fits`) reads the signs of trouble and the words of all conversations, and the hidden
states that `run complete --mode probe` kept where it did; no model is asked. Words are read once and stay in memory.
The newest probe is in force.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Floats, Ints
from engine.base.conversation import SUCCEEDED
from engine.base.errors import WorkbenchError
from engine.base.statistics.intervals import Interval, wilson
from engine.base.statistics.ranking import auroc
from engine.completeness.probe_calibration import SEED
from engine.completeness.stages.scoring import logs_of
from engine.completeness.tables import hidden_states
from engine.completeness.words import MessageWords
from engine.conversations import shingle_overlap
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions import example_fits
from engine.questions.records import (
    YES_FROM,
    CompletionRate,
    ExampleProbe,
    ExampleProbeTest,
    explain_no_share,
)
from engine.questions.tables import answers, triage_queue
from engine.questions.tables import example_probes as store
from engine.signs import tables as sign_tables
from engine.signs.sums import standard_scores, standardize, trouble

MIN_CONVERSATIONS_FOR_TAG = 5
"""Number of conversations with the answer yes from which on a probe is fitted without being asked for."""

CLOSE_TIMEOUT = 3.0
"""Seconds that `close` waits for a fit."""

COMPARED_CONVERSATIONS = 500
"""Number of conversations, drawn at random, that the examples are compared with to find near-duplicates."""

MAX_WORD_CONVERSATIONS = 20_000
"""Number of conversations of a project up to which their words are read; a kilobyte of memory each."""

READ_MESSAGES = 20
"""Number of messages at the beginning and at the end of a conversation whose words are read."""

PAGE = 500
"""Number of conversations whose words are read at a time."""


_MARKS = {True: 1, False: -1, None: 0}
"""Mark of a positive example, of a negative one and of no example, as `fit_to_examples` takes them."""


@dataclass(frozen=True, slots=True)
class _Conversations:
    """What a fit needs of every conversation, in the order of ids.

    Attributes:
        ids: Shape (conversations,).
        known: What is known of each; the guess is that of success.
        scores: Completeness score of each in force, shape (conversations,); NaN where there is none.
    """

    ids: Ints
    known: example_fits.KnownFeatures
    scores: Floats


class ExampleProbeService:
    """Fits example probes on one project and answers what they predict.

    Methods that fit take a second or more. After `refit_soon`, a thread fits again what has enough new examples.
    """

    def __init__(self, project: Project, changed: Callable[[], None] = lambda: None) -> None:
        """Reads nothing yet.

        Args:
            changed: Called when a fit was stored.
        """
        self._project, self._changed = project, changed
        self._shingles: dict[int, shingle_overlap.Shingles] = {}
        self._words: dict[int, NDArray[np.uint16]] = {}
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None
        self._has_new_acts = self._busy = self._closing = False

    # Reading

    def in_force(self, subject: str = SUCCEEDED) -> ExampleProbe | None:
        """Returns the newest probe of a subject, quickly; None where there is none."""
        return self._project.read(store.get, subject)

    # Fitting

    def fit(self, subject: str) -> ExampleProbe:
        """Fits the probe of a subject to all its examples.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        probe = self._fit(self._read_conversations(), subject)
        self._changed()
        return probe

    def prepare(self, subject: str = SUCCEEDED) -> None:
        """Makes the order *most informative first* where there is none yet, before any answer."""
        with self._project.reading() as conn:
            if store.get(conn, subject) is not None:
                return
        if self._project.read_only is None:
            self._fit(self._read_conversations(), subject)

    def refit_soon(self) -> None:
        """Lets the background fit anew what has enough new examples; quick, and to be called after every act of a
        person."""
        if self._project.read_only is not None:
            return
        with self._state:
            self._has_new_acts = True
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(
                    target=self._work, name="example probes", daemon=True
                )
                self._thread.start()
            self._state.notify_all()

    def wait(self) -> None:
        """Waits until nothing is fitted in the background."""
        with self._state:
            self._state.wait_for(lambda: self._closing or not (self._has_new_acts or self._busy))

    def close(self) -> None:
        """Ends the work in the background; a fit that runs long is given up, and new acts start none."""
        with self._state:
            self._closing = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT)

    def _work(self) -> None:
        """Fits what is due after each act of a person, until the service is closed."""
        # One thread for all fits: each thread that reads has a connection of its own to the end.
        while True:
            with self._state:
                self._busy = False
                self._state.notify_all()
                self._state.wait_for(lambda: self._closing or self._has_new_acts)
                if self._closing:
                    return
                self._has_new_acts, self._busy = False, True
            # Where the file cannot be read or written just now, the next act tries again, and `fit` says why.
            with contextlib.suppress(WorkbenchError):
                self._fit_due()

    def _fit_due(self) -> None:
        """Fits the probes whose examples changed enough."""
        due = self._find_due()
        if not due:
            return
        conversations = self._read_conversations()
        for subject in due:
            if not self._closing:
                self._fit(conversations, subject)
        if not self._closing:
            self._changed()

    def _find_due(self) -> list[str]:
        """Returns the subjects whose examples changed enough since their newest fit."""
        with self._project.reading() as conn, snapshot(conn):
            tags = [
                name for name, count in answers.tags(conn) if count >= MIN_CONVERSATIONS_FOR_TAG
            ]
            return [
                subject
                for subject in (SUCCEEDED, *tags)
                if _is_due(store.get(conn, subject), len(store.examples(conn, subject)))
            ]

    def _read_conversations(self) -> _Conversations:
        """Returns what a fit needs, with the states under the configuration with most of them."""
        with self._project.reading() as conn, snapshot(conn):
            signs = sign_tables.sign_values(conn)
            config = hidden_states.config_with_most_states(conn)
            last_states = [] if config is None else hidden_states.last_states(conn, config)
            score_by_id = dict(zip(*answers.scored_values(conn), strict=True))
        scores = standard_scores(signs.values)
        states = None
        if last_states:
            ids, packed_states = zip(*last_states, strict=True)
            read = np.stack([np.frombuffer(packed, dtype="<f2") for packed in packed_states])
            states = np.full((len(signs.ids), read.shape[1]), np.nan, dtype=np.float32)
            states[np.searchsorted(signs.ids, ids)] = read
        columns = self._read_words(signs.ids.tolist())
        known = example_fits.KnownFeatures(
            example_fits.weight_features(scores, states),
            None if columns is None else example_fits.word_vectors(columns),
            standardize(-trouble(scores)),
        )
        return _Conversations(
            signs.ids,
            known,
            np.array([score_by_id.get(key, np.nan) for key in signs.ids.tolist()]),
        )

    def _read_words(self, ids: Sequence[int]) -> list[NDArray[np.uint16]] | None:
        """Returns the columns of the words of conversations; None of too many, or of none."""
        if not 0 < len(ids) <= MAX_WORD_CONVERSATIONS:
            return None
        missing = [key for key in ids if key not in self._words]
        for start in range(0, len(missing), PAGE):
            logs = logs_of(self._project, missing[start : start + PAGE])
            read = [
                log.pieces
                if len(log.pieces) <= 2 * READ_MESSAGES
                else [*log.pieces[:READ_MESSAGES], *log.pieces[-READ_MESSAGES:]]
                for log in logs
            ]
            words = MessageWords.from_pieces([piece for pieces in read for piece in pieces])
            ends = np.cumsum([0, *map(len, read)])
            for log, first, last in zip(logs, ends[:-1], ends[1:], strict=True):
                self._words[log.id] = np.unique(
                    words.columns[words.starts[first] : words.starts[last]]
                )
        return [self._words[key] for key in ids]

    def _fit(self, conversations: _Conversations, subject: str) -> ExampleProbe:
        """Fits a probe to the examples of a subject, and stores it with its value and its place in the order of
        proposals for each conversation."""
        with self._project.reading() as conn, snapshot(conn):
            example_by_id = store.examples(conn, subject)
            share, drawn = triage_queue.share_of_all(conn, subject)
        ids = conversations.ids.tolist()
        marks = np.array([_MARKS[example_by_id.get(key)] for key in ids], np.int64)
        groups = self._group_examples(conversations, conversations.ids[marks != 0].tolist())
        known = conversations.known
        if subject != SUCCEEDED:
            known = known._replace(guess=np.zeros(len(marks)))
        p = example_fits.fit_to_examples(known, marks, groups)
        ranked = example_fits.rank_by_information(known.features, marks, p, conversations.scores)
        place_by_index = {index: place for place, index in enumerate(ranked.tolist())}
        probe = ExampleProbe(
            subject, len(example_by_id), None if p is None else _test(p, marks, share, drawn)
        )
        values = [
            (key, None if p is None else float(p[index]), place_by_index.get(index))
            for index, key in enumerate(ids)
        ]
        self._project.write(lambda conn: store.put(conn, probe, values))
        return probe

    def _group_examples(self, conversations: _Conversations, example_ids: Sequence[int]) -> Ints:
        """Returns a group for each example, which nearly equal ones share.

        They are compared among others as well: among a few alone, what all conversations have in common, such as the
        prompt of an agent, would make them nearly equal.
        """
        random = np.random.default_rng(SEED)
        among = sorted(
            {*example_ids, *random.permutation(conversations.ids)[:COMPARED_CONVERSATIONS].tolist()}
        )
        missing = [key for key in among if key not in self._shingles]
        for log in logs_of(self._project, missing):
            self._shingles[log.id] = shingle_overlap.log_shingles(log.pieces)
        groups = shingle_overlap.groups([self._shingles[key] for key in among])
        group_by_id = dict(zip(among, groups.tolist(), strict=True))
        return np.array([group_by_id[key] for key in example_ids], dtype=np.int64)


def _is_due(newest: ExampleProbe | None, marks: int) -> bool:
    """Returns whether enough examples are new since the newest fit; the first ones are."""
    return abs(marks - (0 if newest is None else newest.marks)) >= example_fits.EXAMPLES_PER_FIT


def _test(p: Floats, marks: Ints, share: Interval | None, drawn: int) -> ExampleProbeTest:
    """Returns how well the probabilities p separate the examples.

    Args:
        marks: 1, -1 or 0 (no example) for each conversation, shape (conversations,), as of `p`.
        share, drawn: As `triage_queue.share_of_all` returns them.
    """
    is_example = marks != 0
    is_positive, values = marks[is_example] > 0, p[is_example]
    above, predicted = values >= YES_FROM, wilson(int((p >= YES_FROM).sum()), len(p))
    return ExampleProbeTest(
        positive=int(is_positive.sum()),
        negative=int((~is_positive).sum()),
        auroc=auroc(values.tolist(), is_positive.tolist()),
        agreement=wilson(int((above == is_positive).sum()), len(is_positive)),
        precision=(
            wilson(int((above & is_positive).sum()), int(above.sum())) if above.any() else None
        ),
        above=predicted.part,
        conversations=len(p),
        proposed=int((p[~is_example] >= YES_FROM).sum()),
        rate=CompletionRate(
            conversations=len(p),
            scored=len(p),
            apparent=predicted.value,
            corrected=share,
            why="" if share else explain_no_share(drawn),
            drawn=drawn,
            low=predicted.low,
            high=predicted.high,
        ),
        drawn=drawn,
    )
