"""The modules: protocol, fallbacks, and the flow from chunks to answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.model.talking import Call
from engine.simulate.forms.form import Form, fields, known_form, read_form
from engine.simulate.forms.modules import MODULES
from engine.simulate.forms.profiles import Profile
from tests.engine.simulate.forms.playing import (
    ANNA,
    Script,
    all_but,
    as_reply,
    leaf,
    played,
    prompt_of,
    small_form,
)

ANSWERS = {"First": "Anna", "Town": "Ulm", "Colour": "red"}


def town_only() -> Form:
    return read_form("one", "a town", {"Town": leaf()})


def answer_by_label(call: Call) -> str:
    """The answer to a question that begins with a label."""
    question = prompt_of(call).split("QUESTION:\n")[-1]
    label = next((one for one in ANSWERS if question.startswith(one)), None)
    return as_reply({"answer": ANSWERS[label] if label else "none"})


def result(script: Script, **how: Any) -> dict[str, Any]:
    return dict(played(script, **how).ending.result)


def answers_of(found: dict[str, Any]) -> dict[str, Any]:
    return {one.path[-1]: one.answer for one in fields(found["filled"])}


# Fallbacks


def test_dummies_fill_a_form_without_any_model() -> None:
    """With every module a dummy only the user is asked; the fallbacks ask field by field and copy the answers."""
    script = Script({"user": answer_by_label})
    found = result(script)
    assert {call.module for call in script.asked} == {"user"}
    assert answers_of(found) == {**ANSWERS, "Middle": None, "Remark": None}
    assert (found["ended"], found["complete"], found["turns"]) == ("stop", True, 3)


def test_a_question_of_a_dummy_lists_the_options() -> None:
    """The label of the first open field, with its options where it has some."""
    found = result(Script({"user": answer_by_label}))
    questions = [line["Assistant"] for line in found["dialogue"] if "Assistant" in line]
    assert questions == ["First", "Town", "Colour Your Options are : ['red', 'blue']"]


def test_a_bad_reply_is_asked_for_once_more_and_then_replaced() -> None:
    """The second call says what is wanted and is warmer; after it the fallback holds, and the run goes on."""
    script = Script({"user": answer_by_label, "question_generation": "Who are you?"})
    found = result(script, dummies=all_but("question_generation"), form=town_only())
    first, second = script.of("question_generation")
    assert prompt_of(second).startswith(prompt_of(first))
    assert "Regular Expression" in prompt_of(second)
    assert "Regular Expression" not in prompt_of(first)
    assert (first.sampling.temperature, second.sampling.temperature) == (0.0, 0.2)
    assert found["again"] == {"question_generation": 1}
    assert found["fallbacks"]["question_generation"] == 1
    assert found["complete"]


def test_a_second_reply_that_is_good_counts() -> None:
    """The fallback is not taken where the second call helps."""
    replies = ["none", as_reply({"question": "Town, please?", "fields": ["Town"]})]
    script = Script({"user": as_reply({"answer": "Ulm"}), "question_generation": replies})
    found = result(script, dummies=all_but("question_generation"), form=town_only())
    assert found["dialogue"][0] == {"Assistant": "Town, please?"}
    assert "question_generation" not in found["fallbacks"]


@pytest.mark.parametrize("module", [one.name for one in MODULES])
def test_no_bad_reply_ends_a_run(module: str) -> None:
    """Whatever one module says, the run comes to its end, and the conversation is there."""
    for reply in ("", "{}", '{"next action": "dance"}', '{"question": 3, "fields": {}}', "[]"):
        script = Script({"user": answer_by_label, module: reply})
        over = played(script, dummies=all_but(module))
        assert over.ending.result["ended"] in ("stop", "turns", "decisions")
        assert over.ending.record is not None


def test_a_silent_user_is_taken_to_say_nothing() -> None:
    """Where the user's reply cannot be read twice, the answer is a blank."""
    found = result(Script({"user": "what?"}), form=town_only(), turns_per_field=1)
    assert found["dialogue"] == [{"Assistant": "Town"}, {"User": " "}]
    assert (found["ended"], found["fallbacks"]["user"]) == ("stop", 1)


# The manager and its chunks


def test_labels_are_grouped_in_batches_and_names_told_apart() -> None:
    """Each batch is grouped alone; a name that two batches give is numbered."""
    form = read_form("many", "", {f"L{number}": leaf() for number in range(10)})
    script = Script({"user": as_reply({"answer": "x"})})
    found = result(script, form=form, grouping_size=7)
    assert {name: [*state["fields"]] for name, state in found["chunks"].items()} == {
        "Group 2": ["L4", "L5", "L6"],
        "Group 1 1": ["L0", "L1", "L2", "L3"],
        "Group 1 2": ["L7", "L8", "L9"],
    }


def test_a_grouping_may_name_summaries_and_leave_labels_out() -> None:
    """A summary stands for its label; a label in no group is never asked for and is told."""
    groups = as_reply({"All": ["the town", "Name"]})
    summaries = {"Town": "the town", "Name": "the name"}

    def summary(call: Call) -> str:
        label = next(one for one in small_form().content if f'{{"{one}"' in prompt_of(call))
        return as_reply({"summary": summaries.get(label, label)})

    script = Script(
        {"user": answer_by_label, "question_extraction": summary, "question_grouping": groups}
    )
    found = result(script, dummies=all_but("question_extraction", "question_grouping"))
    assert [*found["chunks"]["All"]["fields"]] == ["Town", "Name"]
    assert found["left_out"] == ["Colour", "Remark"]
    assert not found["complete"]


def test_what_is_no_field_at_the_top_is_in_no_chunk() -> None:
    """A remark on the form and a place for a signature are not asked for."""
    form = read_form("signed", "", {"info": "Write.", "Signature": None, "Town": leaf()})
    found = result(Script({"user": as_reply({"answer": "Ulm"})}), form=form)
    assert [*found["chunks"]["Group 1"]["fields"]] == ["Town"]
    assert (found["complete"], found["left_out"]) == (True, [])


def test_a_grouping_of_unknown_labels_is_refused() -> None:
    """One entry that is neither label nor summary, and the fallback groups."""
    script = Script(
        {"user": answer_by_label, "question_grouping": as_reply({"All": ["Name", "Pet"]})}
    )
    found = result(script, dummies=all_but("question_grouping"))
    assert [*found["chunks"]] == ["Group 1"]


def test_an_unknown_chunk_ends_the_run() -> None:
    """A manager that names a chunk that is none ends the run, as in the source; before any chunks it forms them."""
    script = Script(
        {
            "user": answer_by_label,
            "Dialogue Manager": as_reply({"next action": "fill_chunk", "chunk to work on": "Moon"}),
        }
    )
    found = result(script, dummies=all_but("Dialogue Manager"))
    assert found["ended"] == "unknown chunk"
    assert [*found["chunks"]] == ["Group 1"]
    assert found["manager"]["last action"] == ["form_chunks"]


def test_a_schema_offers_the_manager_what_its_prompt_allows() -> None:
    """First to form chunks, then the open ones by name, and at last only to stop."""
    seen = []

    def manage(call: Call) -> str:
        schema = json.loads(call.sampling.json_schema or "")["properties"]
        action, chunk = (schema[one]["enum"] for one in ("next action", "chunk to work on"))
        seen.append((action, chunk))
        return as_reply({"next action": action[0], "chunk to work on": chunk[0]})

    script = Script({"user": answer_by_label, "Dialogue Manager": manage})
    result(script, dummies=all_but("Dialogue Manager"))
    assert seen == [
        (["form_chunks"], [None]),
        (["fill_chunk"], ["Group 1"]),
        (["stop"], [None]),
    ]


def test_a_chunk_that_is_answered_counts_as_validated_for_the_manager() -> None:
    """The manager does not know the fillers' words; a filler that stops before validating is not called again."""
    script = Script(
        {
            "user": as_reply({"answer": "Ulm"}),
            "chunk_filling": [
                as_reply({"next action": "question_generation"}),
                as_reply({"next action": "stop"}),
            ],
        }
    )
    found = result(script, dummies=all_but("chunk_filling"), form=town_only())
    assert found["chunks"]["Group 1"]["fields"] == {"Town": "answered"}
    assert found["manager"]["chunks"] == {"Group 1": "validated"}
    assert found["ended"] == "stop"


def test_last_actions_are_newest_first_and_six() -> None:
    """A state shows the six last actions only."""
    script = Script({"user": as_reply({"answer": ""})})
    found = result(script, form=town_only(), turns_per_field=9)
    assert found["chunks"]["Group 1"]["last action"] == ["question_generation"] * 6


# Questions and answers


def test_a_field_without_required_parts_is_answered_with_its_chunk() -> None:
    """After one question on a chunk its optional fields are not asked for any more."""
    found = result(Script({"user": answer_by_label}))
    assert not any("Remark" in line.get("Assistant", "") for line in found["dialogue"])
    assert found["chunks"]["Group 1"]["fields"]["Remark"] == "validated"


def test_a_section_with_some_answers_is_partially_answered_and_stays_open() -> None:
    """Of two required parts one is filled: the field is asked for again, with what is known."""
    form = read_form("two", "", {"Name": {"First": leaf(), "Last": leaf()}})
    script = Script({"user": [as_reply({"answer": "Anna"}), as_reply({"answer": "Berg"})]})
    found = result(script, form=form)
    assert [line for line in found["dialogue"] if "Assistant" in line] == [
        {"Assistant": "First"},
        {"Assistant": "Last"},
    ]
    assert answers_of(found) == {"First": "Anna", "Last": "Berg"}


def test_follow_ups_and_repetitions_lengthen_the_dialogue_until_information_is_taken() -> None:
    """Each is another question with an answer; the extractor sees the whole dialogue."""
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
    live = ("answer_parsing", "repeat_question", "follow_up_question", "information_extraction")
    found = result(script, dummies=all_but(*live), form=town_only())
    assert [text for line in found["dialogue"] for text in line.values()] == [
        "Town", "What?", "Which town?", "Here.", "A town has a name. Which?", "Ulm",
    ]  # fmt: skip
    (extracting,) = script.of("information_extraction")
    assert json.dumps(found["dialogue"], ensure_ascii=False) in prompt_of(extracting)
    assert (found["successes"], found["failures"]) == (1, 2)


def test_a_repeated_question_survives_its_fallback() -> None:
    """Where the module fails, the question is put once more under the key that is read."""
    script = Script(
        {
            "user": [as_reply({"answer": "What?"}), as_reply({"answer": "Ulm"})],
            "answer_parsing": [
                as_reply({"next action": "repeat_question"}),
                as_reply({"next action": "information_extraction"}),
            ],
            "information_extraction": as_reply({"Town": "Ulm"}),
        }
    )
    dummies = all_but("answer_parsing", "information_extraction")
    found = result(script, dummies=dummies, form=town_only())
    assert found["dialogue"][2] == {"Assistant": "Your answer did not match the question. Town"}
    assert answers_of(found) == {"Town": "Ulm"}


def test_follow_ups_on_one_question_are_limited() -> None:
    """A parser that is never content is not asked for ever."""
    script = Script(
        {
            "user": as_reply({"answer": ""}),
            "answer_parsing": as_reply({"next action": "follow_up_question"}),
            "follow_up_question": as_reply({"question": "Really?"}),
        }
    )
    dummies = all_but("answer_parsing", "follow_up_question")
    found = result(script, dummies=dummies, form=town_only(), follow_ups=2, turns_per_field=9)
    questions = [line["Assistant"] for line in found["dialogue"] if "Assistant" in line]
    assert questions[:4] == ["Town", "Really?", "Really?", "Town"]


def test_the_validator_corrects_answers() -> None:
    """What it returns replaces the answers; a section with a strange label is refused."""
    good = as_reply({"Town": {"answer": "Bern"}})
    bad = as_reply({"City": {"answer": "Bern"}})
    for reply, town in ((good, "Bern"), (bad, "Ulm")):
        script = Script({"user": as_reply({"answer": "Ulm"}), "fill_validation": reply})
        found = result(script, dummies=all_but("fill_validation"), form=town_only())
        assert answers_of(found) == {"Town": town}
        assert found["chunks"]["Group 1"]["fields"] == {"Town": "validated"}


def test_turns_end_a_run_that_gets_nowhere() -> None:
    """A user who says nothing is asked as often as the rules allow."""
    found = result(Script({"user": as_reply({"answer": ""})}), turns_per_field=2)
    assert (found["ended"], found["turns"]) == ("turns", 2 * 5)


# Who answers


def test_the_user_is_another_one_for_each_question() -> None:
    """As in the source, profiles are drawn question by question, and nobody is right or wrong."""
    people = tuple(Profile(str(number), f"person {number}", {}) for number in range(10))
    script = Script({"user": as_reply({"answer": ""})})
    found = result(script, profiles=people, turns_per_field=4)
    asked = {
        next(one.name for one in people if one.description in prompt_of(call))
        for call in script.asked
    }
    assert len(asked) > 3
    assert (found["right"], found["profile"]) == (None, None)


def test_one_user_for_a_run_knows_the_answers_and_is_judged() -> None:
    """The facts of the question stand in the prompt, the others do not, and what was filled is compared."""
    known = {"Name": {"First": "Anna", "Middle": ""}, "Town": "Ulm", "Colour": "blue", "Remark": ""}
    anna = Profile("anna", "a weaver", {"small": known})
    script = Script({"user": answer_by_label})
    found = result(script, profiles=(anna, ANNA), profile="run")
    of_town = next(call for call in script.asked if "QUESTION:\nTown" in prompt_of(call))
    assert "Town: Ulm" in prompt_of(of_town)
    assert "Anna" not in prompt_of(of_town)
    assert (found["profile"], found["right"]) == ("anna", (2, 3))


def test_runs_take_the_profiles_in_turn() -> None:
    """The second run is the second person's."""
    people = tuple(Profile(name, name, {"small": {"Town": name}}) for name in ("ada", "bo"))
    names = [
        result(Script({"user": answer_by_label}), profiles=people, profile="run", run=run)[
            "profile"
        ]
        for run in (1, 2, 3)
    ]
    assert names == ["ada", "bo", "ada"]


def test_a_person_is_asked_the_question_and_taken_at_their_word() -> None:
    """The call holds the question alone, without a schema, and the reply is the answer."""
    script = Script({"user": "Ulm"})
    over = played(script, form=town_only(), person=True)
    (call,) = script.asked
    assert [message.content for message in call.messages] == ["Town"]
    assert (call.role, call.sampling.json_schema) == ("user", None)
    assert answers_of(dict(over.ending.result)) == {"Town": "Ulm"}


# The whole


def test_a_run_is_a_function_of_its_replies() -> None:
    """Played again with the same replies, every call is the same, seeds included."""
    people = tuple(Profile(str(number), f"person {number}", {}) for number in range(10))
    asked = []
    for _ in range(2):
        script = Script({"user": answer_by_label, "question_generation": "?"})
        played(script, dummies=all_but("question_generation"), profiles=people)
        asked.append(script.asked)
    assert asked[0] == asked[1]


def test_runs_differ_in_what_is_drawn() -> None:
    """Another run has other seeds for its user."""
    seeds = []
    for run in (1, 2):
        script = Script({"user": answer_by_label})
        played(script, run=run)
        seeds.append([call.seed for call in script.asked])
    assert seeds[0] != seeds[1]


def test_the_conversation_lands_with_its_scores_as_truth() -> None:
    """Questions are the assistant's, answers the user's; scores, profile and form are in the truth alone."""
    ending = played(Script({"user": answer_by_label})).ending
    record = ending.record
    assert record is not None
    assert ending.format == "uniform"
    assert [one["role"] for one in record["messages"]] == ["assistant", "user"] * 3
    assert record["truth"]["complete"] is True
    assert record["truth"]["goal"] == "a small matter"
    assert record.keys() == {"id", "dataset", "messages", "truth"}


def test_known_forms_are_filled_by_dummies_too() -> None:
    """A user who says `x` to everything completes each form of the paper but for its options, in bounded time."""
    for name in ("ss5", "epa", "med", "inv"):
        form = known_form(name)
        found = result(Script({"user": as_reply({"answer": "x"})}), form=form)
        assert (found["ended"], found["complete"]) == ("stop", True)
