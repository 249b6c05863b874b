"""`engine.base.number_format`: how numbers are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import number_format
from engine.base.statistics.intervals import wilson


class TestProbability:
    @pytest.mark.parametrize(
        ("p", "digits", "shown"),
        [
            (None, 2, "–"),
            (0.0, 2, ".00"),
            (0.634, 2, ".63"),
            (0.996, 2, "1.0"),
            (1.0, 1, "1.0"),
            (0.55, 1, ".6"),
            (0.04, 1, ".0"),
        ],
    )
    def test_written(self, p: float | None, digits: int, shown: str) -> None:
        """A probability has no leading zero and is never longer than three characters."""
        assert number_format.probability(p, digits) == shown

    def test_signed(self) -> None:
        """Two digits and no zero before the point; what rounds to nothing has no sign."""
        numbers = (0.634, -0.2, -0.001, 0.999, -1.2)
        assert [number_format.signed(one) for one in numbers] == [
            ".63",
            "−.20",
            ".00",
            "1.0",
            "−1.20",
        ]
        assert number_format.interval(-0.2, 0.999) == "[−.20, 1.0]"


class TestRate:
    def test_known_interval(self) -> None:
        """710 of 1,000 is 71% with the Wilson interval of 68 to 74%."""
        assert number_format.rate(710, 1_000) == "71% [68, 74]"

    @given(st.integers(1, 10**6), st.floats(0, 1))
    def test_an_interval_never_leaves_its_range(self, whole: int, share: float) -> None:
        """Both ends lie in 0 to 100% and around the share, and the text has its width."""
        part = round(share * whole)
        share_of = wilson(part, whole)
        assert 0 <= share_of.low <= part / whole <= share_of.high <= 1
        assert len(number_format.rate(part, whole)) <= number_format.RATE_WIDTH


class TestDuration:
    @pytest.mark.parametrize(
        ("seconds", "words"),
        [
            (None, "an unknown time"),
            (0.2, "1 s"),
            (89, "89 s"),
            (360, "6 min"),
            (5_399, "1 h 30 min"),
            (11_400, "3 h 10 min"),
        ],
    )
    def test_words(self, seconds: float | None, words: str) -> None:
        """A duration is in seconds, minutes, or hours and minutes, whichever suits its length."""
        assert number_format.duration(seconds) == words

    @pytest.mark.parametrize(
        ("number", "shown"),
        [
            (0, "0"), (999, "999"), (12_400, "12.4k"), (99_960, "100k"), (250_000, "250k"),
            (3_100_000, "3.1M"), (1e11, "100G"),
        ],
    )  # fmt: skip
    def test_amount(self, number: float, shown: str) -> None:
        """A count has at most five characters."""
        assert number_format.amount(number) == shown
