"""Where a conversation can end."""

from __future__ import annotations

import pytest

from engine.base.conversation import Message, Role, ToolCall, render_log
from engine.completeness.boundaries import NO_BOUNDARY, NO_TEXT, boundaries, no_boundary_reason

LETTERS: dict[str, Role] = {
    "s": "system",
    "d": "developer",
    "u": "user",
    "a": "assistant",
    "t": "tool",
}


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("", []),
        ("u", []),
        ("su", []),
        ("ua", [1]),
        ("uau", [1]),
        ("uaua", [1, 3]),
        ("suatau", [2, 3, 4]),  # the user's last word was never answered
        ("suataaua", [5, 7]),
        ("a", [0]),
        ("aau", [1]),
        ("uat", [1, 2]),
        ("uatatta", [1, 2, 3, 5, 6]),  # answers that come together are one place
        ("uatsat", [1, 4, 5]),
        ("uataua", [3, 5]),  # with a second turn it is the turns that count
        ("uasa", [3]),  # an instruction in between is not the user's turn
        ("dua", [2]),
    ],
)
def test_boundaries_of(roles: str, expected: list[int]) -> None:
    """A boundary is the end of an assistant or tool step before a user step or at the end of the log; in a log of one
    turn also where an assistant hands over to a tool and back."""
    messages = [Message(LETTERS[letter], letter) for letter in roles]
    assert boundaries(render_log(messages)) == expected


def test_without_any_text_there_is_no_boundary() -> None:
    """A log in which nobody says or calls anything has no place to score, whatever the instructions say, and the reason
    is another one than that of a log without an answer."""
    empty = [Message("system", "Be brief."), Message("user", ""), Message("assistant", " \n")]
    called = [*empty[:2], Message("assistant", "", tool_calls=(ToolCall("book", "{}"),))]
    assert boundaries(render_log(empty)) == []
    assert no_boundary_reason(render_log(empty)) == NO_TEXT
    assert boundaries(render_log(called)) == [2]
    assert no_boundary_reason(render_log([Message("user", "Hello?")])) == NO_BOUNDARY


def test_hidden_messages_do_not_exist() -> None:
    """A hidden step is no boundary and makes none: the last visible step before it is the end of the log."""
    messages = [
        Message("user", "book"),
        Message("assistant", "", tool_calls=(ToolCall("book", "{}"),)),
        Message("tool", "ok"),
        Message("user", "###STOP###", hidden=True),
        Message("assistant", "###TRANSFER###", hidden=True),
    ]
    pieces = render_log(messages)
    assert boundaries(pieces)[-1] == len(pieces) - 1
    assert [pieces[index].message for index in boundaries(pieces)] == [1, 2]
