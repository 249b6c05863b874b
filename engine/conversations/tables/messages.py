"""Reads stored messages as `engine.base.conversation.Message`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from engine.base.conversation import Message, ToolCall
from engine.project.sql import message_ids

COLUMNS = "conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts"


def messages_of(conn: sqlite3.Connection, conversation_id: int) -> tuple[Message, ...]:
    """The messages of a conversation, in order."""
    rows = conn.execute(
        f"SELECT {COLUMNS} FROM message WHERE id BETWEEN ? AND ? ORDER BY id",
        message_ids(conversation_id),
    )
    return tuple(map(message_of, rows))


def message_of(row: Sequence[Any]) -> Message:
    """The message of a row with `COLUMNS`."""
    calls = () if row[5] is None else _calls(row[5])
    return Message(
        role=row[2],
        content=row[4],
        name=row[3],
        tool_calls=calls,
        tool_call_id=row[6],
        model_view=row[7],
        hidden=bool(row[8]),
        reasoning=row[9],
        facts=row[10],
    )


def _calls(text: str) -> tuple[ToolCall, ...]:
    try:
        return tuple(ToolCall(*call) for call in json.loads(text))
    except (
        TypeError
    ) as error:  # JSON, but no list of calls: the file is damaged, as where it is no JSON
        raise json.JSONDecodeError("no tool calls", text, 0) from error
