"""The query of the list: state filter, order, counts."""

from __future__ import annotations

from typing import get_args

from engine.conversations.filter_fields import SortKey
from engine.opener.conversations import Counts
from screens.conversations.query import (
    COLUMN_TITLES,
    DEFAULT_COLUMNS,
    SORT_TITLES,
    ListColumns,
    ListCounts,
    format_counts,
    sort_of_column,
)


class TestListQuery:
    def test_counts(self) -> None:
        """The rate is the share of the scored ones at or above the threshold, which stands beside it; the coverage is
        in brackets behind it."""
        counts = Counts(
            conversations=1_000,
            complete=560,
            incomplete=230,
            borderline=10,
            unscored=200,
            above=568,
        )

        words = format_counts(812, ListCounts(Counts(conversations=2_000), counts))
        assert words == "812 of 2,000 · 71% [68, 74] ended, ≥ .50 (80% scored)"

    def test_no_rate_of_what_was_chosen_by_its_outcome(self) -> None:
        """Conversations that were chosen by their outcome are counted, and have no rate."""
        found = Counts(conversations=13, incomplete=13)

        counts = ListCounts(Counts(conversations=90), found, has_rate=False)
        assert format_counts(13, counts) == "13 of 90"

    def test_every_order_has_a_title(self) -> None:
        """What a list can be ordered by can be chosen in the dialog, and every column has its cells."""
        assert SORT_TITLES.keys() == set(get_args(SortKey))
        assert [one.key for one in ListColumns().chosen([*COLUMN_TITLES])] == [*COLUMN_TITLES]

    def test_a_column_of_verdicts_takes_no_room_before_there_are_any(self) -> None:
        """The default columns have one for verdicts only in a project with verdicts; chosen ones always."""
        columns = ListColumns()
        assert "succeeded" not in [one.key for one in columns.chosen(DEFAULT_COLUMNS)]
        assert "succeeded" in [one.key for one in columns.chosen(["p", "succeeded"])]
        columns.has_verdicts = True
        assert [one.key for one in columns.chosen(DEFAULT_COLUMNS)] == [*DEFAULT_COLUMNS]

    def test_columns_and_orders(self) -> None:
        """A column sorts by its own field and the column of states by the score; the opening cannot be sorted by."""
        assert [sort_of_column(key) for key in ("turns", "state", "opening", "date")] == [
            "turns",
            "p",
            None,
            "date",
        ]
