"""Curves over steps: where a value stands, what the axes say, and what cannot be drawn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.widgets.line_plot import Line, Scale, label, loss_scale, plot, share_scale


def texts(lines: list[Line], scale: Scale, steps: float, width: int, height: int) -> list[str]:
    """The rows as texts."""
    return ["".join(char for char, _ in row) for row in plot(lines, scale, steps, width, height)]


class TestScale:
    def test_losses_of_one_size_begin_at_zero(self) -> None:
        """A loss that falls to a tenth is drawn on a plain axis from 0."""
        assert loss_scale([2.0, 0.2]) == Scale(0.0, 2.0)

    def test_losses_that_fall_far_are_logarithmic(self) -> None:
        """One that falls to a hundredth is drawn by its logarithm: the middle is the geometric mean."""
        scale = loss_scale([2.0, 0.02])
        assert scale.logarithmic
        assert scale.at(0.5) == pytest.approx(0.2)
        assert scale.share(0.2) == pytest.approx(0.5)

    def test_shares_end_at_one(self) -> None:
        """Shares near 1 get an axis that shows their differences; one below half takes the whole."""
        assert share_scale([0.97, 0.99]) == Scale(0.95, 1.0)
        assert share_scale([0.3, 0.99]) == Scale(0.0, 1.0)
        assert share_scale([]) == Scale(0.0, 1.0)

    @given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=8))
    def test_any_values(self, values: list[float]) -> None:
        """Whatever the values, an axis has two finite ends and every value has a place."""
        for scale in (loss_scale(values), share_scale(values)):
            assert math.isfinite(scale.low)
            assert math.isfinite(scale.high)
            for value in values:
                if math.isfinite(value):
                    assert 0.0 <= scale.share(value) <= 1.0


class TestPlot:
    def test_a_line_from_corner_to_corner(self) -> None:
        """The first point is at the left edge at its height, the last at the right edge, with no gap between."""
        rows = texts([Line(((0, 0.0), (10, 1.0)))], Scale(0.0, 1.0), 10, 8, 4)
        assert rows[0][-1] != " "
        assert rows[-1][0] != " "
        assert all(any(row[column] != " " for row in rows) for column in range(8))

    def test_signs_stand_at_their_points(self) -> None:
        """A curve of signs has one for each point, over the line."""
        rows = texts(
            [Line(((0, 0.5), (10, 0.5))), Line(((5, 0.5),), sign="×")], Scale(0.0, 1.0), 10, 10, 4
        )
        assert sum(row.count("×") for row in rows) == 1
        assert rows[1][5] == "×"

    def test_many_points_in_a_column_are_drawn_at_their_mean(self) -> None:
        """A thousand steps up and down in ten columns are a level line and no block."""
        points = tuple((step, float(step % 2)) for step in range(1000))
        rows = texts([Line(points)], Scale(0.0, 1.0), 999, 10, 8)
        assert sum(char != " " for row in rows for char in row) == 10

    @given(
        st.lists(st.tuples(st.integers(0, 1000), st.floats(allow_nan=True)), max_size=20),
        st.integers(-1, 40),
        st.integers(-1, 12),
        st.floats(0, 1000),
    )
    def test_any_points(
        self, points: list[tuple[int, float]], width: int, height: int, steps: float
    ) -> None:
        """No point, step or size leaves the grid or fails."""
        curve = tuple(sorted((float(step), value) for step, value in points))
        scale = loss_scale([value for _, value in curve])
        grid = plot([Line(curve), Line(curve, sign="×")], scale, steps, width, height)
        assert len(grid) == max(0, height)
        assert all(len(row) == max(0, width) for row in grid)


@pytest.mark.parametrize(
    ("value", "told"), [(0, ".00"), (0.041, ".041"), (0.5, ".50"), (2.31, "2.3"), (1234, "1.2k")]
)
def test_labels(value: float, told: str) -> None:
    """Numbers of the axis have at most five characters."""
    assert label(value) == told
