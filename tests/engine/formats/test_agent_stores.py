"""Sessions that a coding agent stores in pieces are put together, from tables and from folders."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

from engine.formats.file_names import folder_in_words
from engine.formats.input_kinds import ConversationFile
from engine.formats.inputs import open_inputs
from engine.formats.records import Parsed, Rejected

TEXT: dict[str, Any] = {"id": "p1", "type": "text", "text": "Water the roses"}
TOOL: dict[str, Any] = {"id": "p2", "type": "tool", "callID": "c1", "tool": "bash"}
TOOL |= {"state": {"status": "completed", "input": {"command": "water"}, "output": "wet"}}
DONE: dict[str, Any] = {"id": "p3", "type": "text", "text": "Watered."}
EXPECTED = [
    ("user", "Water the roses"),
    ("assistant", ""),
    ("tool", "wet"),
    ("assistant", "Watered."),
]
"""Roles and contents of the session that every store has."""


def records_of(path: Path) -> list[Parsed | Rejected]:
    """The records of the input that holds conversations."""
    (opened,) = (one for one in open_inputs([path]) if isinstance(one, ConversationFile))
    return list(opened.records())


def said(record: Parsed | Rejected) -> list[tuple[str, str]]:
    """Roles and contents of a conversation."""
    assert isinstance(record, Parsed)
    return [(message.role, message.content) for message in record.conversation.messages]


def write(path: Path, value: Any) -> None:
    """Writes a piece as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def test_a_folder_of_opencode_is_its_sessions(tmp_path: Path) -> None:
    """The messages of a session come by their times, with the parts in the folders of their ids; a broken part is told;
    in the older layout as in the newer one."""
    for store in (tmp_path / "storage", tmp_path / "older" / "session"):
        sessions = store / ("session/project" if store.name == "storage" else "info")
        write(sessions / "ses_1.json", {"id": "ses_1", "title": "Roses", "time": {"created": 1}})
        for name, role, time in (("m1", "assistant", 2), ("m2", "user", 1)):
            info = {"id": name, "sessionID": "ses_1", "role": role, "time": {"created": time}}
            write(store / "message" / "ses_1" / f"{name}.json", info)
        parts = store / "part" if store.name == "storage" else store / "part" / "ses_1"
        write(parts / "m1" / "p2.json", TOOL)
        write(parts / "m1" / "p3.json", DONE)
        write(parts / "m2" / "p1.json", TEXT)
        (parts / "m2" / "p4.json").write_text("{")
        whole, broken = records_of(store.parent if store.name == "session" else store)
        assert said(whole) == EXPECTED
        assert isinstance(broken, Rejected)
        assert "p4.json: file is not JSON" in broken.reason


def test_tables_of_opencode_are_its_sessions(tmp_path: Path) -> None:
    """A session has its messages by their times, and these their parts."""
    path = tmp_path / "opencode.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            "create table session(id text, title text);"
            "create table message(id text, session_id text, time_created integer, data text);"
            "create table part(id text, message_id text, session_id text, data text);"
            "insert into session values('ses_1', 'Roses'), ('ses_2', 'empty');"
        )
        for name, role, time in (("m1", "assistant", 2), ("m2", "user", 1)):
            row = (name, "ses_1", time, json.dumps({"role": role, "time": {"created": time}}))
            database.execute("insert into message values(?, ?, ?, ?)", row)
        for part, message in ((TEXT, "m2"), (TOOL, "m1"), (DONE, "m1")):
            piece = (part["id"], message, "ses_1", json.dumps(part))
            database.execute("insert into part values(?, ?, ?, ?)", piece)
    database.close()
    (record,) = records_of(path)
    assert said(record) == EXPECTED


def test_keys_of_cursor_are_its_sessions(tmp_path: Path) -> None:
    """Bubbles come in the order that their session names; those without a value and sessions without bubbles are none,
    and a bubble that the session does not name is metadata."""
    path = tmp_path / "state.vscdb"
    tool = {"name": "terminal", "rawArgs": "{}", "toolCallId": "c1", "result": "wet"}
    bubbles = {
        "b3": {"type": 2, "text": "Watered."},
        "b1": {"type": 1, "text": "Water the roses"},
        "b2": {"type": 2, "text": "", "toolFormerData": tool},
        "b4": None,
        "b5": {"type": 2, "text": "An answer that was taken back."},
    }
    headers = [{"bubbleId": name} for name in ("b1", "b2", "b4", "b3")]
    rows: dict[str, Any] = {f"bubbleId:s1:{name}": bubble for name, bubble in bubbles.items()}
    rows |= {"composerData:s1": {"fullConversationHeadersOnly": headers}, "composerData:s2": None}
    with sqlite3.connect(path) as database:
        database.execute("create table cursorDiskKV(key text, value blob)")
        for key, value in rows.items():
            cell = None if value is None else json.dumps(value).encode()
            database.execute("insert into cursorDiskKV values(?, ?)", (key, cell))
    database.close()
    (record,) = records_of(path)
    assert said(record) == EXPECTED
    assert isinstance(record, Parsed)
    assert "taken back" in json.dumps(record.conversation.meta)


EVENTS: list[dict[str, Any]] = [
    {"kind": "MessageEvent", "source": "user",
     "llm_message": {"content": [{"type": "text", "text": "Water the roses"}], "role": "user"}},
    {"kind": "ActionEvent", "source": "agent", "tool_name": "bash", "tool_call_id": "c1",
     "tool_call": {"name": "bash", "arguments": '{"command": "water"}'}},
    {"kind": "ObservationEvent", "source": "environment", "tool_name": "bash", "tool_call_id": "c1",
     "observation": {"content": [{"type": "text", "text": "wet"}]}},
    {"kind": "MessageEvent", "source": "agent", "llm_message": {"role": "assistant", "content": [DONE]}},
]  # fmt: skip
"""Events of OpenHands."""


def event(number: int) -> dict[str, Any]:
    """Returns an event with its id and time."""
    return {"id": f"{number}", "timestamp": f"2026-01-01T10:00:0{number}", **EVENTS[number]}


def test_events_of_openhands_are_one_conversation(tmp_path: Path) -> None:
    """The events of a conversation lie in a file each; its id is the name of its folder."""
    for conversation in ("a", "b"):
        write(tmp_path / conversation / "base_state.json", {"agent": {"kind": "Agent"}})
        for number in range(len(EVENTS)):
            path = tmp_path / conversation / "events" / f"event-{number:05}-{number}{number}.json"
            write(path, event(number))
    records = records_of(tmp_path)
    assert [said(record) for record in records] == [EXPECTED, EXPECTED]
    ids = [record.conversation.external_id for record in records if isinstance(record, Parsed)]
    assert ids == ["a", "b"]
    assert folder_in_words(str(tmp_path)) == "8 events of 2 conversations of OpenHands"


def test_events_in_an_archive_are_one_conversation(tmp_path: Path) -> None:
    """An export of OpenHands is a zip archive with the events, in the order of their numbers, and `meta.json`."""
    path = tmp_path / "conversation.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in reversed(range(len(EVENTS))):
            archive.writestr(f"event_{number:06}_{number}.json", json.dumps(event(number)))
        archive.writestr("meta.json", json.dumps({"id": "3f2a", "title": "Roses"}))
    (record,) = records_of(path)
    assert said(record) == EXPECTED
    assert isinstance(record, Parsed)
    assert record.conversation.external_id == "3f2a"
