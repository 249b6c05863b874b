"""Profiles from a file, and which facts of a profile a question selects."""

from __future__ import annotations

import json

import pytest

from engine.base.errors import UsageError
from engine.simulate.forms.form import facts_for, people_of_paper, profiles_of_file

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


def test_profiles_of_a_person_are_descriptions_with_or_without_answers() -> None:
    """A profile may be a text alone, without answers."""
    text = json.dumps(["a smith", {"description": "a baker", "answers": {"f": {"A": {"B": "c"}}}}])
    smith, baker = profiles_of_file("people.json", text)
    assert (smith.description, smith.of_form("f")) == ("a smith", {})
    assert baker.of_form("f") == {("A", "B"): "c"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no list of profiles"),
        ('["a", {"answers": {}}]', "Profile 2 describes nobody"),
        ('[{"description": "a", "answers": {"f": {"A": 3}}}]', "the answers to `f`"),
    ],
)
def test_what_is_no_profile_is_refused(text: str, said: str) -> None:
    """An invalid profile is refused with its number."""
    with pytest.raises(UsageError, match=said):
        profiles_of_file("people.json", text)


def test_the_people_of_the_paper_know_no_answers() -> None:
    """They are ten descriptions, as section 4.4 lists them."""
    people = people_of_paper()
    assert (len(people), people[1].description) == (
        10,
        "a fisherman living on the west coast of the USA",
    )
    assert not any(one.answers for one in people)
