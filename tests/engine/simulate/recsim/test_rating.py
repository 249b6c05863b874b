"""Annotating conversations of users with profiles, with scripted replies."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.opener.forms.annotation import argilla_settings, labeling_config
from engine.questions.rating_scales import RATINGS
from engine.model.prompt_texts import prompt_texts
from engine.simulate.recsim.rating import INTENTS, RatingScenario
from tests.engine.simulate.recsim.test_behaviour import played

TURNS = (
    ("user", "A trip, please."),
    ("assistant", "Take the 9:10 to Ulm."),
    ("user", "Thanks!"),
    ("assistant", "Bye."),
)
RATED = RatingScenario(7, TURNS, "en", "Ada, an astronomer", "A trip.", prompt_texts("ratings"))
SOURCE = """\
- 2 (High): In-depth responses with detailed explanations (e.g., a recipe including specific ingredients and \
step-by-step instructions).
- 0 (Low): Vague or brief responses (e.g., listing destination names without descriptions in a travel plan).
- 1 (Medium): Responses between these extremes.
- Low (0): Only one or two options provided per query.
- Medium (1): Some queries have three or more options, while others are limited.
- High (2): All queries include three or more diverse options.
- Not usable (0): Unrealistic plans (e.g., an overly tight travel schedule or learning plans with \
unreasonably fast progress).
- Somewhat usable (1): Partially applicable suggestions (e.g., gift ideas that provide inspiration but are \
difficult to implement).
- Highly usable (2): Practical and actionable plans (e.g., a Python learning plan with achievable milestones).
"""
"""The rubric of the data set's README, as it stands there."""

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


def test_the_rubric_has_the_words_of_its_source() -> None:
    """A judge and an annotator read the README's rubric letter for letter, below the names of the ratings."""
    _, [call] = played(replace(RATED, parts=("ratings",)), [BEST])
    guide = ElementTree.fromstring(labeling_config(ratings=True)).find("Text[@name='guide']")
    assert guide is not None
    texts = (
        call.messages[1].content,
        guide.get("value", ""),
        argilla_settings(ratings=True)["guidelines"],
    )
    for text in texts:
        assert [line for line in text.splitlines() if line.startswith("- ")] == SOURCE.splitlines()
        assert all(f"\n{name}" in text for name in RATINGS)


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
