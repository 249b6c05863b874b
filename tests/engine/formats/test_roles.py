"""The one list of words for speakers."""

from __future__ import annotations

import json

import pytest

from engine.formats.messages.roles import role_meant, role_of_speaker
from tests.engine.formats.reading import one


@pytest.mark.parametrize(
    ("label", "role"),
    [
        ("Customer support", "assistant"), ("userMessage", "user"), ("AGENT_2", "assistant"), ("tool result", "tool"),
        ("comment", None), ("end_user", "user"), ("Sorcerer", None),
    ],
)  # fmt: skip
def test_labels(label: str, role: str | None) -> None:
    """A label stands for the role of its last known word; a word within a longer one does not count."""
    assert role_meant(label) == role


def test_tables_transcripts_and_speakers_agree() -> None:
    """A word has the same role in a table, in a text, under `speaker` and under `role`."""
    for word in ("doctor", "operator"):
        rows = f"session,speaker,text\n1,{word},Hello\n1,patient,It hurts\n"
        spoken = [{"speaker": word, "text": "Hello"}, {"speaker": "patient", "text": "It hurts"}]
        for data in (
            rows,
            f"{word.title()}: Hello\nPatient: It hurts\n",
            json.dumps({"messages": spoken}),
            json.dumps(
                {"messages": [{"role": s["speaker"], "content": s["text"]} for s in spoken]}
            ),
        ):
            messages = one(data.encode()).conversation.messages
            assert [message.role for message in messages] == [role_of_speaker(word), "user"]
