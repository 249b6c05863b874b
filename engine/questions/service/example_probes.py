"""Probes fitted to a person's examples: success from verdicts, and any tag from tagging; refitted while one works.

A fit reads the signs of trouble and the words of all conversations, and the hidden states that `run complete --mode
probe` kept where it did; no model is asked. Words are read once and stay in memory. The newest probe is in force.

A probe begins with a guess that needs no example, for success the trouble of each conversation, and is a regression
of how the examples differ from it: on that guess again, on the signs of trouble, on the words of all messages, and on
the hidden state at the last boundary where a model read the conversation. The regression is regularized, so that a few
examples move little.

An example has its probability from regressions that did not see it or one nearly equal to it, so that the
probabilities of the examples can be tested; the others have theirs from a regression on all examples. Both are
calibrated by Platt's line on the former.

It serves every yes-no question: the answers yes are positive examples, the answers no negative ones.
docs/lab/signs.md says how features and weights were chosen, docs/lab/verdicts.md how the order was.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from engine.base.arrays import Bools, Floats, Ints
from engine.base.conversation import SUCCEEDED
from engine.base.errors import WorkbenchError
from engine.base.statistics.intervals import wilson
from engine.base.statistics.ranking import auroc
from engine.completeness.conversation_logs import logs_of
from engine.completeness.probe import REPEATS, States
from engine.completeness.probe_calibration import FOLDS, SEED
from engine.completeness.records import DecisionRule
from engine.completeness.tables import hidden_states
from engine.completeness.words import COLUMNS, MessageWords
from engine.conversations import shingle_overlap
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions import calibration
from engine.questions.records import YES_FROM, ExampleProbe, ExampleProbeTest
from engine.questions.tables import answers
from engine.questions.tables import example_probes as store
from engine.signs import tables as sign_tables
from engine.signs.reading import standard_scores, standardize, trouble

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SIGN_WEIGHT = 0.3
"""Prior variance of the weight of each sign, in log-odds for a standard deviation; and of the first guess."""

STATE_WEIGHT = 0.6
"""The same of all dimensions of a state together: the mean square of what they add to the log-odds."""

WORD_WEIGHT = 2.0
"""The same of all words together."""

MAX_BASIS = 400
"""Largest number of examples whose likeness to others the regression is on; of more, some are drawn at random."""

_NEWTON_STEPS = 25
_MAX_LOG_ODDS = 30.0

SCORE_WEIGHT = 0.8
"""Weight of the completeness score in the choice of the first conversations."""

TYPICAL_EXAMPLES = 10
"""Number of conversations that are chosen for being typical, before uncertainty counts."""

EXAMPLES_PER_FIT = 5
"""Number of new examples after which a probe is fitted anew."""

MAX_POOL_CONVERSATIONS = 4_000
"""Largest number of conversations that `rank_by_information` chooses from."""


class Known(NamedTuple):
    """What is known of all conversations without an example.

    Attributes:
        features: See `weight_features`; shape (conversations, features).
        words: See `word_vectors`; None without words.
        guess: Log-odds of being positive before any example, shape (conversations,).
    """

    features: States
    words: csr_array | None
    guess: Floats


def weight_features(signs: Floats, states: States | None = None) -> States:
    """Returns features of conversations, each weighted by how much it may matter.

    Args:
        signs: Standard scores of the signs of trouble, shape (conversations, signs).
        states: Hidden states at the last boundaries, shape (conversations, dimensions), NaN where there is none.

    Returns:
        Shape (conversations, signs + dimensions).
    """
    weighted = np.sqrt(SIGN_WEIGHT) * signs
    if states is not None:
        known = ~np.isnan(states[:, 0])
        standard = np.zeros_like(states)
        standard[known] = standardize(states[known])
        weighted = np.hstack([weighted, np.sqrt(STATE_WEIGHT / states.shape[1]) * standard])
    return np.asarray(weighted, dtype=np.float32)


def word_vectors(columns: Sequence[NDArray[np.uint16]]) -> csr_array:
    """Returns the words of conversations as unit vectors, rare words with more weight (inverse document frequency);
    words of one conversation only and of all are left out. Shape (conversations, `words.COLUMNS`).

    Args:
        columns: Of each conversation its columns of words, each once.
    """
    from scipy.sparse import csr_array, diags_array

    starts = np.cumsum([0, *map(len, columns)])
    joined = np.concatenate([*columns, np.empty(0, np.uint16)]).astype(np.int32)
    count = np.bincount(joined, minlength=COLUMNS)
    weight = np.log(len(columns) / np.maximum(count, 1)) * (count > 1)
    table = csr_array((weight[joined].astype(np.float32), joined, starts), (len(columns), COLUMNS))
    length = np.sqrt(table.multiply(table).sum(axis=1))
    return csr_array(diags_array(1 / np.where(length > 0, length, 1)) @ table)


def fit(known: Known, mark: Ints, group: Ints) -> Floats | None:
    """Returns the predictions of a probe that is fitted to the examples.

    Args:
        mark: 1 for a positive example, -1 for a negative one, 0 for no example; shape (conversations,).
        group: Group of each example, in the order of `mark`; nearly equal ones share one.

    Returns:
        Calibrated probability that each conversation is positive, shape (conversations,); of an example by regressions
        that did not see it. None where there are fewer than two groups of either kind of example.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    marked = np.flatnonzero(mark)
    label = mark[marked] > 0
    folds = min(FOLDS, len(np.unique(group[label])), len(np.unique(group[~label])))
    if folds < 2:
        return None
    log_odds = np.zeros((REPEATS, len(marked)))
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        table = _likeness_coordinates(known, marked)
        for repeat in range(REPEATS):
            parts = StratifiedGroupKFold(folds, shuffle=True, random_state=SEED + repeat)
            for train, held_out in parts.split(marked, label, group):
                if len(np.unique(label[train])) == 2:
                    log_odds[repeat, held_out] = _predict_log_odds(
                        table, known.guess, marked[train], label[train], marked[held_out]
                    )
        unseen = log_odds.mean(axis=0)
        slope, intercept = _fit_line(unseen, label)
        all_rows = np.arange(len(mark))
        calibrated = (
            slope * _predict_log_odds(table, known.guess, marked, label, all_rows) + intercept
        )
    calibrated[marked] = slope * unseen + intercept
    return np.asarray(1 / (1 + np.exp(-calibrated)))


def _likeness_coordinates(known: Known, marked: Ints) -> Floats:
    """Returns the coordinates of all conversations in the space that the examples span, in which a regression with unit
    variance of each weight is one on all features (Williams and Seeger 2001, "Using the Nystrom method to speed up
    kernel machines").

    Returns:
        Shape (conversations, at most `MAX_BASIS`).
    """
    basis = np.random.default_rng(SEED).permutation(marked)[:MAX_BASIS]
    kernel = known.features @ known.features[basis].T
    kernel = kernel + SIGN_WEIGHT * np.outer(known.guess, known.guess[basis])
    if known.words is not None:
        mean = known.words.mean(axis=0)
        along = known.words @ mean
        products = (known.words @ known.words[basis].T).toarray()
        spread = max(1 - float(mean @ mean), 1e-9)
        centered = products - along[:, None] - along[None, basis] + mean @ mean
        kernel = kernel + WORD_WEIGHT / spread * centered
    size, direction = np.linalg.eigh(np.asarray(kernel[basis], dtype=np.float64))
    is_large = size > 1e-6 * max(size.max(), 1e-9)
    return np.asarray(kernel @ (direction[:, is_large] / np.sqrt(size[is_large])))


def _predict_log_odds(
    table: Floats, guess: Floats, examples: Ints, label: Bools, conversations: Ints
) -> Floats:
    """Returns the log-odds of being positive of conversations, shape (conversations,): the guess and what a regression
    on the examples, with equal weight of both kinds, adds to it (Newton's method)."""
    rows = np.hstack([table[examples], np.ones((len(examples), 1))])
    weight = np.where(label, len(label) / (2 * label.sum()), len(label) / (2 * (~label).sum()))
    precision = np.eye(rows.shape[1])
    precision[-1, -1] = 1e-3  # the intercept is free
    added = np.zeros(rows.shape[1])
    for _ in range(_NEWTON_STEPS):
        odds = np.clip(guess[examples] + rows @ added, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        p = 1 / (1 + np.exp(-odds))
        gradient = rows.T @ (weight * (p - label)) + precision @ added
        curvature = (rows.T * (weight * np.maximum(p * (1 - p), 1e-6))) @ rows + precision
        step = np.linalg.solve(curvature, gradient)
        added -= step
        if np.abs(step).max() < 1e-6:
            break
    return np.asarray(guess[conversations] + table[conversations] @ added[:-1] + added[-1])


def _fit_line(values: Floats, label: Bools) -> tuple[float, float]:
    """Returns the slope, at least 0, and the intercept of the line from values to calibrated log-odds.

    It is fitted by maximum likelihood with the targets of Platt 1999, "Probabilistic outputs for support vector
    machines": one example of each kind is added in effect, so that a few examples do not claim certainty.
    """
    from scipy.optimize import minimize

    scale = max(float(values.std()), 1e-9)
    positives, negatives = int(label.sum()), int((~label).sum())
    target = np.where(label, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(line: Floats) -> float:
        odds = line[0] * values / scale + line[1]
        return float((np.logaddexp(0, odds) - target * odds).sum())

    slope, intercept = minimize(loss, [1.0, 0.0], bounds=[(0, 50), (-30, 30)]).x.tolist()
    return slope / scale, intercept


def rank_by_information(
    known: States, mark: Ints, p: Floats | None = None, score: Floats | None = None
) -> Ints:
    """Returns the conversations that are no examples yet, the most informative first.

    The first `TYPICAL_EXAMPLES` are typical of as many clusters of all conversations, the largest first, with the
    completeness score as one of the dimensions. From then on it is the next `EXAMPLES_PER_FIT` that count, for then a
    fit is made anew: they are typical of clusters of the less certain half, weighted by uncertainty, so that they are
    unsure and unlike each other (Zhdanov 2019, "Diverse mini-batch active learning").

    Args:
        known: The `weight_features` of all conversations.
        mark: As `fit` takes it.
        p: Probability of being positive; None before any fit.
        score: Completeness scores, NaN where there is none; used for the first `TYPICAL_EXAMPLES`.

    Returns:
        Indices of all conversations that are no examples; after the chosen ones, the others by falling uncertainty, or
        without `p` in a random order that is always the same.
    """
    unmarked = np.flatnonzero(mark == 0)
    shuffled = np.random.default_rng(SEED).permutation(len(mark))
    if p is None or np.count_nonzero(mark) < TYPICAL_EXAMPLES:
        space = known
        if score is not None and np.isfinite(score).any():
            filled = np.where(np.isfinite(score), score, np.nanmean(score))
            more = SCORE_WEIGHT * standardize(filled)[:, None]
            space = np.hstack([known, more.astype(np.float32)])
        pool = shuffled[:MAX_POOL_CONVERSATIONS]
        chosen = pool[_choose_typical(space[pool], TYPICAL_EXAMPLES, np.ones(len(pool)))]
        chosen = chosen[mark[chosen] == 0]
        rest = shuffled[np.isin(shuffled, unmarked)]
    else:
        uncertainty = 1 - np.abs(2 * p - 1) + 1e-6
        rest = unmarked[np.argsort(-uncertainty[unmarked], kind="stable")]
        pool = rest[: min(max(len(rest) // 2, 2 * EXAMPLES_PER_FIT), MAX_POOL_CONVERSATIONS)]
        chosen = pool[_choose_typical(known[pool], EXAMPLES_PER_FIT, uncertainty[pool])]
    return np.concatenate([chosen, rest[~np.isin(rest, chosen)]])


def _choose_typical(space: States, count: int, weights: Floats) -> Ints:
    """Returns, for each of so many clusters, the largest first, the index of the row that is nearest to its center."""
    from sklearn.cluster import KMeans

    count = min(count, len(np.unique(space, axis=0)))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    with threadpool_limits(limits=1):
        clustering = KMeans(count, n_init=2, random_state=SEED).fit(space, sample_weight=weights)
    distance = ((space - clustering.cluster_centers_[clustering.labels_]) ** 2).sum(axis=1)
    nearest = np.lexsort((distance, clustering.labels_))
    names, first = np.unique(clustering.labels_[nearest], return_index=True)
    order = np.argsort(-np.bincount(clustering.labels_, weights=weights)[names], kind="stable")
    return np.asarray(nearest[first][order], dtype=np.int64)


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


@dataclass(frozen=True, slots=True)
class _Conversations:
    """What a fit needs of every conversation, in the order of ids.

    Attributes:
        ids: Shape (conversations,).
        known: What is known of each; the guess is that of success.
        scores: Completeness score of each in force, shape (conversations,); NaN where there is none.
    """

    ids: Ints
    known: Known
    scores: Floats


class ExampleProbeService:
    """Fits example probes on one project and answers what they predict.

    Methods that fit take a second or more. After `noticed`, a thread fits again what has enough new examples.
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
        self._asked = self._busy = self._closing = False

    # Reading

    def in_force(self, subject: str = SUCCEEDED) -> ExampleProbe | None:
        """Quick. Returns the newest probe of a subject; None where there is none."""
        with self._project.reading() as conn:
            return store.get(conn, subject)

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

    def noticed(self) -> None:
        """Quick. To be called after every act of a person: fits anew in the background what has enough new examples."""
        if self._project.read_only is not None:
            return
        with self._state:
            self._asked = True
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(
                    target=self._work, name="example probes", daemon=True
                )
                self._thread.start()
            self._state.notify_all()

    def wait(self) -> None:
        """Waits until nothing is fitted in the background."""
        with self._state:
            self._state.wait_for(lambda: self._closing or not (self._asked or self._busy))

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
                self._state.wait_for(lambda: self._closing or self._asked)
                if self._closing:
                    return
                self._asked, self._busy = False, True
            # Where the file cannot be read or written just now, the next act tries again, and `fit` says why.
            with contextlib.suppress(WorkbenchError):
                self._fit_due()

    def _fit_due(self) -> None:
        """Fits the probes whose examples changed enough."""
        due = self._due()
        if not due:
            return
        conversations = self._read_conversations()
        for subject in due:
            if not self._closing:
                self._fit(conversations, subject)
        if not self._closing:
            self._changed()

    def _due(self) -> list[str]:
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
            signs = sign_tables.values(conn)
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
        known = Known(
            weight_features(scores, states),
            None if columns is None else word_vectors(columns),
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
        mark = np.array(
            [
                (example_by_id[key] * 2 - 1) if key in example_by_id else 0
                for key in conversations.ids.tolist()
            ],
            np.int64,
        )
        marked = conversations.ids[mark != 0].tolist()
        group = self._groups(conversations, marked)
        known = conversations.known
        if subject != SUCCEEDED:
            known = known._replace(guess=np.zeros(len(mark)))
        p = fit(known, mark, group)
        place = np.full(len(mark), -1)
        order = rank_by_information(known.features, mark, p, conversations.scores)
        place[order] = np.arange(len(order))
        probe = ExampleProbe(subject, len(example_by_id), None if p is None else _test(p, mark))
        values = [
            (
                key,
                None if p is None else float(p[index]),
                None if mark[index] else int(place[index]),
            )
            for index, key in enumerate(conversations.ids.tolist())
        ]
        self._project.write(lambda conn: store.put(conn, probe, values))
        return probe

    def _groups(self, conversations: _Conversations, marked: Sequence[int]) -> Ints:
        """Returns a group for each example, which nearly equal ones share.

        They are compared among others as well: among a few alone, what all conversations have in common, such as the
        prompt of an agent, would make them nearly equal.
        """
        random = np.random.default_rng(SEED)
        among = sorted(
            {*marked, *random.permutation(conversations.ids)[:COMPARED_CONVERSATIONS].tolist()}
        )
        missing = [key for key in among if key not in self._shingles]
        for log in logs_of(self._project, missing):
            self._shingles[log.id] = shingle_overlap.log_shingles(log.pieces)
        groups = shingle_overlap.groups([self._shingles[key] for key in among])
        group = dict(zip(among, groups.tolist(), strict=True))
        return np.array([group[key] for key in marked], dtype=np.int64)


def _is_due(newest: ExampleProbe | None, marks: int) -> bool:
    """Returns whether enough examples are new since the newest fit; the first ones are."""
    return abs(marks - (0 if newest is None else newest.marks)) >= EXAMPLES_PER_FIT


def _test(p: Floats, mark: Ints) -> ExampleProbeTest:
    """Returns how well the probabilities p separate the examples. `mark` is 1, -1 or 0 (no example) for each
    conversation; both have the shape (conversations,)."""
    marked = mark != 0
    label, values = mark[marked] > 0, p[marked]
    above = values >= YES_FROM
    calibrated = calibration.calibrate(values, label, p, YES_FROM)
    rule = DecisionRule(YES_FROM, band=0.0)
    return ExampleProbeTest(
        positive=int(label.sum()),
        negative=int((~label).sum()),
        auroc=auroc(values.tolist(), label.tolist()),
        agreement=wilson(int((above == label).sum()), len(label)),
        precision=(wilson(int((above & label).sum()), int(above.sum())) if above.any() else None),
        above=int((p >= YES_FROM).sum()),
        conversations=len(p),
        proposed=int((p[~marked] >= YES_FROM).sum()),
        rate=calibration.estimate_completion_rate(calibrated, calibration.count_states(p, rule)),
    )
