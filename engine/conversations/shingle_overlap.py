"""Groups conversations that are nearly equal, by the words that they share.

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

from engine.base.arrays import Ints, part_starts
from engine.base.conversation import LogPiece

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Shingles = NDArray[np.uint32]
"""The shingles of a conversation, as checksums in ascending order; see `shingles`."""

WORDS_PER_SHINGLE = 3

MIN_SHARED = 0.4
"""Two conversations are nearly equal if both have at least this share of the shingles of either (Jaccard index)."""

MANY_CONVERSATIONS = 10
"""Number of conversations up to which a shingle is never left out."""

MANY_SHARE = 0.1
"""A shingle is left out if more than this share of all conversations, and more than `MANY_CONVERSATIONS`, have it."""

_ROUNDING = 1e-9
"""What a product with `MIN_SHARED` may be off by rounding, so that a whole number is not missed."""

MAX_PAIRS_PER_BATCH = 2_000_000
"""Number of common shingles of two conversations that are counted at once, which bounds the memory to about a hundred
megabytes."""

MAX_COMPARED_PAIRS = 100_000
"""Number of pairs of conversations whose shingles are compared at once, which bounds the memory."""


def shingles(text: str) -> Shingles:
    """Returns the checksums of the runs of three words in a text, each once, ascending.

    Case and punctuation do not count.
    """
    words = re.findall(r"\w+", text.lower())
    runs = {
        " ".join(words[start : start + WORDS_PER_SHINGLE])
        for start in range(max(len(words) - WORDS_PER_SHINGLE + 1, 0))
    }
    return np.array(sorted({crc32(run.encode()) for run in runs}), dtype=np.uint32)


def log_shingles(pieces: Iterable[LogPiece]) -> Shingles:
    """Returns the `shingles` of a whole log."""
    return shingles(" ".join(piece.text for piece in pieces))


def groups(shingle_sets: Sequence[Shingles]) -> Ints:
    """Returns the number of a group for each conversation; nearly equal ones, directly or through others, share it.

    Args:
        shingle_sets: The `shingles` of each conversation.

    Returns:
        Numbers from 0 in the order of first members, shape (conversations,).
    """
    # imported where they are used: scipy's graphs take a quarter of a second, and stages are imported at every start
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count = len(shingle_sets)
    table, shingle_count, document_frequency = _shingle_table(shingle_sets)
    # of shingles that no other conversation has
    alone_count = shingle_count - np.diff(table.indptr)
    rare_count = _count_rare(shingle_count)
    rare, row_lengths = _find_rare(table, alone_count, rare_count, document_frequency)
    rare_table = csr_array(
        (table.data[rare], table.indices[rare], part_starts(row_lengths)), table.shape
    )
    first, second = _near_pairs(table, rare_table, shingle_count, shingle_count - rare_count)
    # groups are the connected components, numbered by their first member
    links = csr_array((np.ones(len(first), dtype=np.int32), (first, second)), (count, count))
    _, component = connected_components(links, directed=False)
    _, first_member, component = np.unique(component, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first_member))[component], dtype=np.int64)


def _shingle_table(shingle_sets: Sequence[Shingles]) -> tuple[csr_array, Ints, Ints]:
    """Returns which conversation has which shared shingle.

    A shingle is *shared* if at least two conversations have it. Most are in one conversation only; these are counted,
    but are not in the table. Those that very many have (`MANY_CONVERSATIONS`, `MANY_SHARE`) are left out.

    Returns:
        table: A row of ones for each conversation, with a column for each shared shingle; the columns of a row ascend,
            and those of shingles that are left out are empty.
        shingle_count: Number of shingles of each conversation without those that are left out, shape (conversations,).
        document_frequency: Number of conversations that have each shared shingle, shape (shared shingles,).
    """
    from scipy.sparse import csr_array

    count = len(shingle_sets)
    all_shingles = np.concatenate([*shingle_sets, np.empty(0, dtype=np.uint32)])
    all_shingles.sort()
    shared_shingles = np.unique(all_shingles[1:][all_shingles[1:] == all_shingles[:-1]])
    document_frequency = np.searchsorted(all_shingles, shared_shingles, "right") - np.searchsorted(
        all_shingles, shared_shingles
    )
    del all_shingles
    is_left_out = document_frequency > max(MANY_CONVERSATIONS, MANY_SHARE * count)
    columns = [np.empty(0, dtype=np.int32)]
    row_lengths, shingle_counts = [], []
    for shingle_set in shingle_sets:
        shared = np.empty(0, np.int64)  # columns of its shared shingles
        if len(shared_shingles):
            # searchsorted gives a place for any value, also for one that is not there
            places = np.searchsorted(shared_shingles, shingle_set)
            places[places == len(shared_shingles)] = 0
            shared = places[shared_shingles[places] == shingle_set]
        counted = shared[~is_left_out[shared]]
        columns.append(counted.astype(np.int32))
        row_lengths.append(len(counted))
        shingle_counts.append(len(shingle_set) - len(shared) + len(counted))
    indices = np.concatenate(columns)
    row_starts = part_starts(np.array(row_lengths, dtype=np.int64))
    table = csr_array(
        (np.ones(len(indices), np.int32), indices, row_starts), (count, len(shared_shingles))
    )
    return table, np.array(shingle_counts, dtype=np.int64), document_frequency


def _count_rare(shingle_count: Ints) -> Ints:
    """Returns how many shingles of each conversation are rare, given how many it has; see `_find_rare`."""
    two_fifths = np.ceil(MIN_SHARED * shingle_count - _ROUNDING).astype(np.int64)
    return np.asarray(np.minimum(shingle_count, shingle_count - two_fifths + 1))


def _find_rare(
    table: csr_array, alone_count: Ints, rare_count: Ints, document_frequency: Ints
) -> tuple[Ints, Ints]:
    """Returns where in the table the rare shingles of each conversation are, row by row.

    Rare are its rarest three fifths, and one more (7 of 10); those that it has alone are among these, but not in the
    table. Two conversations that share two fifths of their shingles share one of the rare ones, whatever the others are
    (prefix filtering, Bayardo et al. 2007, "Scaling up all pairs similarity search"). So only conversations that share
    a rare shingle are compared, and the time does not grow with the square of their number.

    Args:
        table: Which conversation has which shared shingle, the shingles of each ascending.
        alone_count: Number of shingles that each conversation has alone; they are its rarest.
        rare_count: Number of rare shingles of each conversation, those that it has alone included.
        document_frequency: Number of conversations that have each shared shingle.

    Returns:
        Positions in the data of `table`, and how many of them each conversation has.
    """
    row_lengths = np.diff(table.indptr)
    rare_lengths = np.clip(rare_count - alone_count, 0, row_lengths)
    owner = np.repeat(np.arange(len(row_lengths), dtype=np.int32), row_lengths)
    # a stable order of all shingles: equally rare ones by their checksums, in which they are given
    order = np.lexsort((document_frequency[table.indices].astype(np.int32), owner))
    index_in_row = np.arange(len(owner)) - table.indptr[owner]
    return np.asarray(order[index_in_row < rare_lengths[owner]]), rare_lengths


def _near_pairs(
    table: csr_array, rare_table: csr_array, shingle_count: Ints, not_rare_count: Ints
) -> tuple[Ints, Ints]:
    """Returns the first and the second conversation of each pair that is nearly equal, both of shape (pairs,).

    Args:
        table: Which conversation has which shared shingle.
        rare_table: The rare ones of these.
        shingle_count: Number of shingles of each conversation.
        not_rare_count: Number of shingles of each conversation that are not rare.
    """
    who_has = rare_table.T.tocsr()
    firsts, seconds = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for begin, end in _row_ranges(rare_table):
        pairs = (rare_table[begin:end] @ who_has).tocoo()
        first, second = pairs.row.astype(np.int64) + begin, pairs.col.astype(np.int64)
        # beside rare ones they share at most the others of the one whose rare shingles end later in the order
        # (Bayardo); which one that is is not looked up, as the greater of both numbers is a bound
        max_in_common = pairs.data + np.maximum(not_rare_count[first], not_rare_count[second])
        min_in_common = _min_in_common(shingle_count[first] + shingle_count[second])
        possible = (second > first) & (max_in_common >= min_in_common)
        first, second = first[possible], second[possible]
        for start in range(0, len(first), MAX_COMPARED_PAIRS):
            part = slice(start, start + MAX_COMPARED_PAIRS)
            product = table[first[part]].multiply(table[second[part]])
            in_common = np.asarray(product.sum(axis=1)).ravel()
            total = shingle_count[first[part]] + shingle_count[second[part]]
            is_near = in_common >= MIN_SHARED * (total - in_common)
            firsts.append(first[part][is_near])
            seconds.append(second[part][is_near])
    return np.concatenate(firsts), np.concatenate(seconds)


def _row_ranges(rare_table: csr_array) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows whose product with all rows takes about `MAX_PAIRS_PER_BATCH` multiplications.

    Each range has at least one row.
    """
    pairs = np.cumsum(rare_table @ rare_table.sum(axis=0))
    begin = pairs_before = 0
    while begin < len(pairs):
        end = int(np.searchsorted(pairs, pairs_before + MAX_PAIRS_PER_BATCH, side="right"))
        end = max(begin + 1, end)
        yield begin, end
        begin, pairs_before = end, pairs[end - 1]


def _min_in_common(total_size: Ints) -> NDArray[np.floating[Any]]:
    """Returns how many common shingles make two conversations nearly equal, given how many they have together."""
    return MIN_SHARED / (1 + MIN_SHARED) * total_size - _ROUNDING
