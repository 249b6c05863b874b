"""The form of a structured reply: its schema, its words, and the reading of what a model wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.stages.remaining import OpenRequest, OpenRequests
from engine.goals.questions import GoalSummary, MergeVerdict
from engine.model.reply_forms import (
    YES_NO_WORDS,
    UnreadableReply,
    find_value,
    form_request,
    read_reply,
    reply_schema,
    value_words,
)
from engine.questions.model_answers import reply_form
from engine.questions.question import read_built_in

VERDICT = {
    "same_goal": True, "reason_for": "Both book.", "reason_against": "None.", "label": "Book taxis",
}  # fmt: skip
PLAIN = (
    "**Same goal:** Yes\n\n- *Reason for*: Both book.\n**Reason_against:** None.\nLabel: Book taxis"
)


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(VERDICT),
        f"```json\n{json.dumps(VERDICT, indent=2)}\n```",
        f"<think>{{ is it the same? }}</think>\nSure, here it is: {json.dumps(VERDICT)} Anything else?",
        json.dumps({**VERDICT, "same_goal": "yes", "confidence": 0.9}),
        json.dumps(VERDICT).replace("Both book.", "Both\nbook."),
        PLAIN,
    ],
)
def test_dressed_replies(reply: str) -> None:
    """A reply is read in fences, after thoughts, among words, with yes for true, further fields and line breaks, and as
    lines in bold print."""
    read = read_reply(MergeVerdict, reply)
    assert (read.same_goal, read.reason_for.split(), read.label) == (
        True, ["Both", "book."], "Book taxis",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("I cannot say.", "no JSON object"),
        ('{"same_goal": "perhaps"', "no JSON object"),
        (json.dumps({**VERDICT, "same_goal": "perhaps"}), r"`bool`.*\$\.same_goal"),
        (json.dumps({**VERDICT, "label": "x" * 200}), r"length <= 80.*\$\.label"),
        ("No, they differ.", "missing required field `reason_for`"),
    ],
)
def test_what_is_no_reply(reply: str, why: str) -> None:
    """A reply without fields, with a value of another type or beyond its limit, is an error that names the field."""
    with pytest.raises(UnreadableReply, match=why):
        read_reply(MergeVerdict, reply)


def test_lists() -> None:
    """Lists are read from JSON and from words; an empty one is an answer."""
    assert read_reply(OpenRequests, '{"open": []}').open == []
    read = read_reply(OpenRequests, '**Open:** [{"request": "Book", "step": 3}]')
    assert read.open == [OpenRequest("Book", 3)]
    answer: Any = read_reply(
        reply_form(read_built_in()["finished"]),
        "Explanation: No taxi.\nCites: 2 and 4\nValue: open",
    )
    assert (answer.value, answer.cites) == ("open", [2, 4])


def test_one_text() -> None:
    """Where a text is all that is asked for, a reply in plain words is that text."""
    assert read_reply(GoalSummary, "**The user wants a taxi.**").goal == "The user wants a taxi."


def test_the_schema_has_no_references() -> None:
    """The schema names every type in place and allows no other fields, which is what servers can follow."""
    schema = json.dumps(reply_schema(OpenRequests))
    assert "$ref" not in schema
    assert schema.count('"additionalProperties": false') == 2
    assert '"step" (a number: number of the STEP' in form_request(OpenRequests)


@given(st.text())
def test_any_reply(reply: str) -> None:
    """Any reply is read, or is an error of this kind."""
    for form in (MergeVerdict, GoalSummary, OpenRequests):
        try:
            read_reply(form, reply)
        except UnreadableReply:
            continue


def test_a_verdict_needs_no_schema() -> None:
    """Where no schema says what the values of a field are, they are those of a verdict."""
    words = value_words(None, "same_goal")
    assert words is YES_NO_WORDS
    place = find_value(b"<think>No?</think>The answer is yes.", "same_goal", words)
    assert place is not None
    assert (place.start, place.value) == (len("<think>No?</think>The answer is "), "true")
