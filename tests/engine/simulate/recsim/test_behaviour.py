"""Labelling users and predicting their profiles, with scripted replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.model.chat import Call, Completion
from engine.model.asking import Scenario
from engine.model.prompt_texts import prompt_texts
from engine.simulate.recsim.behaviour import RUNS, SCHEMAS, Label, LabellingScenario, vote
from engine.model.asking import ANSWER_CHARS, dialogue
from engine.simulate.recsim.guessing import GuessingScenario
from tests.engine.simulate.playing import play_all

TURNS = (
    ("system", "be nice"),
    ("user", "我想学做菜"),
    ("assistant", "a" * 1_000),
    ("user", "Thanks! And then?"),
)
READING = LabellingScenario(7, TURNS, "zh", prompt_texts("behaviour"))
GUESS = GuessingScenario(
    7,
    "I like fish",
    {"Gender": ("Female", "Male"), "Personality": ("calm", "loud", "odd", "shy")},
    frozenset({"Gender"}),
    prompt_texts("profiles"),
)


def played(scenario: Scenario, replies: Sequence[Any]) -> tuple[dict[str, Any], list[Call]]:
    """The result of a play with these replies, and the calls."""
    left = iter(replies)

    def say(calls: Sequence[Call]) -> list[Completion]:
        texts = [next(left) for _ in calls]
        return [
            Completion(one if isinstance(one, str) else json.dumps(one), "end") for one in texts
        ]

    (one,) = play_all([scenario], say, parallel=1)
    assert next(left, None) is None
    return dict(one.ending.result), [line.call for line in one.transcript]


def one_of(schema: str, at: int = 0) -> dict[str, Label]:
    return {name: labels[at] for name, labels in SCHEMAS[schema].items()}


class TestLabels:
    def test_three_runs_of_each_schema(self) -> None:
        """Labels are stored as in the data set: the runs by number, and the vote."""
        first, second = one_of("strategy_V3"), one_of("strategy_V3", 1)
        reading = replace(READING, schemas=("strategy_V3",))
        result, calls = played(reading, [first, second, second])
        assert result == {
            "conversation": 7,
            "labels": {"strategy_V3": {"final": second, "1": first, "2": second, "3": second}},
        }
        assert len({call.seed for call in calls}) == RUNS
        assert {call.role for call in calls} == {"judge"}

    def test_replies_cannot_be_anything_else(self) -> None:
        """Every call has the schema of its labels and the conversation."""
        replies = [one_of(schema) for schema in SCHEMAS for _ in range(RUNS)]
        _, calls = played(READING, replies)
        assert [call.module for call in calls] == [name for name in SCHEMAS for _ in range(RUNS)]
        for call in calls:
            shape = json.loads(call.sampling.json_schema or "")
            assert {
                name: tuple(one["enum"]) for name, one in shape["properties"].items()
            } == SCHEMAS[call.module]
            assert call.sampling.temperature > 0
            assert "我想学做菜" in call.messages[1].content
            assert "Chinese" in call.messages[1].content

    @pytest.mark.parametrize(
        "bad", ["", "no", '{"order": "Depth"}', '{"order": "x", "feedback": "Both"}']
    )
    def test_bad_replies(self, bad: str) -> None:
        """An invalid reply is asked for once more; a run without labels does not vote, and without any run there is no
        label.
        """
        reading = replace(READING, schemas=("strategy_V2",))
        good = one_of("strategy_V2")
        result, _ = played(reading, [bad, good, bad, bad, good])
        assert result["labels"]["strategy_V2"] == {"final": good, "1": good, "3": good}
        result, _ = played(reading, [bad] * 2 * RUNS)
        assert result["labels"]["strategy_V2"] == {"final": {}}

    def test_what_is_shown(self) -> None:
        """The prompt shows both sides, of answers the beginning, and no other messages."""
        shown = dialogue(TURNS)
        assert shown.startswith("USER: 我想学做菜\n\nASSISTANT: aaa")
        assert shown.endswith("a [...]\n\nUSER: Thanks! And then?")
        assert shown.count("a" * ANSWER_CHARS) == 1
        assert "be nice" not in shown


@pytest.mark.parametrize(
    ("labels", "voted"),
    [
        (["a", "b", "b"], "b"),
        (["a", "b", "c"], "a"),
        ([3, 4, 4], 4),
        ([3, 3, 4], 3),
        ([2, 3, 4], 3),
        ([1, 5, 4], 4),
        ([1, 2], 2),
        ([], None),
    ],
)
def test_votes(labels: list[Label], voted: Label | None) -> None:
    """The vote is the majority of words, else the first; of grades the rounded mean, or the median where they lie far
    apart.
    """
    assert vote(labels) == voted


class TestGuesses:
    def test_one_and_many(self) -> None:
        """A field with one answer gets one value, the others a list of the given ones."""
        result, calls = played(GUESS, [{"answer": "Male"}, {"answers": ["calm", "shy"]}])
        assert result == {
            "conversation": 7,
            "guessed": {"Gender": ["Male"], "Personality": ["calm", "shy"]},
        }
        assert all("I like fish" in call.messages[1].content for call in calls)

    def test_bad_replies(self) -> None:
        """After two invalid replies there is no prediction, which counts as wrong, and the run continues."""
        bad = [{"answer": "Robot"}, "?", {"answers": ["calm", "mad"]}, {"answers": "calm"}]
        result, _ = played(GUESS, bad)
        assert result["guessed"] == {"Gender": [], "Personality": []}
