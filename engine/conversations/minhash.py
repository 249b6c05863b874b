"""Near duplicates among many conversations, by MinHash signatures (Broder 1997, "On the resemblance and containment of
documents").

A *shingle* is a run of words, here as its checksum. The *signature* of a conversation is `HASHES_PER_SIGNATURE` numbers
that are computed from its set of shingles, so that the share of equal numbers of two signatures estimates the share of
common shingles. A *band* is `HASHES_PER_BAND` consecutive numbers of a signature.

The exact comparison of `engine.conversations.shingle_overlap` is for the thousand conversations that a probe is fitted
to; a signature of 256 bytes for each conversation allows a million.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Ints

Signatures = NDArray[np.uint32]
"""Signatures, a row each: shape (conversations, `HASHES_PER_SIGNATURE`)."""

HASHES_PER_SIGNATURE = 64
"""Numbers in a signature; with 64 the standard error of an estimated similarity of .8 is .05."""
HASHES_PER_BAND = 4
"""Numbers in a band. Two conversations are compared if they have a band in common, as 99.98% of the pairs with a
similarity of .8 have."""
MIN_SIMILARITY = 0.8
"""Least estimated share of common shingles (Jaccard index) for two conversations to be near duplicates."""
MIN_SHINGLES = 20
"""Number of shingles below which a conversation has no signature: greetings are alike by chance."""


PAIRS_PER_CHUNK = 10_000
"""Number of pairs that are compared at a time, about; it bounds the memory."""


def signature(shingles: NDArray[np.uint32]) -> bytes:
    """Returns the signature of a set of shingles, shape (shingles,), as it is stored; b"" for fewer than
    `MIN_SHINGLES`."""
    if len(shingles) < MIN_SHINGLES:
        return b""
    from datasketch import MinHash  # a second to import: it brings parts of scipy

    # a shingle is its checksum already, so `hashfunc` keeps it
    minhash = MinHash(num_perm=HASHES_PER_SIGNATURE, seed=1, hashfunc=int, scheme="affine32")
    minhash.update_batch(shingles.tolist())
    return np.asarray(minhash.hashvalues).astype("<u4").tobytes()


def near_duplicate_groups(ids: Sequence[int], signatures: bytes) -> list[list[int]]:
    """Returns the groups of near duplicates, each in ascending order of ids, sorted by their first id.

    Conversations without a near duplicate are in no group. Each conversation is compared with the first one that has
    the same band, for each of its bands; whoever is similar to a member of a group joins it.

    Args:
        ids: Ids of conversations that have a signature, ascending.
        signatures: Their signatures one after another; none may be empty.
    """
    # imported where they are used, as in `engine.conversations.shingle_overlap`
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(ids)
    if not count:
        return []
    table: Signatures = np.frombuffer(signatures, dtype="<u4").reshape(count, HASHES_PER_SIGNATURE)
    pairs: list[tuple[Ints, Ints]] = []  # of positions of near duplicates, the later one first
    for start in range(0, HASHES_PER_SIGNATURE, HASHES_PER_BAND):
        # each band as one opaque value of 16 bytes, so that `unique` compares whole bands
        band = (
            np.ascontiguousarray(table[:, start : start + HASHES_PER_BAND])
            .view(f"V{4 * HASHES_PER_BAND}")
            .ravel()
        )
        _, first_position, band_number = np.unique(band, return_index=True, return_inverse=True)
        first_with_band = first_position[band_number]
        later = np.flatnonzero(first_with_band != np.arange(count))  # those that are not the first
        for chunk in np.array_split(later, max(1, len(later) // PAIRS_PER_CHUNK)):
            alike = (table[chunk] == table[first_with_band[chunk]]).mean(axis=1) >= MIN_SIMILARITY
            pairs.append((chunk[alike], first_with_band[chunk[alike]]))
    later_members, first_members = (np.concatenate(side) for side in zip(*pairs, strict=True))
    graph = coo_array(
        (np.ones(len(later_members), np.int8), (later_members, first_members)), shape=(count, count)
    )
    _, group_of = connected_components(graph, directed=False)
    members: dict[int, list[int]] = {}
    # those in no pair have no near duplicate
    for position in np.unique(np.concatenate([later_members, first_members])):
        members.setdefault(int(group_of[position]), []).append(ids[position])
    return sorted(members.values())
