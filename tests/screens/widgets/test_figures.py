"""Figures of few conversations, and bars of states."""

from __future__ import annotations

import pytest

from engine.completeness.records import StateCounts
from screens.widgets.formatting import rate_piece
from screens.widgets.groups import rate_pieces, state_bar


def test_a_figure_of_fewer_than_ten_is_faint_and_has_its_range() -> None:
    """From ten conversations on a rate has its own tone; of nine it is faint; both stand with their interval."""
    assert rate_piece(9, 9, "bold") == ("100% [70, 100]", "$tone-muted")
    assert rate_piece(10, 10, "bold") == ("100% [72, 100]", "bold")
    assert rate_pieces(StateCounts(complete=2, above=2)) == [("● 100% [34, 100]", "$tone-muted")]


@pytest.mark.parametrize(
    ("states", "bar"),
    [
        (StateCounts(complete=4, unscored=96), "········"),
        (StateCounts(complete=50, unscored=50), "▇▇▇▇····"),
        (StateCounts(complete=2, borderline=2, incomplete=2, unscored=2), "▇▇▄▄▁▁··"),
        (StateCounts(complete=3), "▇▇▇▇▇▇▇▇"),
        (StateCounts(), ""),
    ],
)
def test_a_bar_of_states_is_of_all(states: StateCounts, bar: str) -> None:
    """A state fills its share of all conversations: what is not scored stays dotted, also where all scored ones
    ended.
    """
    assert "".join(text for text, _ in state_bar(states)) == bar
