"""Known goals in words."""

from __future__ import annotations

import pytest

from engine.goals.questions.phrasing import MOST_CHARS, as_wish_phrase, commanded, named, words_of


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("travel/seat", "seat"),
        ("hotel_book+weather", "hotel book and weather"),
        ("RideSharing", "Ride Sharing"),
        ("no database change", "no database change"),
    ],
)
def test_a_name_in_plain_words(goal: str, words: str) -> None:
    """Without the world before a stroke, signs between words become spaces, several goals are joined by `and`."""
    assert words_of(goal) == words


@pytest.mark.parametrize(
    ("goal", "phrase"),
    [
        ("ride_book", "book a ride"),
        ("apartment_schedule+weather", "schedule an apartment and get help with weather"),
        ("cancel_reservation", "cancel reservation"),
        ("shopping/buy one thing", "buy one thing"),
        ("trivia", "get help with trivia"),
    ],
)
def test_a_name_as_something_to_do(goal: str, phrase: str) -> None:
    """A verb comes first, wherever the name has it; a name without one is something to get help with."""
    assert named(goal) == phrase


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("You want to change your flight. You are in a hurry.", "change their flight"),
        ("i need a projector screen, and price lower than 370.00 dollars", "get a projector screen"),
        ("I'm looking for brown shoes", "get brown shoes"),
        ("Your goal: go to the grey ball\nYou see a wall.", "go to the grey ball"),
        ("What is the share of TV series?", "know what is the share of TV series"),
        ("Could you please list my tasks?", "list their tasks"),
        ("Copies all files below `dir1` to dir3.", "copy all files below dir1 to dir3"),
        ("Recursively rename all files.", "recursively rename all files"),
        ("Follow the instructions of the bot.", "get help with trivia"),
        ("", "get help with trivia"),
    ],
)  # fmt: skip
def test_a_task_as_something_to_do(text: str, wish: str) -> None:
    """What is wanted in the third person, from the first sentence that says it; else the goal's name says it."""
    assert as_wish_phrase("trivia", text) == wish


def test_a_long_task_ends_between_words() -> None:
    """However long the sentence is, the wish is short and of whole words."""
    wish = as_wish_phrase("trivia", "You want to " + "compare prices " * 40)

    assert len(wish) <= MOST_CHARS
    assert set(wish.split()) == {"compare", "prices"}


def test_a_command_is_told_of_somebody_else() -> None:
    """Who commands becomes a third person; sentences stay, so that abbreviations do not end it."""
    assert commanded("change the town of patient no. 8 and call me") == (
        "change the town of patient no. 8 and call them"
    )
