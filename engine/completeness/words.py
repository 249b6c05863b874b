"""Words of messages as numbers, which the probe on words reads at a boundary.

A *boundary* is a message after which a conversation could end. Its features are the words of that message and of the
two before it, each word and each pair of neighbors once. A word counts apart for each speaker and each *distance*,
which is 0 for the message at the boundary and 1 and 2 for those before it. Words are hashed to `COLUMNS` numbers, so
there is no vocabulary to learn (Weinberger et al. 2009, "Feature hashing for large scale multitask learning", ICML).
Of a long message both ends are read. The text is that which models read, without what gives an ending away. Runs of
three words, which near copies of a conversation share, come from the same pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints, part_starts
from engine.base.conversation import LogPiece, Role

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Hashes = NDArray[np.uint64]
"""Hashes of words, from which their columns are computed."""

BITS = 16
"""Base-2 logarithm of `COLUMNS`."""

COLUMNS = 1 << BITS
"""Number of different values that words and pairs are hashed to; fits `uint16`. docs/lab/words.md compares numbers."""

DISTANCES = 3
"""Number of messages that are read at a boundary: the message there and the ones before it."""

MAX_CHARACTERS_PER_PASS = 1 << 20
"""Largest number of characters of several messages in one pass, which needs about fifty times their bytes."""

END_LENGTH = 600
"""Number of characters that are read at the beginning and at the end of a message that is longer than both."""

_LONE_CHARACTER = re.compile(
    "(["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uac00-\ud7ff\uff00-\uffef"
    "\u00a0-\u00bf\u2010-\u206f\u2190-\u2bff\u2e00-\u2e7f\U0001f000-\U0001faff"
    "])"
)
"""Matches a character that is a word of its own: of a script that puts no blanks between words, so that pairs are
n-grams of two characters; and quotes, dashes, symbols and emoji beyond ASCII."""

_CALL = re.compile(r'\{"name": ("[^"]+"), "args"')
"""Matches the name of a tool in a call as `engine.base.conversation.render_tool_calls` writes it."""

_BLANK, _LETTER, _SIGN = range(3)
"""Classes of bytes: a run of letters is one word, a sign is a word alone, and blanks are no words."""

_BEGIN, _END = np.uint64(11), np.uint64(13)
"""Words that stand before the first and after the last one of each message."""

_BASE = 0x9E3779B97F4A7C15
_MIX = np.uint64(0x94D049BB133111EB)
_SPREAD = np.uint64(0xBF58476D1CE4E5B9)
"""Odd numbers without a pattern in their bits, with which hashing multiplies: bytes by powers of the first, hashes by
the others. An odd number has an inverse modulo 2^64."""


def _byte_classes() -> NDArray[np.uint8]:
    """Returns the class of each byte of UTF-8, shape (256,); what is not ASCII is a letter."""
    classes = np.full(256, _LETTER, dtype=np.uint8)
    for byte in range(128):
        character = chr(byte)
        if character.isspace() or not character.isprintable():
            classes[byte] = _BLANK
        elif not character.isalnum() and character != "_":
            classes[byte] = _SIGN
    return classes


_CLASSES = _byte_classes()
"""The class of each byte."""


class Words(NamedTuple):
    """The words of some messages, one after another, each message between `_BEGIN` and `_END`.

    Attributes:
        hashes: A number for each word, equal for equal words, shape (words,).
        message: Index of the message of each word, shape (words,).
        text: The bytes that were read, all messages in one.
        first_byte, last_byte: Index in `text` of the first and of the last byte of each word, shape (words,); -1 for
            `_BEGIN` and `_END`.
    """

    hashes: Hashes
    message: Ints
    text: bytes
    first_byte: Ints
    last_byte: Ints

    def runs_of_three(self) -> tuple[NDArray[np.uint32], Ints]:
        """Returns the hash of each three words in a row of one message, and the index of the message, both of shape
        (runs,).

        `_BEGIN`, `_END` and signs are left out, so that the words on both sides of a sign are neighbors.
        """
        data = np.frombuffer(self.text, dtype=np.uint8)
        word_indices = np.flatnonzero(
            (self.first_byte >= 0) & (_CLASSES[data[self.first_byte]] == _LETTER)
        )
        hashes, message = self.hashes[word_indices], self.message[word_indices]
        run = (hashes[:-2] * np.uint64(9) + hashes[1:-1] * np.uint64(3) + hashes[2:]) * _MIX
        in_one_message = message[2:] == message[:-2]
        return (run[in_one_message] >> np.uint64(32)).astype(np.uint32), message[2:][in_one_message]


@cache
def _powers(length: int) -> tuple[Hashes, Hashes]:
    """Returns the powers 0 to `length` - 1 of `_BASE` modulo 2^64, and those of its inverse; both shape (length,)."""
    factors = np.full((2, length), _BASE, dtype=np.uint64)
    factors[1] = pow(_BASE, -1, 1 << 64)
    factors[:, 0] = 1
    power, inverse = np.cumprod(factors, axis=1)
    return power, inverse


def text_to_read(piece: LogPiece) -> str:
    """Returns what is read of a message: its ends in small letters, and before them the tools that it calls."""
    text = piece.body
    # A short message without a call is read as it is: this saves most messages the call of `_read_parts`.
    if len(text) > 2 * END_LENGTH or piece.kind == "action":
        text = " ".join(text for text, _ in _read_parts(piece))
    text = text.lower()
    return text if text.isascii() else _LONE_CHARACTER.sub(r" \1 ", text)


def source_indices(piece: LogPiece) -> Ints:
    """Returns the index in `piece.body` of the character that each byte of `text_to_read` is from, in UTF-8. Both pass
    over the same parts, and have one length.

    Returns:
        Shape (bytes,); -1 for the names of tools that stand before the body, and for the blanks between parts.
    """
    source_of_byte: list[int] = []
    for text, places in _read_parts(piece):
        if source_of_byte:
            source_of_byte.append(-1)  # the blank between two parts
        for character, place in zip(text, places, strict=True):
            for small in character.lower():
                text_of_character = f" {small} " if _LONE_CHARACTER.match(small) else small
                source_of_byte += [place] * len(text_of_character.encode("utf-8", "replace"))
    return np.array(source_of_byte, dtype=np.int64)


def _read_parts(piece: LogPiece) -> list[tuple[str, Sequence[int]]]:
    """Returns the texts that are read of a message, each with the index in `piece.body` of its characters."""
    body = piece.body
    parts: list[tuple[str, Sequence[int]]] = [(body, range(len(body)))]
    if len(body) > 2 * END_LENGTH:
        parts = [
            (body[:END_LENGTH], range(END_LENGTH)),
            (body[-END_LENGTH:], range(len(body) - END_LENGTH, len(body))),
        ]
    calls = " ".join(_CALL.findall(body)) if piece.kind == "action" else ""
    return [(calls, [-1] * len(calls)), *parts] if calls else parts


def split_words(texts: Sequence[str]) -> Words:
    """Returns the words of messages.

    Args:
        texts: At least one, as `text_to_read` returns them.
    """
    messages = [text.encode("utf-8", "replace") for text in texts]
    joined = b"\n".join(messages) + b"\n"
    data = np.frombuffer(joined, dtype=np.uint8)
    first, last = _word_bounds(data)
    hashes = _word_hashes(data, first, last)
    # Without the marks: the message of each word, shape (words,); with them: the number of words and the index of the
    # last one of each message, shape (messages,).
    message_of_word = np.searchsorted(
        np.cumsum([len(message) + 1 for message in messages]), first, side="right"
    )
    counts = np.bincount(message_of_word, minlength=len(messages)) + 2
    end_marks = np.cumsum(counts) - 1
    # A word moves behind the marks of the messages before its own and behind the first mark of its own.
    index_with_marks = np.arange(len(first)) + 2 * message_of_word + 1
    total = int(counts.sum())
    all_hashes = np.full(total, _END)
    all_first, all_last = np.full((2, total), -1, dtype=np.int64)
    all_hashes[end_marks - counts + 1] = _BEGIN
    all_hashes[index_with_marks] = hashes
    all_first[index_with_marks], all_last[index_with_marks] = first, last
    return Words(
        all_hashes, np.repeat(np.arange(len(messages)), counts), joined, all_first, all_last
    )


def _word_bounds(data: NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Returns the index of the first and of the last byte of each word, each of shape (words,)."""
    classes = np.pad(_CLASSES[data], 1)  # blanks on both sides
    here, before, after = classes[1:-1], classes[:-2], classes[2:]
    first = np.flatnonzero((here == _SIGN) | ((here == _LETTER) & (before != _LETTER)))
    last = np.flatnonzero((here == _SIGN) | ((here == _LETTER) & (after != _LETTER)))
    return first, last


def _word_hashes(data: NDArray[np.uint8], first: Ints, last: Ints) -> Hashes:
    """Returns the hash of each word, shape (words,): the same for equal words, wherever they stand.

    It is the sum of (byte i + 1) * P^(i - first) over the bytes of the word, modulo 2^64 with P = `_BASE`, with its
    bits mixed. The sum is a difference of two running sums of (byte i + 1) * P^i, times P^-first.
    """
    power, inverse = (powers[: len(data)] for powers in _powers(1 << len(data).bit_length()))
    running = np.cumsum((data.astype(np.uint64) + np.uint64(1)) * power)
    before_word = np.where(first > 0, running[first - 1], np.uint64(0))
    hashes = (running[last] - before_word) * inverse[first]
    hashes ^= hashes >> np.uint64(29)  # any shift that brings high bits to low ones would do
    hashes *= _SPREAD
    hashes ^= hashes >> np.uint64(32)
    return hashes


def word_columns(words: Words, roles: Sequence[Role]) -> tuple[Ints, Ints]:
    """Returns the column of each word, shape (words,), and that of each word with the one after it, shape (words - 1,).

    A pair over the border of two messages has a column too, which means nothing.

    Args:
        words: Words of some messages.
        roles: Who speaks in each message, shape (messages,).
    """
    # A salt for each speaker, so that a word counts apart for each. Other odd factors and shifts would do as well.
    salt = np.array([crc32(role.encode()) * _BASE % (1 << 64) for role in roles], dtype=np.uint64)
    salts = salt[words.message]
    shift = np.uint64(64 - BITS)
    single = ((words.hashes ^ salts) * _MIX) >> shift
    pairs = words.hashes[:-1] * np.uint64(3) + np.uint64(5) * (words.hashes[1:] >> np.uint64(1))
    pair = ((pairs ^ salts[1:]) * _MIX) >> shift
    return single.astype(np.int64), pair.astype(np.int64)


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
        return cls.concatenate([_words_of_part(part) for part in _parts(pieces)])

    @classmethod
    def concatenate(cls, parts: Sequence[MessageWords]) -> MessageWords:
        """Returns the words of all messages of several parts, in their order."""
        return cls(
            np.concatenate([np.empty(0, np.uint16), *(part.columns for part in parts)]),
            _joined_starts([part.starts for part in parts]),
            np.concatenate([np.empty(0, np.uint32), *(part.runs for part in parts)]),
            _joined_starts([part.run_starts for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1


def _joined_starts(starts: Sequence[Ints]) -> Ints:
    """Returns where the parts of several sequences begin in all of them together."""
    return part_starts(np.concatenate([np.empty(0, np.int64), *map(np.diff, starts)]))


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
        starts = part_starts(sizes.reshape(-1, DISTANCES).sum(axis=1))
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

        Of two messages whose columns stand at the indices 5 to 7 and 2 to 3 these are [5, 6, 7, 2, 3] and [3, 2].
        """
        starts = self.words.starts
        sizes = np.where(messages < 0, 0, starts[messages + 1] - starts[messages])
        shift = starts[messages] - (np.cumsum(sizes) - sizes)
        return np.repeat(shift, sizes) + np.arange(sizes.sum()), sizes
