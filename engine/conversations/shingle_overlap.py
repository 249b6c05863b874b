"""Groups of conversations that are nearly equal, by the words that they share.

A conversation and a copy of it with a few changed words must not be on both sides of a cross-validation: the regression
would have seen what it is tested on. Two conversations are nearly equal if they share two fifths of their shingles,
which are runs of three words (Broder 1997, "On the resemblance and containment of documents"). Shingles of many
conversations (the system prompt of an agent, a greeting) say nothing about two of them and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from engine.base.conversation import LogPiece

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Ints = NDArray[np.int64]
Shingles = NDArray[np.uint32]

WORDS = 3
"""Words of a shingle."""

SHARED = 0.4
"""Least share of the shingles of either that both have (Jaccard index) for two conversations to be nearly equal."""

MANY = 10
MANY_SHARE = 0.1
"""A shingle of more than `MANY` conversations, and of more than this share of all, is left out."""

MAX_PAIRS_PER_BATCH = 2_000_000
"""Common shingles of two conversations that are counted at once; they take up to a hundred megabytes."""

PAIRS = 100_000
"""Pairs of conversations whose shingles are counted at once."""


def shingles(text: str) -> Shingles:
    """Checksums of the runs of three words in a text, each once, ascending; case and punctuation do not count."""
    words = re.findall(r"\w+", text.lower())
    runs = {" ".join(words[at : at + WORDS]) for at in range(max(len(words) - WORDS + 1, 0))}
    return np.array(sorted({crc32(run.encode()) for run in runs}), dtype=np.uint32)


def log_shingles(pieces: Iterable[LogPiece]) -> Shingles:
    """The `shingles` of a whole log."""
    return shingles(" ".join(piece.text for piece in pieces))


def groups(found: Sequence[Shingles]) -> Ints:
    """The number of a group for each conversation; nearly equal ones, directly or through others, share it.

    Args:
        found: The `shingles` of each conversation.

    Returns:
        Numbers from 0 in the order of first members, shape (conversations,).
    """
    # imported where they are used: scipy's graphs take a quarter of a second, and stages are imported at every start
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count = len(found)
    table, size, document_frequency = _shared(found)
    rare_count = _rare_count(size)
    rare, rare_size = _rarest(table, size - np.diff(table.indptr), rare_count, document_frequency)
    rare_table = csr_array((table.data[rare], table.indices[rare], _starts(rare_size)), table.shape)
    frequent = size - rare_count
    who_has = rare_table.T.tocsr()
    links = []
    for begin, end in _parts(rare_table):
        pairs = (rare_table[begin:end] @ who_has).tocoo()
        one, other = pairs.row.astype(np.int64) + begin, pairs.col.astype(np.int64)
        # What they share beyond their rare shingles are frequent ones of one of the two.
        most = pairs.data + np.maximum(frequent[one], frequent[other])
        possible = (other > one) & (most >= _needed(size[one] + size[other]))
        one, other = one[possible], other[possible]
        for at in range(0, len(one), PAIRS):
            left, right = one[at : at + PAIRS], other[at : at + PAIRS]
            both = np.asarray(table[left].multiply(table[right]).sum(axis=1)).ravel()
            near = both >= SHARED * (size[left] + size[right] - both)
            links.append((left[near], right[near]))
    ends = [
        np.concatenate([*side, np.empty(0, dtype=np.int64)]) for side in zip(*links, strict=True)
    ]
    left, right = ends or (np.empty(0, dtype=np.int64),) * 2
    _, number = connected_components(_table(left, right, (count, count)), directed=False)
    _, start, number = np.unique(number, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(start))[number], dtype=np.int64)


def _shared(found: Sequence[Shingles]) -> tuple[csr_array, Ints, Ints]:
    """The shingles that at least two conversations have, without those of very many (`MANY`).

    Most shingles are in one conversation only; these are counted, but not in the table.

    Returns:
        table: Which conversation has which shared shingle, the columns of each row ascending.
        size: Number of shingles of each conversation, those that it has alone included.
        document_frequency: Number of conversations that have each shared shingle.
    """
    from scipy.sparse import csr_array

    count = len(found)
    every = np.concatenate([*found, np.empty(0, dtype=np.uint32)])
    every.sort()
    known = np.unique(every[1:][every[1:] == every[:-1]])
    document_frequency = np.searchsorted(every, known, "right") - np.searchsorted(every, known)
    del every
    frequent = document_frequency > max(MANY, MANY_SHARE * count)
    column, row_size, size = [np.empty(0, dtype=np.int32)], [], []
    for one in found:
        place = np.searchsorted(known, one)
        place[place == len(known)] = 0
        place = place[known[place] == one] if len(known) else place[:0]
        shared = place[~frequent[place]]
        column.append(shared.astype(np.int32))
        row_size.append(len(shared))
        size.append(len(one) - len(place) + len(shared))
    columns = np.concatenate(column)
    return (
        csr_array(
            (np.ones(len(columns), np.int32), columns, _starts(np.array(row_size, dtype=np.int64))),
            (count, len(known)),
        ),
        np.array(size, dtype=np.int64),
        document_frequency,
    )


def _starts(sizes: Ints) -> Ints:
    """Where each of parts of these sizes starts, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _table(row: Ints, column: Ints, shape: tuple[int, int]) -> csr_array:
    """A sparse matrix of ones."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(row), dtype=np.int32), (row, column)), shape=shape)


def _parts(rare_table: csr_array) -> Iterator[tuple[int, int]]:
    """Ranges of rows whose product with all rows takes about `MAX_PAIRS_PER_BATCH` multiplications, at least one row
    each."""
    pairs = np.cumsum(rare_table @ rare_table.sum(axis=0))
    begin = done = 0
    while begin < len(pairs):
        end = max(begin + 1, int(np.searchsorted(pairs, done + MAX_PAIRS_PER_BATCH, side="right")))
        yield begin, end
        begin, done = end, pairs[end - 1]


def _rarest(
    table: csr_array, alone: Ints, rare_count: Ints, document_frequency: Ints
) -> tuple[Ints, Ints]:
    """Places of the rarest three fifths of the shingles of each conversation, and one more, row by row; those that it
    has alone are among these, but have no place.

    Two conversations that share two fifths of their shingles share one of these, whatever the others are (prefix
    filtering, Bayardo et al. 2007, "Scaling up all pairs similarity search"). So only who shares a rare shingle is
    compared, and the time does not grow with the square of the conversations.

    Args:
        table: Which conversation has which shared shingle, the shingles of each ascending.
        alone: Number of shingles that each conversation has alone; they are its rarest.
        rare_count: Number of rare shingles of each conversation, those that it has alone included.
        document_frequency: Number of conversations that have each shared shingle.

    Returns:
        The places in `table`, and how many of them each conversation has.
    """
    size = np.diff(table.indptr)
    wanted = np.clip(rare_count - alone, 0, size)
    owner = np.repeat(np.arange(len(size), dtype=np.int32), size)
    # a stable order of all shingles: equally rare ones by their checksums, in which they are given
    order = np.lexsort((document_frequency[table.indices].astype(np.int32), owner))
    nth = np.arange(len(owner)) - table.indptr[owner]
    return np.asarray(order[nth < wanted[owner]]), wanted


def _rare_count(size: Ints) -> Ints:
    """How many of so many shingles are its rarest; never more than there are."""
    return np.asarray(np.minimum(size, size - np.ceil(SHARED * size - 1e-9).astype(np.int64) + 1))


def _needed(both: Ints) -> NDArray[np.floating[Any]]:
    """The least number of common shingles of two nearly equal conversations that have so many together."""
    return SHARED / (1 + SHARED) * both - 1e-9
