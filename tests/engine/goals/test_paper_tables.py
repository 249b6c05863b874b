"""Distances of Table 4 and agreement of Figure 4, against values by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.goals.paper import assigned_distances, own_distances, pairwise_ari

ROWS = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
LABELS = np.array([0, 0, 1], dtype=np.int32)


def test_own() -> None:
    """Two rows at right angles lie half a diagonal from their mean; a row alone is its own centre."""
    found = own_distances(ROWS, LABELS)
    assert found.rows == 3
    assert found.euclidean == pytest.approx(2 * np.sqrt(0.5) / 3)
    assert found.cosine == pytest.approx(2 * (1 - np.sqrt(0.5)) / 3)
    assert found.euclidean_error == pytest.approx(np.std([0.5**0.5, 0.5**0.5, 0], ddof=1) / 3**0.5)


def test_assigned() -> None:
    """A new row goes to the nearest centre; a row of zeros is not counted."""
    others = np.array([[0, 1], [-1, 0], [0, 0]], dtype=np.float32)
    found = assigned_distances(ROWS, LABELS, others)
    assert found.rows == 2
    assert found.euclidean == pytest.approx(np.sqrt(0.5) / 2)
    assert assigned_distances(ROWS, LABELS, others[2:]).cosine is None


def test_agreement() -> None:
    """Names of clusters do not matter; rows that one run does not have are left out; one row says nothing."""
    one, same, other = (
        np.array(labels, dtype=np.int32) for labels in ([0, 0, 1, 1], [1, 1, 0, -1], [0, 1, 0, 1])
    )
    first, second, _ = pairwise_ari([one, same, other])
    assert first == 1.0
    assert second == pytest.approx(-0.5)
    assert pairwise_ari([one, np.array([-1, -1, -1, 0], dtype=np.int32)]) == [None]
