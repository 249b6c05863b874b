"""k-means on directions: rows of length 1, centres of length 1, closeness by cosine (Dhillon & Modha 2001, Concept
Decompositions, Machine Learning 42), begun by greedy k-means++ (Arthur & Vassilvitskii 2007).

Rows are first put into an order that depends on their bits and the seed only. So the same rows give the same partition
bit for bit in whatever order they come. Up to `WHOLE` rows one thread does it, so the number of cores does not matter
either. scikit-learn's k-means adds up what its threads found in the order in which they finish, so with more than two
threads it need not repeat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.goals.embedders.threads import one_thread
from engine.goals.embedders.vectors import (
    BLOCK,
    Floats,
    Indices,
    Numbers,
    Vectors,
    blocks,
    row_keys,
    unit_rows,
)

WHOLE = 50_000
"""Up to so many rows every round looks at all of them; of more, a sample is solved and mini-batches refine it."""
RESTARTS = 5
SEEDING_ROWS = 10_000
"""k-means++ chooses among so many rows at most."""
ROUNDS = 50
MINI_BATCH = 8_192
SETTLED = 1e-4
"""Relative gain of a round below which nothing more is worth another."""

Note = Callable[[int, int], None]
"""Told what is done of how much, in steps of its own; may raise to stop the work."""


class Nearest(NamedTuple):
    """For each row its nearest centre and the second nearest, each of shape (n,).

    Attributes:
        first, second: Numbers of centres; second is -1 where there is one centre only.
        first_cosine, second_cosine: -1 for a second that does not exist.
    """

    first: Numbers
    first_cosine: Floats
    second: Numbers
    second_cosine: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What k-means found.

    Attributes:
        centres: Shape (k, d), k at most what was asked for: fewer where there are not so many different rows.
        inertia: Mean cosine distance of the rows that it was judged on to their centres.
    """

    centres: Vectors
    inertia: float


def solve(
    vectors: Vectors, order: Indices, k: int, seed: int, *, restarts: int, note: Note
) -> Solution:
    """The best of several attempts at k clusters.

    Args:
        vectors: Shape (n, d), rows of length 1, perhaps a memory map.
        order: The rows that count, in an order made by `canonical_order` with the same seed.
        k: Clusters wanted, at least 1.
        restarts: Attempts, each with its own random numbers.
    """
    sample = vectors[order[:WHOLE]]
    batches = -(-len(order) // MINI_BATCH) if len(order) > WHOLE else 0
    total = restarts + batches

    def attempt(restart: int) -> Solution:
        note(restart, total)
        rng = np.random.default_rng([seed, restart, k])
        return lloyd(sample, seed_centres(sample[:SEEDING_ROWS], k, rng))

    with one_thread():
        best = min(map(attempt, range(restarts)), key=lambda solution: solution.inertia)
    if not batches:
        return best
    return _refine(vectors, order, best, lambda done: note(restarts + done, total))


def canonical_order(vectors: Vectors, rows: Indices, seed: int) -> Indices:
    """These rows in an order that does not depend on where they stand; equal rows are interchangeable."""
    keys = row_keys(vectors, seed)[rows]
    return rows[np.argsort(keys, kind="stable")]


def seed_centres(rows: Vectors, k: int, rng: np.random.Generator) -> Vectors:
    """Rows to begin with, each drawn by its squared distance to those before, the best of a few draws.

    Returns:
        At most k different rows.
    """
    draws = 2 + int(np.log(k))
    chosen = [int(rng.integers(len(rows)))]
    left = _distances(rows, rows[chosen])[:, 0]
    while len(chosen) < k:
        sums = np.cumsum(left, dtype=np.float64)
        if sums[-1] <= 1e-6 * len(rows):
            break
        tried = np.searchsorted(sums, rng.random(draws) * sums[-1], side="right")
        tried = np.minimum(tried, len(rows) - 1)
        after = np.minimum(left[:, None], _distances(rows, rows[tried]))
        best = int(after.sum(axis=0, dtype=np.float64).argmin())
        chosen.append(int(tried[best]))
        left = np.ascontiguousarray(after[:, best])
    return rows[chosen]


def lloyd(rows: Vectors, centres: Vectors) -> Solution:
    """Moves centres to the mean directions of their rows until nothing changes much; no centre is left without rows."""
    before = np.inf
    for _ in range(ROUNDS):
        labels, cosines = closest(rows, centres)
        inertia = float(np.mean(1 - cosines, dtype=np.float64))
        if inertia >= (1 - SETTLED) * before:
            break
        before = inertia
        labels = _without_empty(labels, cosines, len(centres))
        centres = directions(sums_of(rows, labels, len(centres)), centres)
    return Solution(centres, inertia)


def closest(rows: Vectors, centres: Vectors) -> tuple[Numbers, Floats]:
    """The nearest centre of each row and its cosine, each of shape (n,)."""
    labels = np.zeros(len(rows), np.int32)
    cosines = np.zeros(len(rows), np.float32)
    for part, block in _cosines(rows, centres):
        labels[part] = first = block.argmax(axis=1)
        cosines[part] = block[np.arange(len(block)), first]
    return labels, cosines


def nearest(rows: Vectors, centres: Vectors) -> Nearest:
    """The two nearest centres of each row."""
    count = len(rows)
    found = Nearest(
        np.zeros(count, np.int32),
        np.zeros(count, np.float32),
        np.full(count, -1, np.int32),
        np.full(count, -1, np.float32),
    )
    for part, block in _cosines(rows, centres):
        line = np.arange(len(block))
        found.first[part] = first = block.argmax(axis=1)
        found.first_cosine[part] = block[line, first]
        if len(centres) > 1:
            block[line, first] = -2
            found.second[part] = second = block.argmax(axis=1)
            found.second_cosine[part] = block[line, second]
    return found


def _cosines(rows: Vectors, centres: Vectors) -> Iterator[tuple[slice, Floats]]:
    """Cosines of blocks of rows with all centres; blocks are the smaller the more centres there are, 64 MB at most."""
    for part in blocks(len(rows), max(256, min(BLOCK, 16_000_000 // len(centres)))):
        yield part, rows[part] @ centres.T


def _distances(rows: Vectors, others: Vectors) -> Floats:
    """Squared distances between rows of length 1, shape (n, m)."""
    squared: Floats = np.maximum(0, 2 - 2 * (rows @ others.T))
    return squared


def sums_of(rows: Vectors, labels: Numbers, k: int) -> Floats:
    """Sums of the rows of each label, shape (k, d), added up in the order of the rows."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(rows), dtype=np.float32)
    where = (labels, np.arange(len(rows)))
    return np.asarray(csr_matrix((ones, where), shape=(k, len(rows))) @ rows)


def directions(sums: npt.ArrayLike, otherwise: Vectors) -> Vectors:
    """Sums scaled to length 1; where rows cancel out, the centre that was there before."""
    found = unit_rows(sums)
    return np.where(found.any(axis=1, keepdims=True), found, otherwise)


def _without_empty(labels: Numbers, cosines: Floats, k: int) -> Numbers:
    """The labels, where each centre that nobody is nearest to gets the row that is worst off."""
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=k)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        worst = iter(np.argsort(cosines, kind="stable"))
        for centre in empty:
            for row in worst:
                if sizes[labels[row]] > 1:
                    sizes[labels[row]] -= 1
                    labels[row] = centre
                    break
    return labels


def _refine(
    vectors: Vectors, order: Indices, start: Solution, note: Callable[[int], None]
) -> Solution:
    """Mini-batches over all rows once (Sculley 2010, Web-scale k-means): each centre becomes the mean direction of the
    rows that were nearest to it when they came; rows of the sample come first and count as well."""
    centres = start.centres
    sums = np.zeros(centres.shape, dtype=np.float64)
    lost = 0.0
    for number, part in enumerate(blocks(len(order), MINI_BATCH)):
        note(number)
        batch = vectors[order[part]]
        labels, cosines = closest(batch, centres)
        lost += float(np.sum(1 - cosines, dtype=np.float64))
        sums += sums_of(batch, labels, len(centres))
        centres = directions(sums, centres)
    return Solution(centres, lost / len(order))
