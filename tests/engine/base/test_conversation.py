"""The log that a model reads."""

from __future__ import annotations

import json
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from engine.base.conversation import (
    LOG_SEPARATOR,
    Message,
    Role,
    ToolCall,
    content_hash,
    count_turns,
    opens_turn,
    render_log,
    render_tool_calls,
)

CALLS = st.builds(ToolCall, st.text(max_size=8), st.text(max_size=20) | st.just('{"a": [1]}'))
MESSAGES = st.lists(
    st.builds(
        Message,
        st.sampled_from(get_args(Role)),
        st.text(max_size=30),
        name=st.none() | st.just("Ann"),
        tool_calls=st.lists(CALLS, max_size=2).map(tuple),
        hidden=st.booleans(),
    ),
    max_size=12,
)

GOLDEN = """\
TURN 1, STEP 1, system chat:
Help with flights.

TURN 2, STEP 2, user (Ann) chat:
Cancel EHGLP3.

TURN 2, STEP 3, assistant action:
One moment.
TOOL CALLS: [{"name": "cancel", "args": {"id": "EHGLP3"}}, {"name": "note", "args": "not JSON"}]

TURN 2, STEP 4, assistant (tool) chat:
cancelled

TURN 2, STEP 5, assistant chat:
Done.

TURN 3, STEP 6, user chat:
Thanks!"""


def log_text(*messages: Message) -> str:
    return "".join(piece.text for piece in render_log(messages))


def test_log_has_the_form_of_the_definition() -> None:
    """A log names turn, step, speaker and kind of each step; a tool message counts as the assistant's side."""
    calls = (ToolCall("cancel", '{"id": "EHGLP3"}', "c1"), ToolCall("note", "not JSON"))
    log = log_text(
        Message("system", "Help with flights."),
        Message("user", "Cancel EHGLP3.", name="Ann"),
        Message("assistant", "One moment.", tool_calls=calls),
        Message("tool", "cancelled", name="cancel", tool_call_id="c1"),
        Message("assistant", "Done."),
        Message("user", "Thanks! ###STOP###", model_view="Thanks!"),
        Message("user", "###STOP###", model_view="", hidden=True),
    )
    assert log == GOLDEN


def test_step_that_only_calls_has_no_empty_line() -> None:
    """A message without text shows its calls right under the header."""
    log = log_text(Message("assistant", "", tool_calls=(ToolCall("a", "{}"),)))
    assert log == 'TURN 1, STEP 1, assistant action:\nTOOL CALLS: [{"name": "a", "args": {}}]'


def test_developer_reads_as_system() -> None:
    """A developer message is a system message in the log."""
    assert log_text(Message("developer", "x")).startswith("TURN 1, STEP 1, system chat:")


def test_model_view_stands_for_text_and_calls() -> None:
    """Where the leak guard removed a finishing call, the log has a chat step without it."""
    finish = (ToolCall("finish", '{"answer": "42"}'),)
    message = Message("assistant", "", tool_calls=finish, model_view="42")
    assert log_text(message) == "TURN 1, STEP 1, assistant chat:\n42"


@given(MESSAGES)
def test_pieces_are_the_steps_in_order(messages: list[Message]) -> None:
    """Every message that is not hidden is one piece; only the first has no separator before it."""
    pieces = render_log(messages)
    assert [piece.message for piece in pieces] == [
        index for index, message in enumerate(messages) if not message.hidden
    ]
    assert [piece.step for piece in pieces] == list(range(1, len(pieces) + 1))
    for piece in pieces:
        separated = LOG_SEPARATOR if piece.step > 1 else ""
        assert piece.text.startswith(f"{separated}TURN {piece.turn}, STEP {piece.step}, ")
        assert piece.text.endswith("\n" + messages[piece.message].seen)


@given(MESSAGES)
def test_turns_rise_at_system_and_user_steps(messages: list[Message]) -> None:
    """The turn number rises by one at each system or user step that is shown, and nowhere else."""
    pieces = render_log(messages)
    turns = [piece.turn for piece in pieces]
    assert turns[:1] == [1][: len(turns)]
    for piece, turn, before in zip(pieces[1:], turns[1:], turns, strict=False):
        assert turn - before == int(opens_turn(piece.role))


@given(MESSAGES)
def test_log_of_a_prefix_is_a_prefix_of_the_log(messages: list[Message]) -> None:
    """Later messages never change an earlier piece."""
    whole = render_log(messages)
    for end in range(len(messages)):
        part = render_log(messages[:end])
        assert whole[: len(part)] == part


@given(MESSAGES)
def test_counted_turns_are_those_of_the_shown_log(messages: list[Message]) -> None:
    """Without hidden messages the count equals the last turn number of the log."""
    shown = [message for message in messages if not message.hidden]
    pieces = render_log(shown)
    assert count_turns(shown) == (pieces[-1].turn if pieces else 0)


@given(st.lists(CALLS, max_size=4))
def test_rendered_calls_are_json(calls: list[ToolCall]) -> None:
    """Calls are one line of JSON that names each tool in order."""
    rendered = render_tool_calls(calls)
    assert "\n" not in rendered
    assert [entry["name"] for entry in json.loads(rendered)] == [call.name for call in calls]


def test_hostile_arguments_are_rendered() -> None:
    """Escaped lone surrogates and nesting beyond the parser's limit do not break the log or its encoding."""
    deep = "[" * 100_000 + "]" * 100_000
    nearly = "[" * 950 + "]" * 950
    for arguments in ('{"a": "\\ud800"}', deep, nearly, "1" * 5000, "NaN"):
        render_tool_calls([ToolCall("a", arguments)]).encode("utf-8")


def test_hash_ignores_what_the_guard_changed() -> None:
    """The hash of a conversation does not depend on the leak guard; other texts have other hashes."""
    plain = [Message("user", "hi")]
    assert content_hash(plain) == content_hash([Message("user", "hi", model_view="", hidden=True)])
    assert content_hash(plain) != content_hash([Message("user", "hi ")])
    assert len(content_hash(plain)) == 32
