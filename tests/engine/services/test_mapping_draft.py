"""A mapping is guessed from records of any shape, corrected line by line, and saved as a file that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import FormatError
from engine.formats import Parsed, open_inputs
from engine.formats.opening.framing import Frame
from engine.services.mapping_draft import MappingDraft, refusal_of

TALK = [
    {"party": "caller", "heard": {"words": "Where is the next garage?"}, "date": "2025-01-01T10:00:00"},
    {"party": "desk", "heard": {"words": "On Ross Road, two miles away."}, "date": "2025-01-01T10:00:05"},
]  # fmt: skip
SAID = [("user", "Where is the next garage?"), ("assistant", "On Ross Road, two miles away.")]

SHAPES: dict[str, list[Any]] = {
    "a list of messages in a record": [{"nr": n, "phone": {"turns": TALK}} for n in range(3)],
    "conversations in one object": [{"exported": "x", "talks": [{"nr": n, "turns": TALK} for n in range(3)]}],
    "messages by their ids": [{"nr": n, "turns": {"m1": TALK[0], "m2": TALK[1]}} for n in range(3)],
    "a row for each message": [{"call_ref": n, **turn} for n in range(3) for turn in TALK],
    "a question and an answer": [{"nr": n, "question": SAID[0][1], "answer": SAID[1][1]} for n in range(3)],
    "texts that take turns": [{"nr": n, "lines": [text for _, text in SAID]} for n in range(3)],
    "JSON in a text": [{"nr": n, "turns": json.dumps(TALK)} for n in range(3)],
}  # fmt: skip


def draft_of(records: list[Any]) -> MappingDraft:
    """A draft for records of JSON Lines."""
    frames = [Frame(n, json.dumps(one).encode(), one) for n, one in enumerate(records, 1)]
    return MappingDraft(frames, "calls.jsonl")


@pytest.mark.parametrize("records", SHAPES.values(), ids=SHAPES)
def test_shapes(records: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guess reads all conversations with roles and texts, and so does the file that it is saved as."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "config"))
    draft = draft_of(records)
    trial = draft.try_out()
    assert (trial.conversations, trial.messages, trial.rejected) == (3, 6, 0)
    for conversation in trial.shown:
        assert [(message.role, message.content) for message in conversation.messages] == SAID
    draft.save("mine")
    log = tmp_path / "calls.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    (found,) = open_inputs([log])
    assert found.detection.format == "mine"
    read = [record.conversation for record in found.records() if isinstance(record, Parsed)]
    assert [[(one.role, one.content) for one in each.messages] for each in read] == [SAID] * 3


def test_lines_are_questions_with_what_they_find() -> None:
    """Each line says what is asked, the path, and an example of what is there; each role word is a line."""
    lines = {line.key: line for line in draft_of(SHAPES["a list of messages in a record"]).lines()}
    assert lines["messages"].value == "phone.turns[]"
    assert lines["messages"].finds == "6 items"
    assert lines["text"].value == "heard.words"
    assert lines["text"].finds == SAID[1][1]
    assert lines["time"].value == "date"
    assert lines["id"].value == "nr"
    assert (lines["role caller"].value, lines["role caller"].finds[:10]) == ("user", "3 messages")


def test_change() -> None:
    """A changed line is used at once; what is no path is refused, and the line stays."""
    draft = draft_of(SHAPES["a list of messages in a record"])
    draft.change("role desk", "left out")
    trial = draft.try_out()
    assert trial.messages == 3
    assert trial.account.chars["left out"] > 0
    with pytest.raises(FormatError, match="no path"):
        draft.change("text", "heard[")
    assert {line.key: line.value for line in draft.lines()}["text"] == "heard.words"
    draft.change("text", "date")
    assert draft.try_out().shown[0].messages[0].content == TALK[0]["date"]


def test_choices_have_examples() -> None:
    """A line may be changed to the fields that are there, each with an example."""
    draft = draft_of(SHAPES["a list of messages in a record"])
    assert {choice.value: choice.example for choice in draft.choices("text")}["heard.words"]
    assert "party" in [choice.value for choice in draft.choices("role")]
    assert [choice.value for choice in draft.choices("role desk")][-1] == "left out"


def test_saving_overwrites_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken is an error, and the file stays as it is."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path))
    draft = draft_of(SHAPES["a question and an answer"])
    file = draft.save("mine")
    before = file.read_text()
    with pytest.raises(FormatError, match="There is a mapping file"):
        draft.save("mine")
    assert file.read_text() == before


def test_nothing_like_messages() -> None:
    """Records without texts are refused."""
    with pytest.raises(FormatError, match="looks like messages"):
        draft_of([{"a": 1}, {"a": 2}])


def test_refusal(tmp_path: Path) -> None:
    """A file of no known format is refused with its fields; one that can be imported is not."""
    odd, good = tmp_path / "odd.jsonl", tmp_path / "good.jsonl"
    odd.write_text('{"colour": "blue"}\n')
    good.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    assert "`colour`" in str(refusal_of(str(odd)))
    assert refusal_of(str(good)) is None
