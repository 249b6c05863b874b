"""Scores of form filling: the counts of the source's script and the figures of its paper."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest

from engine.simulate.forms.form_scores import Count, FormScores, form_scores
from tests.engine.simulate.forms.playing import small_form
from tests.shared_data import original_folder, shared_file


def of(required: Count, optional: Count, turns: int, reps: int, *right: Count) -> FormScores:
    length = required[1] + optional[1]
    of_required, of_optional = right or (None, None)
    return FormScores(
        length,
        required,
        optional,
        turns,
        reps,
        required_right=of_required,
        optional_right=of_optional,
    )


def test_figures_follow_the_formulas_of_the_paper() -> None:
    """Success counts the fields that are filled correctly and weighs optional ones by 0.2; efficiency falls beyond a
    turn for two fields; score is harmonic."""
    scores = of((9, 12), (1, 4), 12, 2, (6, 12), (1, 2))
    assert scores.success == pytest.approx((0.5 + 0.2 * 0.5) / 1.2)
    assert scores.efficiency == pytest.approx(1 / (24 / 16 + 2 / 16))
    assert scores.score == pytest.approx(2 / (1 / 0.5 + 1 / scores.efficiency))
    assert scores.right == (7, 14)


def test_filled_is_not_right() -> None:
    """What is filled has figures of its own; a form that is filled with nothing right has no success."""
    scores = of((12, 12), (4, 4), 8, 0, (0, 12), (0, 4))
    assert (scores.filled_share, scores.filled_score) == (1, 1)
    assert (scores.success, scores.score) == (0, 0)


def test_without_known_answers_there_is_no_success() -> None:
    """Where nobody knows the correct answers, success and score are unknown; they are no truth, and the reward says
    that it counts what is filled."""
    scores = of((9, 12), (1, 4), turns=12, reps=2)
    assert (scores.success, scores.score, scores.right) == (None, None, None)
    assert scores.filled_share == pytest.approx((0.75 + 0.2 * 0.25) / 1.2)
    truth = scores.truth()
    assert truth.keys().isdisjoint(("success", "score", "right", "required_right"))
    assert (truth["reward"], truth["reward_basis"]) == (scores.filled_score, "filled_score")
    judged = of((3, 3), (0, 0), 1, 0, (2, 3), (0, 0))
    assert (judged.truth()["reward"], judged.truth()["reward_basis"]) == (judged.score, "score")
    judged = replace(judged, user_questions=3, successes=2, failures=1)
    assert FormScores.of(judged.figures()) == judged


def test_counts_come_from_form_dialogue_and_transcript() -> None:
    """An empty text counts as unfilled; a repetition is an identical question; an answer is successful by the action
    after parsing.
    """
    content = small_form().blank()
    content["Town"]["answer"], content["Remark"]["answer"] = "Ulm", ""
    content["Colour"]["answer"] = ["red"]
    dialogue = [
        {"Assistant": "Where?"},
        {"User": "Why?"},
        {"Assistant": "Where? "},
        {"User": "Ulm"},
        {"Assistant": "Where?"},
        {"User": "Ulm"},
    ]
    modules = ["user", "answer_parsing", "repeat_question", "user", "answer_parsing"]
    modules += ["information_extraction", "user"]
    assert form_scores(content, dialogue, modules) == FormScores(
        length=5,
        required=(2, 3),
        optional=(0, 2),
        turns=3,
        repetitions=1,
        user_questions=1,
        successes=1,
        failures=2,
    )


if (runs := original_folder("formfill")) is not None and (known := shared_file("formfill")):
    with gzip.open(known, "rt", encoding="utf-8") as lines:
        TRUTH = {(one := json.loads(line))["id"]: one["truth"] for line in lines}

    @pytest.mark.parametrize("stored", ["gpt/disc/2", "sheep_duck/epa/102"])
    def test_stored_runs_score_as_their_source_says(stored: str) -> None:
        """The stored files of a run give the counts and figures stored with its conversation; those figures are of what
        is filled."""
        assert runs is not None

        def read(name: str) -> Any:
            return json.loads((runs / "result_store" / stored / name).read_text("utf-8"))

        interactions = read("transcript.json")["interactions"]
        modules = [one["module"] for one in interactions]
        scores = form_scores(read("filled-form.json"), read("dialogue.json"), modules)
        truth = TRUTH[f"formfill/{stored}"]
        assert scores.complete == truth["complete"]
        assert [*scores.required] == truth["required"]
        assert [*scores.optional] == truth["optional"]
        assert (scores.length, scores.turns) == (truth["fields"], truth["turns"])
        assert scores.repetitions == truth["repetitions"]
        assert _figures(scores) == (truth["success"], truth["efficiency"], truth["reward"])

    def test_figures_of_all_stored_runs_are_those_of_their_counts() -> None:
        """Filled share, efficiency and filled score of the 84 stored dialogues are what its script makes of their
        counts, to four digits."""
        wrong = [
            name
            for name, truth in TRUTH.items()
            if _figures(
                FormScores(
                    truth["fields"],
                    tuple(truth["required"]),
                    tuple(truth["optional"]),
                    truth["turns"],
                    truth["repetitions"],
                )
            )
            != (truth["success"], truth["efficiency"], truth["reward"])
        ]
        assert (len(TRUTH), wrong) == (84, [])


def _figures(scores: FormScores) -> tuple[float, ...]:
    return tuple(
        round(one, 4) for one in (scores.filled_share, scores.efficiency, scores.filled_score)
    )
