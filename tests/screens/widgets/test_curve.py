"""The columns and block characters of a curve."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from screens.widgets.curve import block_rows, spread


class TestColumns:
    @given(st.integers(1, 500), st.integers(1, 200))
    def test_every_point_has_a_column(self, points: int, width: int) -> None:
        """Each point is in one column; the columns are in order and at most as many as the width."""
        columns = spread(points, width)

        assert len(columns) <= width
        assert sorted({index for column in columns for index in column}) == list(range(points))

    @given(st.lists(st.floats(0, 1), min_size=1), st.integers(1, 5))
    def test_height_grows_with_the_value(self, values: list[float], height: int) -> None:
        """A column has as many filled eighths as its value, and at least one."""
        rows = block_rows(values, height)

        assert [len(row) for row in rows] == [len(values)] * height
        for index, value in enumerate(values):
            filled = sum("▁▂▃▄▅▆▇█".find(row[index]) + 1 for row in rows)
            assert filled == max(1, round(value * height * 8))

    def test_nothing_to_draw(self) -> None:
        """Without points there are no columns."""
        assert spread(0, 10) == []
