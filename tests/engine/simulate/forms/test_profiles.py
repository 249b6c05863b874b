"""The people of the paper, and which facts of a profile a question selects."""

from __future__ import annotations

from engine.simulate.forms.form import facts_for, people_of_paper

ANSWERS = {
    ("9", "Mother", "First Name"): "Ruth",
    ("9", "Mother", "Middle Name"): "",
    ("Town",): "Ulm",
    ("Colours",): ["red", "blue"],
}


def test_facts_are_those_that_share_words_with_the_question() -> None:
    """Selected are the facts whose labels share a word with the question, shown with their labels without the numbers
    of items.
    """
    assert facts_for("What is your mother's first name?", ANSWERS) == [
        "Mother / First Name: Ruth",
        "Mother / Middle Name: (none)",
    ]
    assert facts_for("COLOURS?", ANSWERS) == ["Colours: red, blue"]


def test_the_people_of_the_paper_know_no_answers() -> None:
    """They are ten descriptions, as section 4.4 lists them."""
    people = people_of_paper()
    assert (len(people), people[1].description) == (
        10,
        "a fisherman living on the west coast of the USA",
    )
    assert not any(one.answers for one in people)
