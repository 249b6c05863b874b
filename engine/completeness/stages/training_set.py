"""The conversations that a probe learns from: their boundaries, and what can be read there.

A boundary is a place where a conversation could end. At it the probe reads the words of the last messages and, where a
model read the conversation, its hidden state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.completeness.records import CurvePoint
from engine.completeness.stages.log_texts import LogTexts
from engine.completeness.tables.hidden_states import StateEntry
from engine.completeness.tables.scores import ScoreEntry
from engine.completeness.word_reasons import boundary_id
from engine.conversations.records import Origin

BYTES_PER_NUMBER = 2
"""Bytes of each number of a stored state, a float16 (little-endian, `<f2`)."""

AT_CHANCE = "in logs of this kind whole and cut are not told apart better than by chance"
"""Reason why a conversation is unscored if its kind fails its test."""


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
        """Yields the score entry of each conversation.

        Args:
            p: Scores of all boundaries, shape (boundaries,); NaN in conversations of a kind at chance.
        """
        first = 0
        for key, places, reason, tokens in zip(
            self.texts.ids, self.texts.places, self.reasons, self.tokens, strict=True
        ):
            values = p[first : first + len(places)].tolist()
            first += len(places)
            if values and np.isnan(values[0]):
                yield ScoreEntry(key, (), AT_CHANCE, tokens)
                continue
            points = tuple(
                CurvePoint(place.message, place.step, place.turn, value, 1 - value)
                for place, value in zip(places, values, strict=True)
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
