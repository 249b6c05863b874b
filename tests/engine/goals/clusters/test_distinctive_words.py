"""The distinctive words of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from engine.goals.labels.distinctive_words import distinctive_words
from tests.engine.goals.groups import wishes


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
