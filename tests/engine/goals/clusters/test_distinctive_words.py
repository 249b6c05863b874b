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
