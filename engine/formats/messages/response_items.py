"""Reads the items of the Responses API of OpenAI as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.formats.json_values import json_text, list_or_empty
from engine.formats.messages.chat_message import ChatMessage, as_message


def response_items(items: Iterable[Mapping[str, Any]]) -> list[ChatMessage]:
    """The messages of items as the Responses API of OpenAI has them; reasoning, text and calls that follow each other
    are one message."""
    found: list[ChatMessage] = []
    others: list[dict[str, Any]] = []

    def writing(part: str) -> ChatMessage:
        """The message of the assistant to which a part of it belongs."""
        last = found[-1] if found else {}
        ends = ("tool_calls",) if part == "tool_calls" else ("tool_calls", "content")
        begun = last.get("role") == "assistant" and "reasoning_content" in last
        if last.get("role") == "assistant" and part == "tool_calls":
            return last
        if not begun or any(last.get(end) for end in ends):
            found.append({"role": "assistant", "content": ""})
        return found[-1]

    for item in items:
        kind = str(item.get("type", "message"))
        rest = {key: item[key] for key in item if key not in _ITEM_KEYS and item[key] is not None}
        if kind == "reasoning":
            texts = [
                one["text"]
                for key in ("summary", "content")
                for one in list_or_empty(item.get(key))
                if isinstance(one, dict) and isinstance(one.get("text"), str)
            ]
            message = writing("reasoning_content")
            before = message.get("reasoning_content", "")
            message["reasoning_content"] = "\n".join(filter(None, [before, *texts]))
            _add_facts(message, rest)
        elif kind.endswith("_output"):
            answer = {"role": "tool", "content": _answer(item.get("output"))}
            found.append({**rest, **answer, "tool_call_id": item.get("call_id")})
        elif kind.endswith("_call"):
            message = writing("tool_calls")
            message.setdefault("tool_calls", []).append(_item_call(item, kind))
            _add_facts(message, rest)
            if isinstance(item.get("output"), str):
                answer = {"role": "tool", "content": item["output"]}
                found.append({**answer, "tool_call_id": item.get("call_id", item.get("id"))})
        elif item.get("role") == "assistant":
            message = writing("content")
            message["content"] = item.get("content") or ""
            message |= rest
        elif message := as_message(item):  # type: ignore[assignment]
            found.append({key: value for key, value in message.items() if key != "type"})
        else:  # such as the list of a server's tools
            others.append(dict(item))
    if others and found:
        found[0].setdefault("items", []).extend(others)
    return found


def _add_facts(message: ChatMessage, facts: Mapping[str, Any]) -> None:
    """Adds what is said of an item to its message; what another item of the message has as well goes to `items`."""
    other = {key: value for key, value in facts.items() if message.get(key, value) != value}
    for key, value in facts.items():
        message.setdefault(key, value)
    if other:
        message.setdefault("items", []).append(other)


_ITEM_KEYS = frozenset(
    (
        *("type", "role", "content", "name", "arguments", "input", "call_id", "output"),
        *("summary", "encrypted_content", "action", "queries"),
    )
)


_OTHER_ITEMS = frozenset(
    ("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference")
)
"""Items that are neither messages nor calls."""


def is_response_item(value: Any) -> bool:
    """Whether a value is an item of the Responses API that is no message with role and content."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    kind = value["type"]
    return (
        (kind.endswith(("_call", "_call_output")) and kind != "tool_call")
        or (kind == "reasoning" and "summary" in value)
        or kind in _OTHER_ITEMS
    )


def _item_call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    arguments = next(
        (item[key] for key in ("arguments", "input", "action", "queries") if key in item), None
    )
    return {
        "name": item.get("name") or kind.removesuffix("_call"),
        "arguments": {} if arguments is None else arguments,
        "id": item.get("call_id") or item.get("id"),
    }


def _answer(output: Any) -> Any:
    return output if isinstance(output, str | list) else json_text(output)
