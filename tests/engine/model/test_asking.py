"""What a prompt shows of a conversation."""

from __future__ import annotations

from engine.model.chat import ANSWER_CHARS, dialogue

TURNS = (
    ("system", "be nice"),
    ("user", "我想学做菜"),
    ("assistant", "a" * 1_000),
    ("user", "Thanks! And then?"),
)


def test_what_a_prompt_shows_of_a_conversation() -> None:
    """Both sides, of answers the beginning, and no other messages."""
    shown = dialogue(TURNS)
    assert shown.startswith("USER: 我想学做菜\n\nASSISTANT: aaa")
    assert shown.endswith("a [...]\n\nUSER: Thanks! And then?")
    assert shown.count("a" * ANSWER_CHARS) == 1
    assert "be nice" not in shown
