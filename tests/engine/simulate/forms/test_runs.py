"""Runs of form filling: the simulated user, the random draws, and the imported conversation."""

from __future__ import annotations

import pytest

from engine.simulate.forms.form import Profile, known_form
from tests.engine.simulate.forms.playing import (
    ANNA,
    Script,
    answer_by_label,
    as_reply,
    played,
    prompt_of,
    result,
)

# Who answers


def test_the_user_is_another_one_for_each_question() -> None:
    """As in the source, a profile is drawn for each question, and correctness is not judged."""
    people = tuple(Profile(str(number), f"person {number}", {}) for number in range(10))
    script = Script({"user": as_reply({"answer": ""})})
    found = result(script, profiles=people, turns_per_field=4)
    asked = {
        next(one.name for one in people if one.description in prompt_of(call))
        for call in script.of("user")
    }
    assert len(asked) > 3
    assert (found["right"], found["profile"]) == (None, None)


def test_one_user_for_a_run_knows_the_answers_and_is_judged() -> None:
    """A fixed profile's matching facts are in the prompt and no others; the filled form is compared with its
    answers.
    """
    known = {"Name": {"First": "Anna", "Middle": ""}, "Town": "Ulm", "Colour": "blue", "Remark": ""}
    anna = Profile("anna", "a weaver", {"small": known})
    script = Script({"user": answer_by_label})
    found = result(script, profiles=(anna, ANNA), profile="run")
    of_town = next(call for call in script.of("user") if "QUESTION:\nTown" in prompt_of(call))
    assert "Town: Ulm" in prompt_of(of_town)
    assert "Anna" not in prompt_of(of_town)
    assert (found["profile"], found["right"]) == ("anna", (2, 3))
    assert (found["required_right"], found["optional_right"]) == ((2, 3), (0, 0))
    assert found["success"] == pytest.approx(2 / 3)
    assert found["filled_share"] == pytest.approx(1 / 1.2)


# The whole


def test_the_conversation_lands_with_its_scores_as_truth() -> None:
    """In the imported conversation questions are the assistant's and answers the user's; scores, profile and form are
    in the truth only.
    """
    ending = played(Script({"user": answer_by_label})).ending
    record = ending.record
    assert record is not None
    assert ending.format == "uniform"
    assert [one["role"] for one in record["messages"]] == ["assistant", "user"] * 3
    assert record["truth"]["complete"] is True
    assert record["truth"]["goal"] == "a small matter"
    assert record.keys() == {"id", "dataset", "messages", "truth"}


def test_known_forms_are_filled_by_fallbacks_too() -> None:
    """Fallbacks and a user who answers `x` to everything complete each form of Hakimov et al. but for its options, in
    bounded time.
    """
    for name in ("ss5", "epa", "med", "inv"):
        form = known_form(name)
        found = result(Script({"user": as_reply({"answer": "x"})}), form=form)
        assert (found["ended"], found["complete"]) == ("stop", True)
