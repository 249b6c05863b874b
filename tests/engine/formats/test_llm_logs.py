"""The tables of simonw/llm become conversations, in the older schema and the newer one."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from engine.formats.inputs import open_inputs
from engine.formats.records import Parsed

OLDER = """
create table conversations(id text, name text, model text);
create table responses(id text, model text, prompt text, system text, response text,
    conversation_id text, datetime_utc text, input_tokens integer);
create table tool_calls(id integer, response_id text, name text, arguments text, tool_call_id text);
create table tool_results(id integer, response_id text, name text, output text, tool_call_id text);
insert into conversations values('c', 'Rain', 'm');
insert into responses values('r1', 'm', 'Is it wet?', 'Be brief', '', 'c', '2025-06-01T10:00:00', 5);
insert into responses values('r2', 'm', '', 'Be brief', 'Yes.', 'c', '2025-06-01T10:00:01', 7);
insert into tool_calls values(1, 'r1', 'look', '{"at": "door"}', 't');
insert into tool_results values(1, 'r2', 'look', 'rain', 't');
"""

NEWER = """
create table threads(id text, name text, tip_message_hash text, datetime_utc text);
create table messages(hash text, parent_hash text, role text);
create table parts(id integer, message_hash text, position integer, type text, text text, payload text);
create table turns(id text, thread_id text, tip_message_hash text, model text, datetime_utc text);
create table fragments(id integer, content text);
insert into threads values('c', 'Rain', 'h5', '2026-06-01');
insert into messages values('h1', null, 'system'), ('h2', 'h1', 'user'), ('h3', 'h2', 'assistant'),
    ('h4', 'h3', 'tool'), ('h5', 'h4', 'assistant'), ('h9', 'h2', 'assistant');
insert into fragments values(7, 'Is it');
insert into turns values('u1', 'c', 'h5', 'm', '2026-06-01T10:00:00');
"""


def conversation(path: Path, *statements: str) -> Parsed:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.executescript(statement)
    database.close()
    (opened,) = open_inputs([path])
    assert opened.detection.format == "llm"
    (record,) = opened.records()
    assert isinstance(record, Parsed)
    return record


def rows_of(record: Parsed) -> list[tuple[object, ...]]:
    """(role, content, calls, answered call) of each message."""
    return [
        (m.role, m.content, [(call.name, call.call_id) for call in m.tool_calls], m.tool_call_id)
        for m in record.conversation.messages
    ]


EXPECTED = [
    ("system", "Be brief", [], None),
    ("user", "Is it wet?", [], None),
    ("assistant", "", [("look", "t")], None),
    ("tool", "rain", [], "t"),
    ("assistant", "Yes.", [], None),
]


def test_responses_with_their_tools(tmp_path: Path) -> None:
    """Prompts, calls, results and answers of the older tables stand in the order in which they happened."""
    record = conversation(tmp_path / "logs.db", OLDER)
    assert record.conversation.external_id == "c"
    assert rows_of(record) == EXPECTED


def test_threads_of_messages(tmp_path: Path) -> None:
    """A thread is followed from its last message to the first; texts made of fragments are put together."""
    parts = [
        ("h1", "text", "Be brief", None),
        ("h2", "text", None, {"text_ref": [{"fragment": 7}, {"literal": " wet?"}]}),
        ("h3", "tool_call", None, {"name": "look", "arguments": {}, "tool_call_id": "t"}),
        ("h4", "tool_result", None, {"name": "look", "output": "rain", "tool_call_id": "t"}),
        ("h5", "text", "Yes.", None),
        ("h9", "text", "No.", {"text_ref": [5, "damaged"]}),
    ]
    rows = ", ".join(
        f"({number}, '{key}', 0, '{kind}', {repr(text) if text else 'null'},"
        f" {repr(json.dumps(payload)) if payload else 'null'})"
        for number, (key, kind, text, payload) in enumerate(parts)
    )
    record = conversation(tmp_path / "logs.db", NEWER, f"insert into parts values {rows};")
    assert rows_of(record) == EXPECTED
    facts = json.loads(record.conversation.messages[-1].facts or "{}")
    assert facts == {"model": "m", "datetime_utc": "2026-06-01T10:00:00"}
