"""The steps of a conversation at which trees are grown, with prompt and recorded answer."""

from __future__ import annotations

import pytest

from engine.base.conversation import Message, render_log
from engine.base.errors import UsageError
from engine.trees.model_requests import places

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
        (place,) = places(TALK, "last-answer")

        assert "".join(place.texts).endswith("Thanks\n\nTURN 3, STEP 5, assistant chat:\n")
        assert (place.step, place.answer, place.kept) == (5, "Bye.", 1)

    def test_header_and_answer_are_the_step(self) -> None:
        """Prompt and recorded answer together are the log up to the end of the step."""
        for place in places(TALK, "every"):
            log = "".join(piece.text for piece in TALK if piece.step <= place.step)
            assert "".join(place.texts) + place.answer == log

    def test_at_the_end(self) -> None:
        """At the end the prompt is the whole log, and there is no recorded answer."""
        (place,) = places(TALK, "end")

        assert (len(place.texts), place.answer, place.step) == (6, "", 6)

    def test_no_answer(self) -> None:
        """A conversation without an assistant step has no place for a tree but its end."""
        alone = render_log([Message("user", "Hello?")])
        with pytest.raises(UsageError, match="no assistant step"):
            places(alone, "last-answer")
        with pytest.raises(UsageError, match="no step"):
            places([], "end")
