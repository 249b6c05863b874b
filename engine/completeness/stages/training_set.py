"""The conversations that a probe learns from, and what it can read at their boundaries.

A boundary is a place where a conversation could end. `LogTexts` is what the texts of logs tell about their boundaries,
from one pass over them and without a model. `Boundaries` adds the hidden states of the logs that a model has read.
`TrainingSet` adds what a fit and its test need of each conversation besides. A run is three words in a row; nearly
equal conversations share many. A *mask* says of each boundary whether it is meant. An *inner step* is a call, a result
or an announcement within a turn: no conversation ends there, but a log can break off. So those that are learned from
have their inner steps among their boundaries, as further places that are no ends.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, compress, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints, part_starts
from engine.base.conversation import LogPiece, render_log
from engine.completeness.boundaries import (
    boundaries,
    no_boundary_reason,
    note_on_end,
    with_inner_steps,
)
from engine.completeness.kinds import Roles
from engine.completeness.records import CurvePoint
from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.completeness.tables.scores import ScoreEntry
from engine.completeness.truncation import sounds_complete
from engine.completeness.word_reasons import boundary_id
from engine.completeness.words import DISTANCES, BoundaryWords, MessageWords
from engine.conversations import shingle_overlap
from engine.conversations.records import Origin
from engine.conversations.tables import conversations
from engine.project.project import Project

BYTES_PER_NUMBER = 2
"""Bytes of each number of a stored state, a float16 (little-endian, `<f2`)."""

AT_CHANCE = "in logs of this kind whole and cut are not told apart better than by chance"
"""Reason why a conversation is unscored whose kind of log fails its test."""

CONVERSATIONS_PER_READ = 500
"""Number of conversations whose text is in memory at once."""

RUNS_PER_CONVERSATION = 64
"""Mean number of runs of three words by which near copies of long logs are found: a sample of them is enough."""


@dataclass(frozen=True, slots=True)
class LogTexts:
    """What the texts of some conversations tell.

    Attributes:
        ids: The ids of the conversations, rising.
        places: The boundaries of each conversation, with its inner steps where these were asked for; none where it
            could end nowhere.
        numbers: The number of each of these boundaries among all boundaries of its conversation, from 0.
        is_inner: Whether each of these boundaries is an inner step, shape (boundaries,).
        reasons: Why each conversation has no boundary, or what is special about its end; None otherwise.
        words: The words at the boundaries of all conversations, in order.
        keywords: Answer of the keyword rule at the boundaries, shape (boundaries,); NaN where it was not asked for.
        roles: Who speaks in each conversation.
        runs: The different runs of three words in each conversation, rising; a sample where logs are long on average.
    """

    ids: list[int]
    places: list[tuple[BoundaryPlace, ...]]
    numbers: list[list[int]]
    is_inner: Bools
    reasons: list[str | None]
    words: BoundaryWords
    keywords: Floats
    roles: list[Roles]
    runs: list[shingle_overlap.Shingles]

    @classmethod
    def read(
        cls,
        project: Project,
        ids: Sequence[int],
        check: Callable[[], None] = lambda: None,
        keywords_for: Container[int] = (),
        *,
        inner: bool = False,
    ) -> LogTexts:
        """Reads the texts of these conversations.

        Args:
            ids: Rising; those without messages are left out.
            check: Called before each page of conversations is read; may raise to cancel.
            keywords_for: The conversations for which the keyword rule is asked.
            inner: Whether inner steps are read too.
        """
        pages = []
        # At least one page, so that there is something to join.
        for first in range(0, max(1, len(ids)), CONVERSATIONS_PER_READ):
            check()
            page = project.read(
                conversations.conversations_for, ids[first : first + CONVERSATIONS_PER_READ]
            )
            rendered = [(key, render_log(messages)) for key, messages in page]
            logs = [_Log(key, pieces, boundaries(pieces)) for key, pieces in rendered]
            pages.append(_texts_of_logs(logs, keywords_for, inner=inner))
        # The messages of a page are numbered from 0, those of all pages together one after another.
        message_counts = accumulate((len(page.words.words) for page in pages), initial=0)
        messages = [
            np.where(page.words.messages < 0, -1, page.words.messages + messages_before)
            for page, messages_before in zip(pages, message_counts, strict=False)
        ]
        words = MessageWords.concatenate([page.words.words for page in pages])
        return cls(
            list(chain.from_iterable(page.ids for page in pages)),
            list(chain.from_iterable(page.places for page in pages)),
            list(chain.from_iterable(page.numbers for page in pages)),
            np.concatenate([page.is_inner for page in pages]),
            list(chain.from_iterable(page.reasons for page in pages)),
            BoundaryWords(words, np.concatenate(messages)),
            np.concatenate([page.keywords for page in pages]),
            list(chain.from_iterable(page.roles for page in pages)),
            _sample(list(chain.from_iterable(page.runs for page in pages))),
        )

    @property
    def counts(self) -> Ints:
        """Number of boundaries of each conversation, shape (conversations,)."""
        return np.array([len(places) for places in self.places], dtype=np.int64)

    def subset(self, conversations: Ints) -> LogTexts:
        """Returns what the texts of the conversations with these indices tell; the indices rise."""
        chosen = np.isin(np.arange(len(self.ids)), conversations)
        rows = np.repeat(chosen, self.counts)
        indices = conversations.tolist()
        return LogTexts(
            ids=[self.ids[index] for index in indices],
            places=[self.places[index] for index in indices],
            numbers=[self.numbers[index] for index in indices],
            is_inner=self.is_inner[rows],
            reasons=[self.reasons[index] for index in indices],
            words=self.words[rows],
            keywords=self.keywords[rows],
            roles=[self.roles[index] for index in indices],
            runs=[self.runs[index] for index in indices],
        )

    def at_boundaries(self, mask: Bools) -> LogTexts:
        """Returns the same conversations with the boundaries in a mask only, shape (boundaries,)."""
        starts = part_starts(self.counts).tolist()
        mask_of_logs = [mask[begin:end] for begin, end in pairwise(starts)]
        return replace(
            self,
            places=[tuple(compress(*log)) for log in zip(self.places, mask_of_logs, strict=True)],
            numbers=[list(compress(*log)) for log in zip(self.numbers, mask_of_logs, strict=True)],
            is_inner=self.is_inner[mask],
            words=self.words[mask],
            keywords=self.keywords[mask],
        )


def _sample(runs: list[shingle_overlap.Shingles]) -> list[shingle_overlap.Shingles]:
    """Returns the runs of each log, of long logs only those whose hash is a multiple of one number.

    A log is long if it has more than twice `RUNS_PER_CONVERSATION`. The number is such that long logs keep from
    `RUNS_PER_CONVERSATION` to twice as many on average.

    What two long logs share is in both samples or in neither (Broder 1997, "On the resemblance and containment of
    documents"), so their overlap stays what it is, but for chance.
    """
    most = 2 * RUNS_PER_CONVERSATION
    long_sizes = [len(hashes) for hashes in runs if len(hashes) > most]
    divisor = sum(long_sizes) // (RUNS_PER_CONVERSATION * max(1, len(long_sizes)))
    return [hashes[hashes % divisor == 0] if len(hashes) > most else hashes for hashes in runs]


class _Log(NamedTuple):
    """A log, and the indices of the pieces after which it could end."""

    id: int
    pieces: list[LogPiece]
    boundaries: list[int]


def _texts_of_logs(logs: Sequence[_Log], keywords_for: Container[int], *, inner: bool) -> LogTexts:
    """Returns what these logs tell; see `LogTexts.read`."""
    # Of each log: the indices of the pieces that are its boundaries or inner steps.
    stops = [
        with_inner_steps(log.pieces, log.boundaries) if inner else log.boundaries for log in logs
    ]
    is_inner = [
        np.isin(indices, log.boundaries, invert=True)
        for log, indices in zip(logs, stops, strict=True)
    ]
    words = MessageWords.from_pieces([piece for log in logs for piece in log.pieces])
    # Index among all messages of the first one of each log, and last the number of messages.
    first_messages = part_starts(np.array([len(log.pieces) for log in logs], dtype=np.int64))
    run_starts = words.run_starts[first_messages]
    # Of each boundary: the indices in its log of the messages at each distance, negative before the log.
    boundary = np.array([index for indices in stops for index in indices], dtype=np.int64)
    in_log = boundary[:, None] - np.arange(DISTANCES)
    first_of_log = np.repeat(first_messages[:-1], list(map(len, stops)))
    messages = np.where(in_log < 0, -1, in_log + first_of_log[:, None])
    return LogTexts(
        [log.id for log in logs],
        [BoundaryPlace.in_log(log.pieces, at) for log, at in zip(logs, stops, strict=True)],
        [list(range(len(indices))) for indices in stops],
        np.concatenate([np.empty(0, dtype=bool), *is_inner]),
        [
            note_on_end(log.pieces, log.boundaries)
            if log.boundaries
            else no_boundary_reason(log.pieces)
            for log in logs
        ],
        BoundaryWords(words, messages),
        np.array(
            [
                sounds_complete(log.pieces[: index + 1]) if log.id in keywords_for else np.nan
                for log, indices in zip(logs, stops, strict=True)
                for index in indices
            ],
            dtype=np.float64,
        ),
        [Roles.from_pieces(log.pieces) for log in logs],
        [np.unique(words.runs[begin:end]) for begin, end in pairwise(run_starts.tolist())],
    )


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The boundaries of some conversations, and what a probe can read there.

    Attributes:
        texts: The texts of the conversations. On states alone its places are the boundaries at which states were read.
        reasons: Why each conversation has no boundary, or what is special about its states; None otherwise.
        tokens: Number of tokens that a model read of each conversation.
        states: All hidden states, shape (states, dimensions); a subset of the conversations shares them.
        state_of_boundary: Index in `states` of the state of each boundary, shape (boundaries,); -1 where none was read.
    """

    texts: LogTexts
    reasons: list[str | None]
    tokens: list[int]
    states: NDArray[np.float16]
    state_of_boundary: Ints

    @property
    def has_state(self) -> Bools:
        """Whether a state was read at each boundary, shape (boundaries,)."""
        return self.state_of_boundary >= 0

    @property
    def read_states(self) -> NDArray[np.float16]:
        """The states of the boundaries at which one was read, in their order, shape (boundaries with one,
        dimensions)."""
        return self.states[self.state_of_boundary[self.has_state]]

    def entries(self, p: Floats) -> Iterator[ScoreEntry]:
        """Yields the score entry of each conversation, without its inner steps.

        Args:
            p: Scores of all boundaries, shape (boundaries,); NaN in conversations of a kind at chance.
        """
        first = 0
        for key, places, reason, tokens in zip(
            self.texts.ids, self.texts.places, self.reasons, self.tokens, strict=True
        ):
            values = p[first : first + len(places)].tolist()
            is_inner = self.texts.is_inner[first : first + len(places)].tolist()
            first += len(places)
            if values and np.isnan(values[0]):
                yield ScoreEntry(key, (), AT_CHANCE, tokens)
                continue
            points = tuple(
                CurvePoint(place.message, place.step, place.turn, value, 1 - value)
                for place, value, inner in zip(places, values, is_inner, strict=True)
                if not inner
            )
            yield ScoreEntry(key, points, reason, tokens)

    def subset(self, conversations: Ints) -> Boundaries:
        """Returns the boundaries of the conversations with these indices, which rise."""
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
        return np.array(ids, dtype=np.int64)[self.has_state]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The conversations that a probe learns from.

    Attributes:
        boundaries: What was read at the boundaries.
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
