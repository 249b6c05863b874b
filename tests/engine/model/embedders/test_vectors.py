"""`engine.model.embedders.vectors`: lengths, rows without a direction, spaces that never mix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.model.embedders.vectors import has_vector, row_heights, unit_rows

ROWS = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 8), st.integers(1, 5)),
    elements=st.floats(allow_nan=False, allow_infinity=False, width=32),
)


class TestUnitRows:
    @given(ROWS)
    def test_lengths(self, raw: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
        """Every row has length 1, or is zeros as before, however small or large its numbers are."""
        rows = unit_rows(raw)
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        live = raw.any(axis=1)
        assert np.allclose(lengths[live], 1, atol=1e-5)
        assert (rows[~live] == 0).all()
        assert (has_vector(rows) == live).all()

    @pytest.mark.parametrize("bad", [[[1.0, float("nan")]], [[float("inf"), 0.0]], [1.0, 2.0]])
    def test_no_number(self, bad: list[object]) -> None:
        """A row with NaN or infinity is refused."""
        with pytest.raises(ValueError, match=r"finite|dimensions"):
            unit_rows(bad)  # type: ignore[arg-type]


class TestHeights:
    def test_only_rows_and_seed_count(self) -> None:
        """The height of a row does not depend on its position; another seed gives other heights; rows of another
        machine, with other last bits, are sorted alike."""
        rows = unit_rows(np.random.default_rng(0).standard_normal((500, 7)))
        heights = row_heights(rows, 3)
        turned = np.random.default_rng(1).permutation(len(rows))
        assert (row_heights(rows[turned], 3) == heights[turned]).all()
        assert not (row_heights(rows, 4) == heights).any()
        near = np.nextafter(rows, np.float32(2))
        assert (np.argsort(row_heights(near, 3)) == np.argsort(heights)).all()
