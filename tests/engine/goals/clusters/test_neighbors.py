"""Nearest neighbors: exact for few rows, approximate for many, by an index; settling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.goals.clusters import neighbors as neighbors
from engine.goals.clusters.neighbors import (
    MIN_SETTLE_SHARE,
    SETTLE_NEIGHBORS,
    NearestRows,
    Neighbors,
    find_fragments,
    settle,
)
from engine.model.embedders.vectors import Numbers, Vectors, unit_rows
from tests.engine.goals.groups import grouped, same_partition


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the limit from which on the index is used."""
    monkeypatch.setattr(neighbors, "MIN_INDEXED_ROWS", 50)


def many(count: int = 600) -> Vectors:
    """Enough rows in groups for the index, two of them zeros."""
    vectors, _ = grouped(6, count // 6, noise=0.3)
    vectors[[3, 500]] = 0
    return vectors


class TestExact:
    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12))
    def test_against_sorting_all(self, seed: int, count: int, wanted: int) -> None:
        """The neighbors are those of least distance without the row itself; -1 where there are no more."""
        rng = np.random.default_rng(seed)
        vectors = unit_rows(rng.standard_normal((count, 3)))
        vectors[rng.random(count) < 0.2] = 0
        live = np.flatnonzero(vectors.any(axis=1))
        near = Neighbors(vectors).of_rows(live, wanted)
        for row, found, distances in zip(live, *near, strict=True):
            others = live[live != row]
            best = np.sort(1 - vectors[others] @ vectors[row])[:wanted]
            assert np.allclose(distances[: len(best)], np.maximum(0, best), atol=1e-6)
            assert set(found[: len(best)]) <= set(others)
            assert (found[len(best) :] == -1).all()
            assert (distances[len(best) :] == 2).all()


@pytest.mark.usefixtures("indexed")
class TestIndex:
    def test_finds_nearly_all(self) -> None:
        """The index finds nearly the neighbors that comparing with all rows finds, and never a row without a
        vector.
        """
        vectors = many()
        rows = np.arange(10, 200)
        nearest = Neighbors(vectors).of_rows(rows, 8)
        cosines = vectors[rows] @ vectors.T
        cosines[np.arange(len(rows)), rows] = -2
        exact = np.argsort(-cosines, axis=1)[:, :8]
        hits = sum(len(np.intersect1d(a, b)) for a, b in zip(nearest.rows, exact, strict=True))
        assert hits / exact.size > 0.95
        assert not np.isin(nearest.rows, [3, 500]).any()
        assert (np.diff(nearest.distances, axis=1) >= 0).all()


def near_of(vectors: Vectors) -> NearestRows:
    """The neighbors of every row."""
    return Neighbors(vectors).of_rows(np.arange(len(vectors)), SETTLE_NEIGHBORS)


def nobody(labels: Numbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """No row is fixed to its group."""
    return np.zeros(len(labels), dtype=np.bool_)


class TestWhatMoves:
    def test_strays_come_home(self) -> None:
        """Rows in a wrong group or in none move to the group of their neighbors."""
        vectors, gold = grouped()
        labels = gold.copy()
        strays = np.random.default_rng(0).choice(len(labels), 24, replace=False)
        labels[strays[:12]] = (labels[strays[:12]] + 1) % 6
        labels[strays[12:]] = -1
        assert not same_partition(labels, gold)
        assert settle(near_of(vectors), labels, nobody(labels)).tolist() == gold.tolist()

    def test_a_row_between_groups_stays(self) -> None:
        """A row whose neighbors are half of one and half of another group stays in whichever of them it is, or in
        none.
        """
        rows = np.array([[1, 2, 3, 4]])
        near = NearestRows(np.repeat(rows, 5, axis=0), np.full((5, 4), 0.1, dtype=np.float32))
        for own in (0, 1, -1):
            labels = np.array([own, 0, 0, 1, 1], dtype=np.int32)
            fixed = np.array([False, True, True, True, True])
            assert settle(near, labels, fixed)[0] == own


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5))
@example(22, 8, 5)  # a group kept takes back the only row of another
def test_the_same_whatever_groups_are_called(seed: int, rows: int, groups: int) -> None:
    """Renumbering the groups renumbers the result; no group is emptied, and no row leaves the group of most of its
    neighbors.
    """
    rng = np.random.default_rng(seed)
    near = NearestRows(
        rng.integers(0, rows, (rows, 4)), rng.uniform(0, 0.9, (rows, 4)).astype(np.float32)
    )
    labels = rng.integers(-1, groups, rows).astype(np.int32)
    found = settle(near, labels, nobody(labels))
    names = rng.permutation(groups).astype(np.int32) + 10
    renamed = np.where(labels >= 0, names[labels], -1).astype(np.int32)
    expected = np.where(found >= 0, names[found], -1)
    assert settle(near, renamed, nobody(labels)).tolist() == expected.tolist()
    assert set(labels[labels >= 0].tolist()) <= set(found.tolist())
    assert MIN_SETTLE_SHARE > 0.5


def test_fragments() -> None:
    """Clusters that mix are fragments of one goal, over several steps; a cluster whose nearest others are not among
    those that may be joined stays alone, and so do few and large ones, which mix by chance."""
    shares = np.zeros((5, 5), dtype=np.float32)
    shares[0, 1], shares[1, 2], shares[2, 4] = 0.9, 0.3, 0.7
    shares[3, 4], shares[4, 3] = 0.8, 0.8
    small, large = np.array([5, 5, 5, 5, 5, 80]), np.array([5, 60, 60, 5, 5])
    assert find_fragments(shares, small, [0, 1, 2, 3]) == [[0, 1, 2]]
    assert find_fragments(shares, large, [0, 1, 2, 3]) == []
    assert find_fragments(shares, small, [3, 4]) == [[3, 4]]
    assert find_fragments(shares, small, [0, 3]) == find_fragments(shares, small, []) == []
    assert find_fragments(shares, small, [0, 1, 2, 3, 4]) == [[0, 1, 2, 3, 4]]
    assert find_fragments(shares, small, [0, 1, 2, 3, 4], mutual=True) == [[3, 4]]
