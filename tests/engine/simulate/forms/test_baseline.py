"""The baseline of form filling: one prompt that asks, decides and fills."""

from __future__ import annotations

from typing import Any

from engine.model.chat import Call
from engine.simulate.forms.run import BAD_IN_A_ROW
from tests.engine.simulate.forms.playing import Script, as_reply, played, prompt_of, small_form

ASK = as_reply({"question": "Where?"})
FILL = as_reply({"next action": "fill_form"})
STOP = as_reply({"next action": "stop"})
MORE = as_reply({"next action": "follow_up"})
USER = as_reply({"answer": "Ulm"})


def baseline(**how: Any) -> tuple[Script, dict[str, Any]]:
    replies = {"question_generation": ASK, "user": USER, "follow_up_question": ASK} | how.pop(
        "replies"
    )
    script = Script(replies)
    over = played(script, variant="baseline", **how)
    return script, dict(over.ending.result)


def filled_with(**answers: str) -> str:
    return as_reply({label: {"answer": answer} for label, answer in answers.items()})


def test_each_filling_leaves_the_open_labels_in_the_form() -> None:
    """Answered labels are no longer in the form of the prompt; a label with an open field stays; the run ends when all
    are answered.
    """
    full = as_reply(
        {
            "Name": {"First": {"answer": "Anna"}, "Middle": {"answer": ""}},
            "Colour": {"answer": "red"},
            "Remark": {"answer": "none"},
        }
    )
    script, found = baseline(
        replies={"next_action": FILL, "form_filling": [filled_with(Town="Ulm"), full]}
    )
    first, second = (prompt_of(call) for call in script.of("question_generation"))
    assert '"Town"' in first
    assert '"Town"' not in second
    assert '"Name"' in second
    assert (found["ended"], found["complete"], found["turns"]) == ("filled", True, 2)


def test_ten_bad_outputs_in_a_row_end_the_run() -> None:
    """Nine invalid outputs are repeated at a rising temperature, the tenth ends the run; a run without a turn is no
    conversation.
    """
    script, found = baseline(
        replies={"question_generation": ["no"] * 9 + [ASK], "next_action": STOP}
    )
    assert found["ended"] == "stop"
    temperatures = [call.sampling.temperature for call in script.of("question_generation")]
    assert temperatures == [0.0] + [0.2] * 9
    script = Script({"question_generation": "no"})
    over = played(script, variant="baseline")
    assert over.ending.result["ended"] == "bad outputs"
    assert len(script.asked) == BAD_IN_A_ROW
    assert over.ending.record is None


def test_the_history_is_cut_from_the_front() -> None:
    """History that does not fit beside the prompt is dropped, oldest first, in pairs of prompt and reply."""
    replies = {"next_action": [MORE] * 5 + [STOP]}
    script, _ = baseline(replies=replies, history_tokens=10_000)
    whole = script.asked[-1].messages
    assert len(whole) > 10
    script, _ = baseline(replies=replies, history_tokens=250)
    cut = script.asked[-1].messages
    assert 2 < len(cut) < len(whole)
    assert cut[1:] == whole[-len(cut) + 1 :]
    assert [message.speaker for message in cut[1:]] == ["user", "assistant"] * (
        len(cut) // 2 - 1
    ) + ["user"]


def test_the_form_is_asked_for_within_its_options() -> None:
    """The schema of a filling holds the open labels of the form."""
    seen: list[Call] = []

    def fill(call: Call) -> str:
        seen.append(call)
        return filled_with(Town="Ulm")

    baseline(replies={"next_action": [FILL, STOP], "form_filling": fill})
    assert all(
        f'"{label}"' in (seen[0].sampling.json_schema or "") for label in small_form().content
    )
