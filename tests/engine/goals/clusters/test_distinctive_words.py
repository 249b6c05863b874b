"""The distinctive words of clusters."""

from __future__ import annotations

import numpy as np

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
