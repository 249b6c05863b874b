"""Conversations in the forms of others: OpenAI's chat messages, Anthropic's Messages, ShareGPT."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from engine.conversation import Conversation, Message, ToolCall

ConversationForm = Literal["openai", "anthropic", "sharegpt"]
"""Forms beside the uniform one, which is the only one that holds everything."""

_SHAREGPT_NAMES = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "gpt",
    "tool": "observation",
}


def in_form(
    form: ConversationForm, conversations: Iterable[Conversation], left_behind: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yields the conversations in a form.

    Args:
        left_behind: Counts the messages with something for which the form has no place, by what it is.
    """
    write = _WRITERS[form]
    for conversation in conversations:
        for message in conversation.messages:
            if message.reasoning and form != "anthropic":
                left_behind["reasoning"] += 1
            if message.facts:
                left_behind["times and other facts"] += 1
            if message.name and form != "openai":
                left_behind["names"] += 1
        yield write(conversation)


def _openai(conversation: Conversation) -> dict[str, Any]:
    messages = []
    for message in conversation.messages:
        line: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.name:
            line["name"] = message.name
        if message.tool_call_id:
            line["tool_call_id"] = message.tool_call_id
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
    return {"id": conversation.external_id, "messages": messages, **_about(conversation)}


def _anthropic(conversation: Conversation) -> dict[str, Any]:
    """System messages apart, answers of tools in the user's messages, messages of one side joined."""
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    for message in conversation.messages:
        if message.role in ("system", "developer"):
            system.append(message.content)
            continue
        side = "assistant" if message.role == "assistant" else "user"
        if not messages or messages[-1]["role"] != side:
            messages.append({"role": side, "content": []})
        messages[-1]["content"] += _blocks(message)
    line: dict[str, Any] = {"id": conversation.external_id}
    if system:
        line["system"] = "\n\n".join(system)
    return {**line, "messages": messages, **_about(conversation)}


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
        yield {"type": "tool_use", "id": call.call_id, "name": call.name, "input": _arguments(call)}


def _sharegpt(conversation: Conversation) -> dict[str, Any]:
    turns: list[dict[str, str]] = []
    for message in conversation.messages:
        if message.content or not message.tool_calls:
            turns.append({"from": _SHAREGPT_NAMES[message.role], "value": message.content})
        for call in message.tool_calls:
            written = {"name": call.name, "arguments": _arguments(call)}
            turns.append(
                {"from": "function_call", "value": json.dumps(written, ensure_ascii=False)}
            )
    return {"id": conversation.external_id, "conversations": turns, **_about(conversation)}


def _arguments(call: ToolCall) -> Any:
    """The arguments of a call as an object; as text where they are none."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments


def _about(conversation: Conversation) -> dict[str, Any]:
    """Metadata, truth and time, which all forms may have beside the messages."""
    metadata = dict(conversation.meta)
    if conversation.truth:
        metadata["truth"] = conversation.truth
    about: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if conversation.created_at:
        about["created_at"] = conversation.created_at
    return about


_WRITERS: dict[ConversationForm, Callable[[Conversation], dict[str, Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "sharegpt": _sharegpt,
}
