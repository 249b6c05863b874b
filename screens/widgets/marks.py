"""The ids of the marked rows. Marks survive another order, another filter and a refresh."""

from __future__ import annotations

from array import array
from collections.abc import Sequence


class Marks:
    """A set of ids, and the index from which a range is marked.

    Nothing here loops over ids in Python: marking a million of them is one call of the set.
    """

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._last: int | None = None

    def __contains__(self, row_id: object) -> bool:
        return row_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def toggle(self, row_id: int) -> None:
        """Marks an id, or takes its mark away."""
        self._ids.symmetric_difference_update((row_id,))
        self._last = row_id

    def mark_range(self, order: array[int], index: int) -> None:
        """Marks everything from the last mark to this place of the order, only the place when there is none."""
        row_id = order[index]
        try:
            start = index if self._last is None else order.index(self._last)
        except ValueError:  # the row marked last is not listed now
            start = index
        self._ids.update(order[min(start, index) : max(start, index) + 1])
        self._last = row_id

    def mark_all(self, order: Sequence[int]) -> None:
        """Marks all of these, beside what is marked already."""
        self._ids.update(order)

    def clear(self) -> None:
        """Takes every mark away."""
        self._ids.clear()
        self._last = None

    def chosen(self, order: array[int]) -> array[int]:
        """The marked ids: those of this order as they stand in it, then the others by id."""
        shown = array("q", filter(self._ids.__contains__, order))
        if len(shown) < len(self._ids):
            shown.extend(sorted(self._ids.difference(shown)))
        return shown
