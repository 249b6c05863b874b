"""How numbers are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import number_format
from engine.filters import ListQuery, parse_filter
from engine.records.conversations import Counts
from screens.conversations.query import (
    ListCounts,
    format_counts,
    format_filter,
    next_state,
    searched,
    sort_of_column,
    toggle_sort,
)
from screens.widgets.curve import block_rows, spread


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

    @pytest.mark.parametrize(
        ("noise", "digits"), [(None, 2), (0.0001, 2), (0.006, 2), (0.01, 2), (0.015, 1), (0.035, 1)]
    )
    def test_digits(self, noise: float | None, digits: int) -> None:
        """A digit smaller than the model's noise is not shown."""
        assert number_format.digits_for(noise) == digits

    @given(st.floats(0, 1), st.integers(1, 40))
    def test_bar_has_its_width(self, p: float, width: int) -> None:
        """A bar fills exactly its cells."""
        assert len(number_format.bar(p, width)) == width


class TestRate:
    def test_known_interval(self) -> None:
        """710 of 1,000 is 71% with the Wilson half-width of 3 points."""
        assert number_format.rate(710, 1_000) == "71% ± 3"

    def test_certain_only_in_appearance(self) -> None:
        """Ten of ten is not told as without error."""
        assert number_format.rate(10, 10) == "100% ± 14"

    def test_large_samples_get_a_decimal(self) -> None:
        """An error below one point is told with a decimal."""
        assert number_format.rate(8_528, 12_011) == "71% ± 0.8"

    def test_nothing(self) -> None:
        """No conversations, no rate."""
        assert number_format.rate(0, 0) == "–"


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
        """Times are told in the unit a person plans with."""
        assert number_format.duration(seconds) == words

    @pytest.mark.parametrize(
        ("number", "shown"),
        [(0, "0"), (999, "999"), (12_400, "12.4k"), (250_000, "250k"), (3_100_000, "3.1M")],
    )
    def test_amount(self, number: float, shown: str) -> None:
        """Counts are short."""
        assert number_format.amount(number) == shown


class TestCurve:
    @given(st.integers(1, 500), st.integers(1, 200))
    def test_every_point_has_a_column(self, points: int, width: int) -> None:
        """The columns stand for all points, in order, within the width."""
        columns = spread(points, width)

        assert len(columns) <= width
        assert sorted({index for column in columns for index in column}) == list(range(points))

    @given(st.lists(st.floats(0, 1), min_size=1), st.integers(1, 5))
    def test_height_grows_with_the_value(self, values: list[float], height: int) -> None:
        """The filled cells of a column are as many as its value asks for, and never none."""
        rows = block_rows(values, height)

        assert [len(row) for row in rows] == [len(values)] * height
        for index, value in enumerate(values):
            filled = sum("▁▂▃▄▅▆▇█".find(row[index]) + 1 for row in rows)
            assert filled == max(1, round(value * height * 8))

    def test_nothing_to_draw(self) -> None:
        """No points, no columns."""
        assert spread(0, 10) == []


class TestListWords:
    def test_counts(self) -> None:
        """The rate is over what was scored, and the coverage stands beside it."""
        counts = Counts(conversations=1_000, complete=568, incomplete=232, unscored=200)

        words = format_counts(812, ListCounts(Counts(conversations=2_000), counts))
        assert words == "812 of 2,000 · 71% ± 3 complete (80% scored)"

    def test_filters_are_told(self) -> None:
        """Everything that leaves conversations out is told."""
        query = ListQuery(parse_filter("state:incomplete verdict:none source:web lamp"))

        assert format_filter(query) == "state:incomplete verdict:none source:web lamp"

    def test_states_go_round(self) -> None:
        """The state filter goes through all states and back to none; other terms stay."""
        query = ListQuery(parse_filter("lamp turns>3"))
        seen = []
        for _ in range(5):
            query = next_state(query)
            seen.append(str(query.filter))

        assert seen == [
            "lamp turns>3 state:incomplete",
            "lamp turns>3 state:borderline",
            "lamp turns>3 state:unscored",
            "lamp turns>3 state:complete",
            "lamp turns>3",
        ]

    def test_what_is_searched_for(self) -> None:
        """Words and phrases are searched for; fields and what must not occur are not."""
        wanted = parse_filter('state:complete lamp -spam "desk lamp" source:web')

        assert str(searched(wanted)) == 'lamp "desk lamp"'

    def test_columns_and_orders(self) -> None:
        """A column sorts by its own field, the sign of the state by the score, an opening by nothing."""
        assert [sort_of_column(key) for key in ("turns", "state", "opening", "hits")] == [
            "turns",
            "p",
            None,
            None,
        ]

    def test_sorting_twice_turns_round(self) -> None:
        """The longest come first at first, the lowest score comes first at first; again turns it round."""
        longest = toggle_sort(ListQuery(), "length")
        lowest = toggle_sort(ListQuery(), "p")

        assert (longest.descending, toggle_sort(longest, "length").descending) == (True, False)
        assert (lowest.descending, toggle_sort(lowest, "p").descending) == (False, True)
