"""Finding where further requests begin."""

from __future__ import annotations

from engine.completeness.request_starts import common_words, request_starts
from engine.conversation import Message


def talk(*texts: str) -> list[Message]:
    """Messages of user and assistant by turns."""
    return [Message("assistant" if at % 2 else "user", text) for at, text in enumerate(texts)]


TWO = talk(
    "Weather in Ulm on Monday?", "Monday in Ulm is sunny.",
    "And Tuesday in Ulm?", "Ulm on Tuesday: rain.",
    "Book me a dentist appointment", "Your dentist appointment is booked",
)  # fmt: skip
DONE = {1: 0.9, 3: 0.8, 5: 0.9}
NONE: frozenset[str] = frozenset()


def test_new_words_after_what_is_done_begin_a_request() -> None:
    """A turn that takes up words of before goes on with the request; new words begin another."""
    assert request_starts(TWO, DONE, NONE) == [4]


def test_nothing_begins_while_the_request_is_not_done() -> None:
    """With a low score before it, the same message goes on; without a score nothing can be said."""
    assert request_starts(TWO, {**DONE, 3: 0.1}, NONE) == []
    assert request_starts(TWO, {}, NONE) == []


def test_the_score_is_that_of_the_boundary_before() -> None:
    """The score after the message itself does not matter, and a turn without a boundary keeps the one before."""
    assert request_starts(TWO, {1: 0.9, 5: 0.0}, NONE) == [4]


def test_common_words_say_nothing() -> None:
    """Words that more than a third of the conversations have count neither as new nor as taken up."""
    others = [talk("dentist appointment please", "ok"), talk("a dentist", "an appointment")]
    common = common_words([TWO, *others, talk("x", "y")])
    assert common == {"dentist", "appointment"}
    assert request_starts(TWO, DONE, common) == [4]
    assert request_starts(TWO, DONE, common | {"book", "me", "a"}) == []


def test_thanks_begin_nothing() -> None:
    """A message of one new word is no request."""
    assert request_starts([*TWO[:4], *talk("Thanks!", "Bye.")], DONE, NONE) == []
