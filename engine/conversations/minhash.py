"""Near duplicates among many conversations, by MinHash signatures (Broder 1997, "On the resemblance and containment of
documents").

The exact comparison of `engine.conversations.shingle_overlap` is for the thousand conversations that a probe is fitted
to; a signature of 256 bytes for each conversation allows a million.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Signatures = NDArray[np.uint32]

HASHES = 64
"""Numbers of a signature: the standard error of a similarity of .8 is .05."""
ROWS = 4
"""Numbers of a band. Two conversations are compared if a band is equal: 99.98% of those with a similarity of .8."""
SIMILARITY = 0.8
"""Least share of common shingles (Jaccard index, estimated) for two conversations to be near duplicates."""
FEWEST = 20
"""Shingles below which a conversation has no signature: greetings are alike by chance."""


def signature(shingles: NDArray[np.uint32]) -> bytes:
    """The signature of a set of shingles (32-bit numbers), as it is stored; empty for fewer than `FEWEST`."""
    if len(shingles) < FEWEST:
        return b""
    from datasketch import MinHash  # a second to import: it brings parts of scipy

    minhash = MinHash(num_perm=HASHES, seed=1, hashfunc=int, scheme="affine32")
    minhash.update_batch(shingles.tolist())
    return np.asarray(minhash.hashvalues).astype("<u4").tobytes()


def groups(ids: Sequence[int], signatures: bytes) -> list[list[int]]:
    """Groups of near duplicates, each ascending, ordered by their first.

    Each conversation of a band is compared with the first one that has the band; who is similar to a member of a group
    joins it.

    Args:
        ids: Conversations, ascending.
        signatures: Their signatures one after another.
    """
    # imported where they are used, as in `engine.conversations.shingle_overlap`
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(ids)
    if not count:
        return []
    table: Signatures = np.frombuffer(signatures, dtype="<u4").reshape(count, HASHES)
    links: list[tuple[Ints, Ints]] = []
    for start in range(0, HASHES, ROWS):
        band = np.ascontiguousarray(table[:, start : start + ROWS]).view(f"V{4 * ROWS}").ravel()
        _, first, inverse = np.unique(band, return_index=True, return_inverse=True)
        leader = first[inverse]
        others = np.flatnonzero(leader != np.arange(count))
        for block in np.array_split(others, max(1, len(others) // 10_000)):
            alike = (table[block] == table[leader[block]]).mean(axis=1) >= SIMILARITY
            links.append((block[alike], leader[block[alike]]))
    left, right = (np.concatenate(side) for side in zip(*links, strict=True))
    graph = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(count, count))
    _, group = connected_components(graph, directed=False)
    members: dict[int, list[int]] = {}
    for position in np.unique(np.concatenate([left, right])):  # the others are alone
        members.setdefault(int(group[position]), []).append(ids[position])
    return sorted(members.values())
