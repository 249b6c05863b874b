"""Finding where further requests begin."""

from __future__ import annotations

from engine.base.conversation import Message
from engine.completeness.requests import starts_by_curve

TALK = [Message("assistant" if at % 2 else "user", "text") for at in range(8)]
"""Four turns, with boundaries after messages 1, 3, 5 and 7."""


def test_a_request_begins_where_the_score_falls() -> None:
    """The turn over which it falls by more than the least fall begins a request; a rise or a small fall does not."""
    assert starts_by_curve(TALK, {1: 0.2, 3: 0.9, 5: 0.3, 7: 0.2}) == [4]
    assert starts_by_curve(TALK, {1: 0.2, 3: 0.9, 5: 0.3, 7: 0.2}, fall=0.05) == [4, 6]
    assert starts_by_curve(TALK, {1: 0.2, 3: 0.9, 5: 0.3, 7: 0.2}, fall=0.7) == []


def test_the_first_turn_is_no_further_request() -> None:
    """Nothing is before it, and without scores nothing is found."""
    assert starts_by_curve(TALK, {1: 0.0}) == []
    assert starts_by_curve(TALK, {}) == []
