"""Marks belong to ids, whatever is listed around them."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from screens.shell.marking import Marks

ORDERS = st.lists(st.integers(1, 1 << 60), unique=True, min_size=1).map(lambda ids: array("q", ids))


class TestMarks:
    def test_toggle(self) -> None:
        """The same id marked twice is not marked."""
        marks = Marks()
        marks.toggle(7)
        assert 7 in marks
        marks.toggle(7)

        assert 7 not in marks
        assert not marks

    @given(ORDERS, st.data())
    def test_range(self, order: array[int], data: st.DataObject) -> None:
        """A range holds both ends and all between, upwards as downwards."""
        first, last = (data.draw(st.integers(0, len(order) - 1)) for _ in range(2))
        marks = Marks()
        marks.mark_range(order, first)
        marks.mark_range(order, last)

        low, high = sorted((first, last))
        assert marks.chosen(order) == order[low : high + 1]

    def test_range_from_what_is_not_listed(self) -> None:
        """When the last mark is not in the list, only the place itself is marked."""
        marks = Marks()
        marks.toggle(99)
        marks.mark_range(array("q", [1, 2, 3]), 1)

        assert list(marks.chosen(array("q", [1, 2, 3]))) == [2, 99]

    @given(ORDERS, ORDERS)
    def test_order_of_the_chosen(self, marked: array[int], listed: array[int]) -> None:
        """What is listed comes first, as it is listed, then the rest by id; each once."""
        marks = Marks()
        marks.mark_all(marked)
        chosen = list(marks.chosen(listed))

        shown = [row_id for row_id in listed if row_id in marked]
        assert chosen == shown + sorted(set(marked) - set(listed))
        assert len(marks) == len(marked)
