"""The projection to the map, and the distinctive words of clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.goals.clusters import projection
from engine.goals.clusters.projection import project_to_plane
from engine.goals.labels.distinctive_words import distinctive_words
from engine.model.embedders.vectors import unit_rows
from tests.engine.goals.groups import grouped, wishes


class TestMap:
    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.integers(0, 50), st.integers(1, 6))
    def test_bounds(self, seed: int, count: int, dimensions: int) -> None:
        """Whatever the rows, every point lies in the square, and rows without a vector in its middle."""
        rng = np.random.default_rng(seed)
        vectors = unit_rows(rng.standard_normal((count, dimensions)))
        vectors[rng.random(count) < 0.2] = 0
        found = project_to_plane(vectors, seed)
        assert found.shape == (count, 2)
        assert (np.abs(found) <= 1).all()
        assert (found[~vectors.any(axis=1)] == 0).all()

    def test_groups_lie_apart(self) -> None:
        """Three groups are three places on the map."""
        vectors, truth = grouped(3, 50)
        found = project_to_plane(vectors)
        centres = np.stack([found[truth == number].mean(axis=0) for number in range(3)])
        spread = max(found[truth == number].std() for number in range(3))
        apart = min(np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
        assert apart > 2 * spread

    def test_does_not_flip(self) -> None:
        """The same rows in another order have the same places on the map."""
        vectors, _ = grouped(noise=0.3)
        assert np.allclose(
            project_to_plane(vectors)[::-1], project_to_plane(vectors[::-1]), atol=1e-4
        )

    def test_fitted_on_a_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of many rows a sample gives nearly the same map."""
        vectors, _ = grouped(3, 200)
        whole = project_to_plane(vectors)
        monkeypatch.setattr(projection, "MAX_FITTED_ROWS", 300)
        assert np.corrcoef(project_to_plane(vectors)[:, 0], whole[:, 0])[0, 1] > 0.8


class TestWords:
    def test_tell_apart(self) -> None:
        """Each group of goals gets words that only it contains."""
        texts, kinds = wishes()
        names = sorted(set(kinds))
        labels = np.array([names.index(kind) for kind in kinds], dtype=np.int32)
        found = distinctive_words(texts, labels, 2)
        assert set(found[names.index("flight")]) <= {"flight", "book", "plane", "ticket", "need"}
        assert set(found[names.index("refund")]) <= {"refund", "money", "broke", "want"}
        assert set(found[names.index("weather")]) <= {"weather", "rain", "expected", "tomorrow"}

    def test_outliers_and_silence(self) -> None:
        """Outliers are left out; a cluster without words has none; a word repeated in one text counts once."""
        texts = ["refund " + "kettle " * 50, "refund please", "refund now", "", "what", "1 2"]
        labels = np.array([0, 0, 0, 1, -1, 1], dtype=np.int32)
        found = distinctive_words(texts, labels, 1)
        assert found == {0: ("refund",), 1: ()}
        assert distinctive_words(["", "7"], np.zeros(2, np.int32)) == {0: ()}
        assert distinctive_words([], np.zeros(0, np.int32)) == {}

    def test_large_clusters_are_sampled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of a large cluster a sample of texts is read, the same for the same seed."""
        monkeypatch.setattr("engine.goals.labels.distinctive_words.MAX_TEXTS_FOR_WORDS", 5)
        read: list[int] = []

        class RecordedList(list[str]):
            def __getitem__(self, place):  # type: ignore[no-untyped-def]
                read.append(place)
                return super().__getitem__(place)

        texts = RecordedList(
            [f"refund {letter}" for letter in ("kettle", "lamp") for _ in range(30)]
        )
        labels = np.repeat(np.array([0, 1], dtype=np.int32), 30)
        first = distinctive_words(texts, labels, 1, seed=2)
        assert first == {0: ("kettle",), 1: ("lamp",)}
        assert len(read) == 10
        assert distinctive_words(texts, labels, 1, seed=2) == first
        assert read[:10] == read[10:]
