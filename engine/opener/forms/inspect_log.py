"""Conversations as a log of Inspect AI, a sample for each: a JSON file that `inspect_ai.log.read_eval_log` reads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Message, with_calls
from engine.base.text import as_json
from engine.opener.forms.exported import Exported, about, arguments
from engine.project.sql import utc_now


def samples(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a sample for each conversation, without output and scores, which this program does not have.

    Inspect knows a sample by its id and epoch, so the second conversation with an id has epoch 2.
    """
    epochs: Counter[str] = Counter()
    for item in items:
        conversation = item.conversation
        epochs[conversation.external_id] += 1
        other = about(item)
        asked = (one.content for one in conversation.messages if one.role == "user")
        began = other.get("created_at")
        yield {
            "id": conversation.external_id,
            "epoch": epochs[conversation.external_id],
            "input": next(asked, ""),
            "target": "",
            "messages": _messages(conversation.messages, left_behind),
            "metadata": other.get("metadata", {}),
            **({"started_at": began} if began else {}),
        }


def around(task: str) -> tuple[str, str]:
    """The text of a log of this task before and after its list of samples."""
    head = {
        "version": 2,
        "status": "success",
        "eval": {
            "created": utc_now(),
            "task": task,
            "dataset": {"name": task},
            "model": "none/none",
            "config": {},
        },
    }
    return as_json(head)[:-1] + ', "samples": [', "]}"


def _messages(messages: Iterable[Message], left_behind: Counter[str]) -> list[dict[str, Any]]:
    """Names and facts go to the metadata of a message."""
    written = []
    names: dict[str, str] = {}  # of tools, by the ids of calls that have no answer yet
    for number, message in enumerate(messages, 1):
        content: Any = message.content
        metadata: dict[str, Any] = {}
        line: dict[str, Any] = {"role": message.role}
        if message.role == "developer":
            line["role"] = "system"
            metadata["role"] = message.role
        if message.tool_calls and message.role == "assistant":
            line["tool_calls"] = calls = []
            for place, call in enumerate(message.tool_calls, 1):
                given = arguments(call)
                if not isinstance(given, dict):
                    left_behind["arguments of calls that are no object, written as one"] += 1
                    given = {"arguments": given}
                key = call.call_id or f"call_{number}_{place}"
                names[key] = call.name
                calls.append(
                    {"id": key, "function": call.name, "arguments": given, "type": "function"}
                )
        elif message.tool_calls:
            left_behind["calls of another role than the assistant's, written as text"] += 1
            content = with_calls(content, message.tool_calls)
        if message.reasoning:
            content = [
                {"type": "reasoning", "reasoning": message.reasoning},
                {"type": "text", "text": content},
            ]
        line["content"] = content
        if message.role == "tool":
            answered = message.tool_call_id or next(iter(names), None)
            line["tool_call_id"] = answered
            line["function"] = names.pop(answered or "", None) or message.name
        elif message.tool_call_id:
            metadata["tool_call_id"] = message.tool_call_id
        if message.name and message.role != "tool":
            metadata["name"] = message.name
        if message.facts:
            metadata["facts"] = json.loads(message.facts)
        if metadata:
            line["metadata"] = metadata
        written.append(line)
    return written
