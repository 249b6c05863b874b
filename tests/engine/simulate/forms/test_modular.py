"""The modules of form filling: protocol, fallbacks, and the flow from chunks to answers."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from engine.model.chat import Call
from engine.simulate.forms import modular
from engine.simulate.forms.form import read_form
from engine.simulate.forms.form_session import Module
from tests.engine.simulate.forms.playing import (
    ANSWERS,
    Script,
    answer_by_label,
    answers_of,
    as_reply,
    leaf,
    played,
    prompt_of,
    result,
    town_only,
)


def offered(call: Call) -> list[dict[str, Any]]:
    """The choices that a schema leaves to the manager."""
    schema = json.loads(call.sampling.json_schema or "")["properties"]
    names = ("next action", "chunk to work on")
    return [
        dict(zip(names, values, strict=True))
        for values in product(*(schema[name]["enum"] for name in names))
    ]


# Fallbacks


def test_fallbacks_fill_a_form() -> None:
    """Where no module gives a usable reply, fields are asked one by one and answers copied."""
    script = Script({"user": answer_by_label})
    found = result(script)
    assert answers_of(found) == {**ANSWERS, "Middle": None, "Remark": None}
    assert (found["ended"], found["complete"], found["turns"]) == ("stop", True, 3)


def test_a_bad_reply_is_asked_for_once_more_and_then_replaced() -> None:
    """After an invalid reply a second call at a higher temperature says that it cannot be used; after another invalid
    one the fallback replies.
    """
    script = Script({"user": answer_by_label, "question_generation": "Who are you?"})
    found = result(script, form=town_only())
    first, second = script.of("question_generation")
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2].content == "Who are you?"
    assert "cannot be used" in prompt_of(second)
    assert (first.sampling.temperature, second.sampling.temperature) == (0.0, 0.2)
    assert found["fallbacks"]["question_generation"] == 1
    assert found["complete"]


MODULES = [value.name for value in vars(modular).values() if isinstance(value, Module)]


@pytest.mark.parametrize("module", MODULES)
def test_no_bad_reply_ends_a_run(module: str) -> None:
    """Whatever one module replies, the run ends normally with a conversation."""
    for reply in ("", "{}", '{"next action": "dance"}', '{"question": 3, "fields": {}}', "[]"):
        script = Script({"user": answer_by_label, module: reply})
        over = played(script)
        assert over.ending.result["ended"] in ("stop", "turns", "decisions")
        assert over.ending.record is not None


# The manager and its chunks


def test_an_unknown_chunk_ends_the_run() -> None:
    """A manager that names an unknown chunk ends the run, as in the source; before there are chunks it has them
    formed.
    """
    script = Script(
        {
            "user": answer_by_label,
            "Dialogue Manager": as_reply({"next action": "fill_chunk", "chunk to work on": "Moon"}),
        }
    )
    found = result(script)
    assert found["ended"] == "unknown chunk"


def test_a_schema_offers_the_manager_what_its_prompt_allows() -> None:
    """The manager's schema allows first to form chunks, then the open chunks by name, at last only to stop."""
    script = Script(
        {"user": answer_by_label, "Dialogue Manager": lambda call: as_reply(offered(call)[0])}
    )
    result(script)
    assert [offered(call) for call in script.of("Dialogue Manager")] == [
        [{"next action": "form_chunks", "chunk to work on": None}],
        [{"next action": "fill_chunk", "chunk to work on": "Group 1"}],
        [{"next action": "stop", "chunk to work on": None}],
    ]


def test_no_chunk_takes_the_turns_of_all() -> None:
    """A filler asks at most as many questions at a time as its chunk has fields; then the least worked chunk
    comes next.
    """
    form = read_form("two", "", {"Town": leaf(), "Land": leaf()})
    script = Script(
        {
            "user": as_reply({"answer": ""}),
            "question_grouping": as_reply({"A": ["Town"], "B": ["Land"]}),
            "Dialogue Manager": lambda call: as_reply(offered(call)[0]),
        }
    )
    found = result(script, form=form, turns_per_field=2)
    questions = [line["Assistant"] for line in found["dialogue"] if "Assistant" in line]
    assert questions == ["Town", "Land", "Town", "Land"]


# Questions and answers


def test_follow_ups_and_repetitions_lengthen_the_dialogue_until_information_is_taken() -> None:
    """Follow-ups and repeated questions add turns; the extractor gets the whole dialogue."""
    script = Script(
        {
            "user": [as_reply({"answer": text}) for text in ("What?", "Here.", "Ulm")],
            "answer_parsing": [
                as_reply({"next action": one})
                for one in ("repeat_question", "follow_up_question", "information_extraction")
            ],
            "repeat_question": as_reply({"new question": "Which town?"}),
            "follow_up_question": as_reply({"question": "A town has a name. Which?"}),
            "information_extraction": as_reply({"Town": "Ulm"}),
        }
    )
    found = result(script, form=town_only())
    assert [text for line in found["dialogue"] for text in line.values()] == [
        "Town", "What?", "Which town?", "Here.", "A town has a name. Which?", "Ulm",
    ]  # fmt: skip
    (extracting,) = script.of("information_extraction")
    assert json.dumps(found["dialogue"], ensure_ascii=False) in prompt_of(extracting)
    assert (found["successes"], found["failures"]) == (1, 2)


def test_the_validator_corrects_answers() -> None:
    """The validator's reply replaces the answers; a section with an unknown label is refused."""
    good = as_reply({"Town": {"answer": "Bern"}})
    bad = as_reply({"City": {"answer": "Bern"}})
    for reply, town in ((good, "Bern"), (bad, "Ulm")):
        script = Script({"user": as_reply({"answer": "Ulm"}), "fill_validation": reply})
        found = result(script, form=town_only())
        assert answers_of(found) == {"Town": town}
