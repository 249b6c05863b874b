"""Conversations in the forms of chat APIs: OpenAI's chat messages, Anthropic's Messages, ShareGPT."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Message
from engine.opener.forms.exported import Exported, about, arguments

_SHAREGPT_NAMES = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "gpt",
    "tool": "observation",
}


def message_line(message: Message) -> dict[str, Any]:
    """Role, content, name and answered call of a message, as the chat API of OpenAI and the uniform form write them."""
    line: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name:
        line["name"] = message.name
    if message.tool_call_id:
        line["tool_call_id"] = message.tool_call_id
    return line


def openai(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record with `messages` for each conversation; reasoning and facts of messages have no place."""
    for item in items:
        messages = []
        for message in item.conversation.messages:
            _count(message, left_behind, "reasoning", "facts")
            line = message_line(message)
            if message.tool_calls:
                line["tool_calls"] = [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in message.tool_calls
                ]
            messages.append(line)
        yield {"id": item.conversation.external_id, "messages": messages, **about(item)}


def anthropic(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record for each conversation: system messages apart, answers of tools in the user's messages, messages
    of one side joined. Names and facts of messages have no place."""
    for item in items:
        system: list[str] = []
        messages: list[dict[str, Any]] = []
        for message in item.conversation.messages:
            _count(message, left_behind, "name", "facts")
            if message.role in ("system", "developer"):
                left_behind["a place after the first message, as a system message"] += bool(
                    messages
                )
                system.append(message.content)
                continue
            side = "assistant" if message.role == "assistant" else "user"
            if not messages or messages[-1]["role"] != side:
                messages.append({"role": side, "content": []})
            messages[-1]["content"] += _blocks(message)
        line: dict[str, Any] = {"id": item.conversation.external_id}
        if system:
            line["system"] = "\n\n".join(system)
        yield {**line, "messages": messages, **about(item)}


def sharegpt(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record with `conversations` for each conversation; calls are turns of their own. Names, reasoning, facts
    and the ids of calls have no place."""
    for item in items:
        turns: list[dict[str, str]] = []
        for message in item.conversation.messages:
            _count(message, left_behind, "reasoning", "facts", "name")
            has_ids = message.tool_call_id or any(call.call_id for call in message.tool_calls)
            left_behind["ids of calls"] += bool(has_ids)
            if message.content or not message.tool_calls:
                turns.append({"from": _SHAREGPT_NAMES[message.role], "value": message.content})
            for call in message.tool_calls:
                written = {"name": call.name, "arguments": arguments(call)}
                turns.append(
                    {"from": "function_call", "value": json.dumps(written, ensure_ascii=False)}
                )
        yield {"id": item.conversation.external_id, "conversations": turns, **about(item)}


def _count(message: Message, left_behind: Counter[str], *places: str) -> None:
    """Counts what a message has of places that a form does not have."""
    words = {"reasoning": "reasoning", "facts": "times and other facts", "name": "names"}
    for place in places:
        left_behind[words[place]] += bool(getattr(message, place))


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.content,
        }
        return
    if message.reasoning:
        yield {"type": "thinking", "thinking": message.reasoning}
    if message.content or not message.tool_calls:
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.call_id, "name": call.name, "input": arguments(call)}
