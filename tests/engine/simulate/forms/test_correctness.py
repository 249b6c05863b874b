"""Correctness of a filled form against the answers of a profile."""

from __future__ import annotations

from typing import Any

import pytest

from engine.simulate.forms.form import known_form, known_profiles, right_fields
from engine.simulate.forms.form_scores import Count, fields_of_form
from tests.engine.simulate.forms.playing import leaf


def right(given: Any, known: Any, **kind: Any) -> Count:
    field = leaf(**kind)
    field["answer"] = given
    required, optional = right_fields({"It": field}, {("It",): known})
    assert optional == (0, 0)
    return required


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("03/08/1971", "03/08/1971"),
        ("My name is DOYLE.", "Doyle"),
        (
            "The mill lets brown foam into the river in the evening",
            "The mill lets brown foam into the river every evening",
        ),
    ],
)
def test_a_text_is_right_with_the_words_of_the_answer(given: str, known: str) -> None:
    """A text with three quarters of the answer's words is right; case, punctuation and other words do not count."""
    assert right(given, known) == (1, 1)


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("03/08/1972", "03/08/1971"),
        ("It is foam", "The mill lets brown foam into the river"),
        (None, "Doyle"),
    ],
)
def test_a_text_is_wrong_without_them(given: Any, known: str) -> None:
    """A text without a number of the answer, with few of its words, or empty, is wrong."""
    assert right(given, known) == (0, 1)


def test_options_must_be_the_same() -> None:
    """An option is right only as a whole; a list only with exactly its options."""
    assert right("Legal Alien not allowed", "Legal Alien", options=["Legal Alien"]) == (0, 1)
    several = {"options": ["Land", "Water"], "type": "multi-choice"}
    assert right(["Water", "land"], ["Land", "Water"], **several) == (1, 1)
    assert right(["Water"], ["Land", "Water"], **several) == (0, 1)


def test_a_field_that_both_leave_empty_is_not_judged() -> None:
    """A field that form and profile leave empty is not judged; one that the profile leaves empty and the form does not
    is wrong.
    """
    assert right("", "") == (0, 0)
    assert right("Anna", "") == (0, 1)


@pytest.mark.parametrize("name", ["ss5", "epa", "med", "inv"])
def test_every_profile_answers_every_field(name: str) -> None:
    """The ten profiles have an answer to each field of each form within its options, and required fields are
    not empty.
    """
    form = known_form(name)
    for profile in known_profiles():
        answers = profile.of_form(name)
        content = form.blank()
        for one in fields_of_form(content):
            answer = answers.pop(one.path)
            assert answer or not one.required
            assert not one.options or not answer or {*_listed(answer)} <= {*one.options}
        assert answers == {}
    assert len(known_profiles()) == 10


def _listed(answer: str | list[str]) -> list[str]:
    return [answer] if isinstance(answer, str) else answer
