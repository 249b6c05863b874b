"""The order of messages: by numbers and times that can be compared, else as in the file; and who speaks by turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base import folders
from engine.formats.inputs import open_inputs
from engine.formats.messages.times import as_time, falls, in_order, order_keys
from engine.formats.records import Parsed
from engine.formats.registry import mapping_folder, unusable


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["1", "10", "2"], "acb"),
        ([3, 1.5, 2], "bca"),
        ([10**400, 1.5, 2], "bca"),
        (["2026-01-01T10:00:00+02:00", "2026-01-01T08:30:00Z", "2026-01-01T10:45:00+02:00"], "abc"),
        (["2026-01-01 10:05", "2026-01-01 10:00", "2026-01-01 09:00"], "cba"),
        (["01/02/2026 9:50 AM", "01/02/2026 10:05 AM", "01/02/2026 1:15 PM"], "abc"),
        (["2026-01-01T10:00", "2026-01-01T09:00Z", "2026-01-01T08:00"], "abc"),
        ([True, False, True], "abc"),
        ([None, "1", "2"], "abc"),
        (["3", "2", "2"], "cba"),
    ],
)
def test_order(values: list[Any], order: str) -> None:
    """Numbers are ordered as numbers, times with offsets as moments; what cannot be compared stays as it was; what
    falls throughout is turned round."""
    assert "".join(in_order(list("abc"), values)) == order


def test_earlier_times_are_seen() -> None:
    """A time before the one above it is seen, also as a text number; days written in words are not compared."""
    assert falls(["1767225900", "1767225800"])
    assert falls(["2026-01-01 10:05", "2026-01-01 10:00"])
    assert not falls(["Friday", "Monday"])
    assert order_keys([]) is None


def messages(path: Path) -> list[tuple[str, str]]:
    """(role, content) of the one conversation of a file."""
    (record,) = [record for one in open_inputs([path]) for record in one.records()]
    assert isinstance(record, Parsed), record
    return [(one.role, one.content) for one in record.conversation.messages]


@pytest.mark.parametrize(
    ("name", "text", "roles"),
    [
        (
            "a.txt",
            "GPT-4: Hello there\n\nUser: cancel it\n\nGPT-4: done\n",
            "assistant user assistant",
        ),
        (
            "b.txt",
            "Customer: I want it\nAgent: I may not\nSupervisor: I take over\nCustomer: thanks\n",
            "user assistant assistant user",
        ),
        (
            "c.srt",
            "1\n00:00:01,000 --> 00:00:02,000\nAgent: Thank you for calling,\n\n"
            "2\n00:00:02,000 --> 00:00:03,000\nhow can I help you?\n\n"
            "3\n00:00:03,000 --> 00:00:04,000\nCustomer: My parcel is late.\n\n"
            "4\n00:00:04,000 --> 00:00:05,000\nMy order number is this: 4711\n",
            "assistant user",
        ),
    ],
)
def test_speakers(tmp_path: Path, name: str, text: str, roles: str) -> None:
    """Who answers is the assistant, also first; a cue without a name goes on; a sentence with a colon is no speaker."""
    path = tmp_path / name
    path.write_text(text.replace("\n", "\n"))
    assert " ".join(role for role, _ in messages(path)) == roles


def test_a_note_is_nobodys_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two take turns, an item that is no message does not change whose turn it is; and a mapping file that cannot
    be used is named and stops no other."""
    monkeypatch.setattr(folders, "config_dir", lambda: tmp_path)
    monkeypatch.setattr("engine.formats.registry.config_dir", lambda: tmp_path)
    mapping_folder().mkdir()
    (mapping_folder() / "mine.toml").write_text(
        'name = "mine"\nwhen = ["talk_of_mine"]\n[[messages]]\neach = "talk_of_mine[]"\n'
        '[[messages.turns]]\nwhen = ["kind!=note"]\nrole = "=user, assistant"\ntext = "said"\n'
    )
    (mapping_folder() / "broken.toml").write_text('name = "broken"\n[roles]\na = "userr"\n')
    talk = [{"kind": kind, "said": kind} for kind in ("question", "note", "answer", "thanks")]
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"talk_of_mine": talk}) + "\n")
    assert [role for role, _ in messages(path)] == ["user", "assistant", "user"]
    (error,) = unusable()
    assert "broken.toml" in error.message


def test_nodes_of_one_id_are_kept(tmp_path: Path) -> None:
    """Of a tree in which two messages have one id, none is lost."""
    said = [
        ("1", None, "first question"),
        ("2", "1", "first answer"),
        ("1", "2", "second question"),
    ]
    record = {
        "conversationId": "c",
        "messages": [
            {
                "messageId": key,
                "parentMessageId": parent,
                "sender": "x",
                "text": text,
                "isCreatedByUser": n % 2 == 0,
            }
            for n, (key, parent, text) in enumerate(said)
        ],
    }
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    assert [content for _, content in messages(path)] == [text for _, _, text in said]


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (10**400, None),
        ("2026-01-01 10:05", "2026-01-01 10:05"),
        ("1/2/2026 10:05 AM", "1/2/2026 10:05 AM"),
        (1767225900, "2026-01-01T00:05:00+00:00"),
        (1767225900000, "2026-01-01T00:05:00+00:00"),
        ({"$date": "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:00Z"),
        ("by Bob, see ticket 7", None),
        ("soon", None),
        (7, None),
        (True, None),
    ],
)
def test_what_is_a_time(value: object, time: str | None) -> None:
    """Only what has a date or a clock in it, or may be seconds since 1970, is a time."""
    assert as_time(value) == time
