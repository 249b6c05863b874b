"""Where trees are grown."""

from __future__ import annotations

import pytest

from engine.conversation import Message, render_log
from engine.errors import UsageError
from engine.trees.places import places

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
        """The prompt ends with the header of the assistant's last step; what it said is the recorded answer."""
        (place,) = places(TALK, "last-answer")

        assert "".join(place.texts).endswith("Thanks\n\nTURN 3, STEP 5, assistant chat:\n")
        assert (place.step, place.answer, place.kept) == (5, "Bye.", 1)

    def test_header_and_answer_are_the_step(self) -> None:
        """What stands before the root and the recorded answer make the log again, up to the step."""
        for place in places(TALK, "every"):
            log = "".join(piece.text for piece in TALK if piece.step <= place.step)
            assert "".join(place.texts) + place.answer == log

    def test_at_the_end(self) -> None:
        """The whole log, and nothing was recorded after it."""
        (place,) = places(TALK, "end")

        assert (len(place.texts), place.answer, place.step) == (6, "", 6)

    def test_no_answer(self) -> None:
        """A conversation in which nobody answered has no place for a tree but its end."""
        alone = render_log([Message("user", "Hello?")])
        with pytest.raises(UsageError, match="no assistant step"):
            places(alone, "last-answer")
        with pytest.raises(UsageError, match="no step"):
            places([], "end")
