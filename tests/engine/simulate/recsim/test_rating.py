"""Annotating conversations of users with profiles, with scripted replies."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.simulate.prompt_files import prompt_texts
from engine.simulate.recsim.rating import INTENTS, RatingScenario
from engine.simulate.recsim.rating_scales import RATINGS
from tests.engine.simulate.recsim.test_behaviour import played

TURNS = (
    ("user", "A trip, please."),
    ("assistant", "Take the 9:10 to Ulm."),
    ("user", "Thanks!"),
    ("assistant", "Bye."),
)
RATED = RatingScenario(7, TURNS, "en", "Ada, an astronomer", "A trip.", prompt_texts("ratings"))
BEST: dict[str, Any] = {name: grades[-1] for name, grades in RATINGS.items()}


def test_everything_that_the_data_set_annotates() -> None:
    """Ratings of the conversation, the intent of each wish, each answer's hallucination, and the preferences; what is
    judged is shown with what came before it only, and the profile only where the user's part is rated."""
    replies = [
        BEST,
        {"intent": "Planning"}, {"intent": "Others"},
        {"hallucination": True, "memo": " no such train "}, {"hallucination": False, "memo": ""},
        {"preferences": ["trains", "trains ", "quiet"]},
    ]  # fmt: skip
    result, calls = played(RATED, replies)
    assert result == {
        "conversation": 7,
        "labels": {"rating": {"final": BEST}},
        "user_intents": ["Planning", "Others"],
        "hallucination": [True, False],
        "hallucination_memo": ["no such train", ""],
        "preference_summary": ["trains", "quiet"],
    }
    assert len(calls) == RATED.expected
    asked = [call.messages[1].content for call in calls]
    assert ["Ada" in one for one in asked] == [True] + 5 * [False]
    assert "Thanks!" not in asked[1]
    assert "Ulm" in asked[3]
    assert "Thanks!" not in asked[3]
    shape = json.loads(calls[1].sampling.json_schema or "")
    assert tuple(shape["properties"]["intent"]["enum"]) == INTENTS


@pytest.mark.parametrize(
    "bad", ["", "no", json.dumps({**BEST, "Diversity": 3}), '{"Diversity": 1}']
)
def test_what_the_model_cannot_say_is_missing(bad: str) -> None:
    """A reply outside the values is asked for twice more; then there is no rating."""
    only = replace(RATED, parts=("ratings",))
    assert played(only, [bad, bad, BEST])[0]["labels"] == {"rating": {"final": BEST}}
    assert played(only, [bad] * 3)[0]["labels"] == {"rating": {"final": {}}}


def test_an_intent_that_cannot_be_read_is_null() -> None:
    """The intents stay beside their messages."""
    only = replace(RATED, parts=("intents",))
    result, _ = played(only, ["", "", "", {"intent": "Search"}])
    assert result["user_intents"] == [None, "Search"]
