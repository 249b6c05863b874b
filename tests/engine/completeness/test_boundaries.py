"""Where a conversation can end."""

from __future__ import annotations

import pytest

from engine.completeness.boundaries import boundaries
from engine.conversation import Message, Role, ToolCall, render_log

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
        ("suatau", [4]),
        ("suataaua", [5, 7]),
        ("a", [0]),
        ("aau", [1]),
        ("uat", [2]),
        ("uasa", [3]),  # an instruction in between is not the user's turn
        ("dua", [2]),
    ],
)
def test_boundaries_of(roles: str, expected: list[int]) -> None:
    """A boundary is the end of an assistant or tool step before a user step or at the end of the log."""
    messages = [Message(LETTERS[letter], letter) for letter in roles]
    assert boundaries(render_log(messages)) == expected


def test_hidden_messages_do_not_exist() -> None:
    """A hidden step neither is a boundary nor makes one, so the boundary before it is the end of the log."""
    messages = [
        Message("user", "book"),
        Message("assistant", "", tool_calls=(ToolCall("book", "{}"),)),
        Message("tool", "ok"),
        Message("user", "###STOP###", hidden=True),
        Message("assistant", "###TRANSFER###", hidden=True),
    ]
    pieces = render_log(messages)
    assert [pieces[index].message for index in boundaries(pieces)] == [2]
