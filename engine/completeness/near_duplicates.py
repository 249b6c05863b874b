"""Groups of conversations that are nearly equal, by the words that they share.

A conversation and a copy of it with a few changed words must not be on both sides of a cross-validation: the regression
would have seen what it is tested on. Two conversations are nearly equal if they share two fifths of their shingles,
which are runs of three words (Broder 1997, "On the resemblance and containment of documents"). Shingles of many
conversations (the system prompt of an agent, a greeting) say nothing about two of them and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from engine.conversation import LogPiece

Ints = NDArray[np.int64]

WORDS = 3
"""Words of a shingle."""

SHARED = 0.4
"""Least share of the shingles of either that both have (Jaccard index) for two conversations to be nearly equal."""

MANY = 10
MANY_SHARE = 0.1
"""A shingle of more than `MANY` conversations, and of more than this share of all, is left out."""

ROWS = 1_000
"""Conversations that are compared with all at once."""


def shingles(text: str) -> Ints:
    """Checksums of the runs of three words in a text, each once, ascending; case and punctuation do not count."""
    words = re.findall(r"\w+", text.lower())
    runs = {" ".join(words[at : at + WORDS]) for at in range(max(len(words) - WORDS + 1, 0))}
    return np.array(sorted({crc32(run.encode()) for run in runs}), dtype=np.int64)


def log_shingles(pieces: Iterable[LogPiece]) -> Ints:
    """The `shingles` of a whole log."""
    return shingles(" ".join(piece.text for piece in pieces))


def groups(found: Sequence[Ints]) -> Ints:
    """The number of a group for each conversation; nearly equal ones, directly or through others, share it.

    Args:
        found: The `shingles` of each conversation.

    Returns:
        Numbers from 0 in the order of first members, shape (conversations,).
    """
    # imported where they are used: scipy's graphs take a quarter of a second, and stages are imported at every start
    from scipy.sparse import csr_array, vstack
    from scipy.sparse.csgraph import connected_components

    count = len(found)
    every = np.concatenate([*found, np.empty(0, dtype=np.int64)])
    owner = np.repeat(np.arange(count), [len(each) for each in found])
    _, column, spread = np.unique(every, return_inverse=True, return_counts=True)
    few = spread[column] <= max(MANY, MANY_SHARE * count)
    owner, column = owner[few], column[few]
    ones = np.ones(len(owner), dtype=np.int32)
    has = csr_array((ones, (owner, column)), shape=(count, len(spread)))
    size = np.bincount(owner, minlength=count)
    links = []
    for first in range(0, count, ROWS):
        both = (has[first : first + ROWS] @ has.T).tocoo()
        either = size[both.row + first] + size[both.col] - both.data
        near = both.data >= SHARED * either
        links.append(
            csr_array(
                (both.data[near], (both.row[near], both.col[near])), shape=(both.shape[0], count)
            )
        )
    if not links:
        return np.empty(0, dtype=np.int64)
    _, number = connected_components(vstack(links), directed=False)
    _, start, number = np.unique(number, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(start))[number], dtype=np.int64)
