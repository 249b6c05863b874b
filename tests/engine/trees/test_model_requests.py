"""Requests for trees on the toy model, and the places of logs where they grow."""

from __future__ import annotations

import pytest

from engine.base.conversation import Message, render_log
from engine.base.errors import Cancelled
from engine.trees.growth import Budget
from engine.trees.model_requests import Grow, Place, find_places, grow_trees
from engine.trees.records import TreeOptions
from tests.engine.model.toy import ToyModel


def test_cancelled() -> None:
    """A tree that is cancelled while it grows is discarded."""
    model = ToyModel()
    model.cancel_after = 1
    place = Place(("Where is my parcel? It was to come on Monday.",), 0, 1, "")
    request = Grow([place], TreeOptions(alpha=0.02, max_tokens=5), Budget())
    with pytest.raises(Cancelled):
        grow_trees(model, request, lambda nodes: None)


TALK = render_log(
    [
        Message("system", "You sell lamps."),
        Message("user", "A red one?"),
        Message("assistant", "Yes,\n12 dollars."),
        Message("user", "Thanks"),
        Message("assistant", "Bye."),
        Message("user", "Bye"),
    ]
)


class TestPlaces:
    def test_before_the_last_answer(self) -> None:
        """The prompt ends with the header of the assistant's last step, whose content is the recorded answer."""
        (place,) = find_places(TALK, "last-answer")

        assert "".join(place.texts).endswith("Thanks\n\nTURN 3, STEP 5, assistant chat:\n")
        assert (place.step, place.answer, place.pinned_pieces) == (5, "Bye.", 1)

    def test_at_the_end(self) -> None:
        """At the end the prompt is the whole log, and there is no recorded answer."""
        (place,) = find_places(TALK, "end")

        assert (len(place.texts), place.answer, place.step) == (6, "", 6)
