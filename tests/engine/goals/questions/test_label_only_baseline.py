"""The labelling-only baseline."""

from __future__ import annotations

from engine.goals.questions.label_only_baseline import (
    MOST_LABELS,
    UNNAMED,
    label_in_order,
    question_body,
)
from engine.model.prompt_files import parse_prompt, prompt_text
from tests.engine.goals.toy_asker import ToyAsker

PROMPT = parse_prompt("relabel", prompt_text("relabel"))


def test_reuse() -> None:
    """A label that repeats a former one in a slightly different spelling becomes the former one; the prompt offers the
    former labels.
    """
    asker = ToyAsker([" Book a flight", " Check weather", ' "book a Flight."', " ..."])
    labels = list(label_in_order(asker, PROMPT, ["a", "b", "c", "d"]))
    assert labels == ["Book a flight", "Check weather", "Book a flight", UNNAMED]
    assert "[CATEGORIES]" not in asker.bodies[0]
    assert "- Book a flight\n- Check weather\n" in asker.bodies[2]
    assert "- Check weather\n- Book a flight\n" in asker.bodies[3]


def test_order_matters() -> None:
    """Texts are labelled one after the other, so a stopped run has the labels up to there."""
    asker = ToyAsker(["x", "y"])
    run = label_in_order(asker, PROMPT, ["a", "b", "c"])
    assert [next(run), next(run)] == ["x", "y"]
    assert asker.replies == []


def test_going_on() -> None:
    """A resumed run gives the labels of an uninterrupted one."""
    replies = ["x", "y", " X", "...", "z"]
    whole = ToyAsker(list(replies))
    labels = list(label_in_order(whole, PROMPT, ["a", "b", "c", "d", "e"]))
    rest = ToyAsker(replies[4:])
    assert list(label_in_order(rest, PROMPT, ["a", "b", "c", "d", "e"], labels[:4])) == ["z"]
    assert rest.bodies == whole.bodies[4:]


def test_bounded() -> None:
    """However many labels there are, the prompt contains the last used ones only."""
    body = question_body([f"label {n}" for n in range(500)], "text")
    assert body.count("\n- label") == MOST_LABELS
    assert "- label 499" in body
