"""Conversations as a table with one row for each message, for CSV and Parquet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from engine.base.text import as_json
from engine.conversations.service.line_files import ColumnType
from engine.formats.messages.times import (
    TIMES,
)
from engine.opener.forms.exported import KNOWN, Beside, Exported, known_names
from engine.opener.table_export import column_type

_COLUMNS = (
    *("conversation_id", "source", "position", "role", "name", "content", "time", "model"),
    *("tool_calls", "tool_call_id", "reasoning", "facts"),
)


def rows(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a row for each message. Columns of what is known begin with `workbench_` and say the same in every row of
    a conversation, as `truth` does. The metadata of conversations have no place.

    `tool_calls`, `facts` and `truth` are JSON.
    """
    for item in items:
        conversation = item.conversation
        left_behind["metadata"] += bool(conversation.meta)
        stated = conversation.truth
        known = {f"{KNOWN}_{name}": value for name, value in item.known.items()}
        for position, message in enumerate(conversation.messages, 1):
            facts = json.loads(message.facts) if message.facts else {}
            clock = next((key for key in TIMES if facts.get(key) is not None), "")
            calls = [
                {"id": call.call_id, "name": call.name, "arguments": call.arguments}
                for call in message.tool_calls
            ]
            yield {
                "conversation_id": conversation.external_id,
                "source": item.source,
                "position": position,
                "role": message.role,
                "name": message.name,
                "content": message.content,
                "time": _text(facts.pop(clock, None)),
                "model": _text(facts.pop("model", None)),
                "tool_calls": as_json(calls) if calls else None,
                "tool_call_id": message.tool_call_id,
                "reasoning": message.reasoning,
                "facts": as_json(facts) if facts else None,
                **({"truth": None if stated is None else as_json(stated)} if item.truth else {}),
                **known,
            }


def column_types(beside: Collection[Beside], *, truth: bool) -> dict[str, ColumnType]:
    """The types of the columns."""
    types: dict[str, ColumnType] = dict.fromkeys(_COLUMNS, "text")
    types["position"] = "integer"
    if truth:
        types["truth"] = "text"
    return types | {f"{KNOWN}_{name}": column_type(name) for name in known_names(beside)}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else as_json(value)
