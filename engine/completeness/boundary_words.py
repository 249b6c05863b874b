"""The words of many messages, and the words at boundaries, as the probe on words reads them.

`engine.completeness.words` says what a boundary, a distance and a column are. Runs of three words, which near copies of
a conversation share, come from the same pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.base.conversation import LogPiece, Role
from engine.completeness.words import (
    BITS,
    COLUMNS,
    DISTANCES,
    split_words,
    text_to_read,
    word_columns,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_CHARACTERS_PER_PASS = 1 << 20
"""Largest number of characters of several messages in one pass, which needs about fifty times their bytes."""


@dataclass(frozen=True, slots=True)
class MessageWords:
    """The columns that messages have, message after message.

    Attributes:
        columns: The distinct columns of each message, ascending within a message, shape (total,).
        starts: Index in `columns` at which each message begins; last the length of `columns`; shape (messages + 1,).
        runs: Hashes of the runs of three words of each message, shape (runs,).
        run_starts: Index in `runs` at which each message begins; last the length of `runs`; shape (messages + 1,).
    """

    columns: NDArray[np.uint16]
    starts: Ints
    runs: NDArray[np.uint32]
    run_starts: Ints

    @classmethod
    def from_pieces(cls, pieces: Sequence[LogPiece]) -> MessageWords:
        """Returns the words of messages, whatever conversations they are from."""
        parts = [_words_of_part(part) for part in _parts(pieces)]
        if not parts:
            return cls(
                np.empty(0, np.uint16),
                np.zeros(1, np.int64),
                np.empty(0, np.uint32),
                np.zeros(1, np.int64),
            )
        return cls.concatenate(parts)

    @classmethod
    def concatenate(cls, parts: Sequence[MessageWords]) -> MessageWords:
        """Returns the words of all messages of several parts, at least one, in their order."""
        return cls(
            np.concatenate([part.columns for part in parts]),
            _joined_starts([part.starts for part in parts]),
            np.concatenate([part.runs for part in parts]),
            _joined_starts([part.run_starts for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1


def _joined_starts(starts: Sequence[Ints]) -> Ints:
    """Returns where the parts of several sequences begin in all of them together."""
    sizes = np.concatenate([np.diff(starts_of_part) for starts_of_part in starts])
    return np.concatenate([[0], np.cumsum(sizes)])


def _parts(pieces: Sequence[LogPiece]) -> Iterator[list[tuple[str, Role]]]:
    """Yields the text and the speaker of each message, in parts of at most `MAX_CHARACTERS_PER_PASS`
    characters, or of one longer message."""
    part: list[tuple[str, Role]] = []
    characters = 0
    for piece in pieces:
        text = text_to_read(piece)
        if part and characters + len(text) > MAX_CHARACTERS_PER_PASS:
            yield part
            part, characters = [], 0
        part.append((text, piece.role))
        characters += len(text)
    if part:
        yield part


def _words_of_part(part: Sequence[tuple[str, Role]]) -> MessageWords:
    """Returns the words of a few messages, given the text and the speaker of each."""
    words = split_words([text for text, _ in part])
    single, pair = word_columns(words, [role for _, role in part])
    in_one_message = words.message[1:] == words.message[:-1]
    # One integer for a message and a column, so that one sort brings the columns of each message together.
    keys = np.concatenate(
        [words.message << BITS | single, (words.message[1:] << BITS | pair)[in_one_message]]
    )
    keys.sort()  # `np.unique` takes ten times as long
    keys = keys[np.append(True, keys[1:] != keys[:-1])]
    numbers = np.arange(len(part) + 1)
    hashes, message_of_run = words.runs_of_three()
    return MessageWords(
        (keys & (COLUMNS - 1)).astype(np.uint16),
        np.searchsorted(keys, numbers << BITS),
        hashes,
        np.searchsorted(message_of_run, numbers),
    )


@dataclass(frozen=True, slots=True)
class BoundaryWords:
    """The words at boundaries.

    Attributes:
        words: The words of the messages, of which several boundaries may read the same.
        messages: Index in `words` of the message at each distance, shape (boundaries, `DISTANCES`); -1 where there is
            none.
    """

    words: MessageWords
    messages: Ints

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, rows: Bools | Ints) -> BoundaryWords:
        """Returns the words at some of the boundaries."""
        return BoundaryWords(self.words, self.messages[rows])

    def matrix(self) -> csr_array:
        """Returns a one for each word that is there, shape (boundaries, `DISTANCES * COLUMNS`)."""
        from scipy.sparse import csr_array

        indices, sizes = self._column_indices(self.messages.ravel())
        offset = np.tile(np.arange(DISTANCES) * COLUMNS, len(self))
        columns = self.words.columns[indices] + np.repeat(offset, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes.reshape(-1, DISTANCES).sum(axis=1))])
        ones = np.ones(len(columns))
        return csr_array(
            (ones, columns.astype(np.int32), starts.astype(np.int32)),
            (len(self), DISTANCES * COLUMNS),
        )

    def at_distance(self, distance: int) -> BoundaryWords:
        """Returns the words at one distance, as if the messages at the others were not there."""
        is_at_distance = np.arange(DISTANCES) == distance
        return BoundaryWords(self.words, np.where(is_at_distance, self.messages, -1))

    def sums(self, weights: Floats, absent: Floats) -> Floats:
        """Returns the sum of the weights of the words at each boundary, shape (boundaries,).

        Args:
            weights: Weight of each column at each distance, shape (`DISTANCES * COLUMNS`,).
            absent: What is added where there is no message at a distance, shape (`DISTANCES`,).
        """
        total = (self.messages < 0) @ absent
        for distance in range(DISTANCES):
            # No two boundaries have the same message at the same distance, so no message is summed twice.
            indices, sizes = self._column_indices(self.messages[:, distance])
            values = weights[distance * COLUMNS :][self.words.columns[indices]]
            running = np.concatenate([[0.0], np.cumsum(values)])
            ends = np.cumsum(sizes)
            total += running[ends] - running[ends - sizes]
        return np.asarray(total)

    def _column_indices(self, messages: Ints) -> tuple[Ints, Ints]:
        """Returns the indices in `words.columns` of the columns of each message, one message after another, and the
        number of columns of each message; 0 where its index is -1.

        Of two messages with the columns 5 to 7 and 2 to 3 these are [5, 6, 7, 2, 3] and [3, 2].
        """
        starts = self.words.starts
        sizes = np.where(messages < 0, 0, starts[messages + 1] - starts[messages])
        shift = starts[messages] - (np.cumsum(sizes) - sizes)
        return np.repeat(shift, sizes) + np.arange(sizes.sum()), sizes
