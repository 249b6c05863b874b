"""Annotating conversations of users with profiles: with scripted replies, and on the default model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.conversations.filters import ListQuery, parse_filter
from engine.model.chat import Call, Completion
from engine.model.prompt_files import prompt_texts
from engine.opener.annotation_tasks import argilla_settings, labeling_config
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.questions.question_names import ALLOWED_RATINGS, QUESTION_BY_RATING
from engine.simulate.records import PlayRow
from engine.simulate.service.ratings import (
    INTENTS,
    RatingScenario,
    answer_ratings,
    label_rows,
    rated_by_turns,
    rating_agreement,
)
from tests.engine.project.support import begin_run
from tests.engine.simulate.playing import play_all
from workbench.cli import main

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

BEST: dict[str, Any] = {name: grades[-1] for name, grades in ALLOWED_RATINGS.items()}


def play(scenario: RatingScenario, replies: Sequence[Any]) -> tuple[dict[str, Any], list[Call]]:
    """The result of a play with these replies, and the calls."""
    left = iter(replies)

    def say(calls: Sequence[Call]) -> list[Completion]:
        texts = [next(left) for _ in calls]
        return [
            Completion(text if isinstance(text, str) else json.dumps(text), "end") for text in texts
        ]

    (played,) = play_all([scenario], say, parallel=1)
    assert next(left, None) is None
    return dict(played.ending.result), [line.call for line in played.transcript]


def test_everything_that_the_data_set_annotates() -> None:
    """Ratings of the conversation, the intent of each wish, each answer's hallucination, and the preferences; what is
    judged is shown with what came before it only, and the profile only where the user's part is rated."""
    replies = [
        BEST,
        {"intent": "Planning"}, {"intent": "Others"},
        {"hallucination": True, "memo": " no such train "}, {"hallucination": False, "memo": ""},
        {"preferences": ["trains", "trains ", "quiet"]},
    ]  # fmt: skip
    result, calls = play(RATED, replies)
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
    _, [call] = play(replace(RATED, parts=("ratings",)), [BEST])
    guide = ElementTree.fromstring(labeling_config(ratings=True)).find("Text[@name='guide']")
    assert guide is not None
    texts = (
        call.messages[1].content,
        guide.get("value", ""),
        argilla_settings(ratings=True)["guidelines"],
    )
    for text in texts:
        assert [line for line in text.splitlines() if line.startswith("- ")] == SOURCE.splitlines()
        assert all(f"\n{name}" in text for name in ALLOWED_RATINGS)


@pytest.mark.parametrize(
    "bad", ["", "no", json.dumps({**BEST, "Diversity": 3}), '{"Diversity": 1}']
)
def test_what_the_model_cannot_say_is_missing(bad: str) -> None:
    """A reply outside the values is asked for twice more; then there is no rating."""
    only = replace(RATED, parts=("ratings",))
    assert play(only, [bad, bad, BEST])[0]["labels"] == {"rating": {"final": BEST}}
    assert play(only, [bad] * 3)[0]["labels"] == {"rating": {"final": {}}}


def test_an_intent_that_cannot_be_read_is_null() -> None:
    """The intents stay beside their messages."""
    only = replace(RATED, parts=("intents",))
    result, _ = play(only, ["", "", "", {"intent": "Search"}])
    assert result["user_intents"] == [None, "Search"]


def project(path: Path, messages: Sequence[str]) -> str:
    """A project with a conversation for each message of a user."""
    lines = path.with_suffix(".jsonl")
    records = [
        {"id": f"s{number}", "messages": [
            {"role": "user", "content": text}, {"role": "assistant", "content": "Fine."}
        ]}
        for number, text in enumerate(messages)
    ]  # fmt: skip
    lines.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    assert main(["import", str(path), str(lines)]) == 0
    return str(path)


def row(conversation: int, ratings: Mapping[str, int], **parts: Any) -> PlayRow:
    """A play with the ratings of one conversation."""
    result = {"conversation": conversation, "labels": {"rating": {"final": ratings}}, **parts}
    return PlayRow(1, "c", "ratings", str(conversation), 1, None, None, result)


def test_a_new_rating_replaces_the_old_one(tmp_path: Path) -> None:
    """A conversation has the answers of its newest ratings, which filters find by the name of the model."""
    path = project(tmp_path / "p.wb", ["A boat.", "A rose."])
    with Project.open(path) as opened:
        opened.write(lambda conn: begin_run(conn, "simulate", "c"))
        first = row(1, {"Diversity": 0, "Detail Level": 2})
        assert answer_ratings(opened, [first, row(2, {})], "c", "m") == 2
        again = row(1, {"Diversity": 1, "Detail Level": 2})
        assert answer_ratings(opened, [again], "c", "m") == 2
    with OpenProject(Path(path), read_only=True) as workspace:
        for text in ("diversity:1", "diversity@m:1", "detail_level@model:2", "detail_level>=2"):
            query = ListQuery(parse_filter(text))
            assert list(workspace.conversations.ids(query)) == [1], text
        assert not workspace.conversations.ids(ListQuery(parse_filter("diversity:0")))


def test_counts_of_labels() -> None:
    """The table has the counts of each rating, and of the conversations that have one."""
    rows = [row(1, {"Memorization": 1}), row(2, {"Memorization": 1}), row(3, {})]
    memorization = next(one for one in label_rows(rows) if one.label == "Memorization")
    assert (memorization.asked, memorization.labelled) == (3, 2)
    assert memorization.counts == {"0": 0, "1": 2}


def test_agreement_with_what_came_along_and_with_people() -> None:
    """Ratings are compared with truth and with people's answers; annotations of messages place by place, where
    both sides have one; a value that is none of the grades counts as none."""
    parts = {"user_intents": ["Planning", None, "Others"], "hallucination": [True, False]}
    rows = [row(1, {"Diversity": 2, "Memorization": 1}, **parts), row(2, {"Diversity": 2})]
    truths: dict[int, dict[str, Any]] = {
        1: {
            "rating": {"Diversity": 1},
            "user_intents": ["Planning", "Search", "Search"],
            "hallucination": [None, False],
        },
        2: {"rating": {"Diversity": 3}},
    }
    people = {1: {"diversity": "2", "memorization": "0", "x": "yes"}}
    assert [
        (one.label, one.other, one.found.count, one.found.accuracy.value)
        for one in rating_agreement(rows, truths, people)
    ] == [
        ("Memorization", "people", 1, 0.0),
        ("Diversity", "published", 1, 0.0),
        ("Diversity", "people", 1, 1.0),
        ("user_intents", "published", 2, 0.5),
        ("hallucination", "published", 1, 1.0),
    ]
    (turns,) = rated_by_turns(rows[:1], {1: 3})
    assert (turns.turns, turns.means["Diversity"].value) == (3, 2.0)


def test_on_the_default_model(
    tuned_shallow: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every reply is one of the grades, in Chinese as well, and the ratings become answers."""
    path = project(tmp_path / "p.wb", ["我想给外甥女准备礼物，有什么建议？", "A boat.", "A rose."])
    capsys.readouterr()
    words = ["analyse", "ratings", path, "--part", "ratings", "--limit", "2", "--keep", "--json"]
    assert main([*words, "--context", "2048"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sum(one["conversations"] for one in printed["turns"]) == 2
    assert [one["labelled"] for one in printed["labels"]] == [2] * len(ALLOWED_RATINGS)
    ratings = printed["conversations"][0]["rating"]
    assert set(ratings) == set(ALLOWED_RATINGS)
    with OpenProject(Path(path), read_only=True) as opened:
        for name, grade in ratings.items():
            question = QUESTION_BY_RATING[name]
            first = opened.questions.answers(question, ListQuery(parse_filter("draw>=0")))[0]
            assert first.value == str(grade)


def test_nobody_speaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Conversations without a user message are a usage error before any model is asked."""
    path = str(tmp_path / "p.wb")
    lines = tmp_path / "silent.jsonl"
    lines.write_text('{"id": "a", "messages": [{"role": "assistant", "content": "Hello?"}]}\n')
    assert main(["import", path, str(lines)]) == 0
    assert main(["analyse", "ratings", path]) == 2
    assert "does a user speak" in capsys.readouterr().err
