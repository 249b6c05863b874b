"""Reads one message, in the form of any chat API or of an agent framework, as a message of one common form.

The common form (`ChatMessage`) is that of OpenAI. The forms that differ from it are those of LangChain, AutoGen,
LlamaIndex, Haystack, Strands, Koog and OpenInference.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from engine.formats.json_values import (
    first_value,
    json_text,
    list_or_empty,
    object_or_empty,
    objects_in,
    without_keys,
)
from engine.formats.messages.parts import part_kind
from engine.formats.messages.roles import role_named, role_of_speaker
from engine.formats.paths import json_within

ChatMessage = dict[str, Any]
"""A message with role, content, tool_calls, tool_call_id, name and reasoning_content; other keys are facts."""

UNKNOWN_ROLE = "unknown_role"
"""Key of a message for the word that its log has as the role, where that is no known word; the account of an import
counts them."""

UNKNOWN_ITEMS = "unknown_items"
"""Key of a message for the entries of its list that are of no known kind; the account of an import counts them."""

_LANGCHAIN_ROLES: dict[str, str] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "developer": "developer",
    "chat": "assistant",
}
"""Types of LangChain's messages -> the usual roles; `chat` has a role of its own, of which nothing is known."""

_SHOWN_FIELD = re.compile(
    r"\b(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[\{.*?\}\](?=[ ,)]))", re.DOTALL
)
"""Matches a field of an object as `repr` writes it, with its value, a text or a list of objects: `content='Hi'`."""


def as_message(value: Any) -> ChatMessage | None:
    """Returns a value as a message of a chat API, if it is a message of any known form; else None.

    The forms with keys of their own come first: LangChain, Haystack, AutoGen; then a message within an object, and
    those with a role. An object with a role and no content is none, unless the role is all that it has.
    """
    if not isinstance(value, dict):
        return None
    if (langchain := langchain_message(value)) is not None:
        return langchain
    if isinstance(value.get("_role"), str):  # Haystack
        value = {key.removeprefix("_"): entry for key, entry in value.items()}
    if "role" not in value and is_autogen_message(value):
        value = _from_autogen(value)
    inner: Any = value.get("message")
    if isinstance(inner, dict) and "role" not in value and isinstance(inner.get("role"), str):
        return as_message(inner)
    if not isinstance(value.get("role"), str):
        return None
    if "blocks" in value and "content" not in value:  # LlamaIndex
        remaining = without_keys(value, "blocks")
        value = {**remaining, "content": list(map(_part_of_block, list_or_empty(value["blocks"])))}
    if not value.keys() & {"content", "parts", "contents", "tool_calls", "function_call"}:
        return {**value, "content": ""} if len(value) == 1 else None
    message = _with_parts_as_list(value)
    message = _with_tool_lists_as_usual(message)
    message = _with_shown_calls_as_calls(message)
    message = _with_usual_role(message)
    return _with_usual_calls(message)


def _with_parts_as_list(message: ChatMessage) -> ChatMessage:
    """Returns a message whose content is a list of parts, where it was written as the text of one (Strands)."""
    content = message.get("content")
    if (
        isinstance(content, str)
        and content[:2] == "[{"
        and _are_parts(parts := json_within(content))
    ):
        return {**message, "content": parts}
    return message


def _with_tool_lists_as_usual(message: ChatMessage) -> ChatMessage:
    """Returns a message in which a list that a tool answered, and which is no list of parts, is a text of JSON; a
    message under the name of a tool that has nothing but calls becomes one of the assistant (Koog)."""
    content = message.get("content")
    if message["role"] != "tool" or not isinstance(content, list) or not content:
        return message
    if not _are_parts(content):
        return {**message, "content": json_text(content)}
    makes_calls = all(part_kind(part) == "call" for part in content)
    return {**message, "role": "assistant"} if makes_calls else message


def _with_shown_calls_as_calls(message: ChatMessage) -> ChatMessage:
    """Returns a message in which calls that were written as `repr` shows them are parts with a call."""
    key = "content" if message.get("content") else "parts"
    if not isinstance(message.get(key), list):
        return message
    return {**message, key: [_call_as_shown(part) or part for part in message[key]]}


def _with_usual_role(message: ChatMessage) -> ChatMessage:
    """Returns a message whose role is a known word; the name of a tool or an agent that stood in its place becomes the
    name of the speaker."""
    word = message["role"]
    if role_named(word) is not None:
        return message
    role = "tool" if message.get("tool_call_id") else "assistant"
    unknown = {UNKNOWN_ROLE: word} if role == "assistant" else {}
    return {**message, "role": role, "name": message.get("name") or word, **unknown}


def _with_usual_calls(message: ChatMessage) -> ChatMessage:
    """Returns a message with its calls under `tool_calls`, each as an object of its own."""
    kwargs = object_or_empty(message.get("additional_kwargs"))
    if "tool_calls" in kwargs and not message.get("tool_calls"):  # LangChain, as Langfuse has it
        message = {**message, "tool_calls": kwargs["tool_calls"]}
    has_wrapped_calls = any(map(_is_wrapped_call, list_or_empty(message.get("tool_calls"))))
    if "contents" in message or has_wrapped_calls:
        return _unwrap_openinference(message)
    return message


def is_autogen_message(value: Mapping[str, Any]) -> bool:
    """Returns whether an object is a message or an event of AutoGen."""
    is_known = str(value.get("type")).endswith(("Message", "Event"))
    return is_known and isinstance(value.get("source"), str) and "content" in value


def _from_autogen(value: Mapping[str, Any]) -> ChatMessage:
    """Returns a message or an event of AutoGen, whose type says what it is or else whose source says who speaks."""
    kind, source = value["type"], value["source"]
    remaining = without_keys(value, "type")
    if kind == "ToolCallRequestEvent":
        calls = {"tool_calls": value["content"]}
        return {**remaining, **calls, "role": "assistant", "name": source, "content": ""}
    if kind == "ToolCallExecutionEvent":
        answers = [{"type": "tool-result", **answer} for answer in objects_in(value["content"])]
        return {**remaining, "role": "tool", "content": answers}
    role = role_named(kind.removesuffix("Message")) or role_of_speaker(source) or "assistant"
    return {**remaining, "role": role, "name": None if role_of_speaker(source) else source}


def langchain_message(value: Mapping[str, Any]) -> ChatMessage | None:
    """Returns a message of LangChain, as `dumpd`, `messages_to_dict` or `model_dump` write it; None if the value is no
    such message."""
    kind, body = _langchain_body(value)
    if not isinstance(kind, str) or "content" not in body:
        return None
    word = kind.removesuffix("MessageChunk").removesuffix("Message").lower()
    role = _LANGCHAIN_ROLES.get(word)
    if role is None:
        return None
    kwargs = object_or_empty(body.get("additional_kwargs"))
    calls = body.get("tool_calls") or kwargs.get("tool_calls")
    content = body["content"]
    if calls and isinstance(content, list):  # some models' parts repeat the calls
        content = [
            part for part in content if not isinstance(part, dict) or part_kind(part) != "call"
        ]
    remaining = {
        key: entry
        for key, entry in body.items()
        if entry not in (None, "", [], {}) and key not in ("type", "content", "tool_calls", "role")
    }
    if "tool_calls" in kwargs and body.get("tool_calls"):
        remaining["additional_kwargs"] = without_keys(kwargs, "tool_calls")
    message = {**remaining, "role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
    if isinstance(kwargs.get("reasoning_content"), str):
        message["reasoning_content"] = kwargs["reasoning_content"]
    if role == "tool" and not isinstance(content, str | list):
        message["content"] = json_text(content)
    return message


def _langchain_body(value: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Returns the type and the fields of a message of LangChain, (None, {}) if the value is no such message."""
    kind, data = value.get("type"), value.get("data")
    if kind == "constructor" and isinstance(value.get("id"), list) and value["id"]:  # dumpd
        name = str(value["id"][-1])
        body = object_or_empty(value.get("kwargs")) if "Message" in name else {}
        return body.get("type", name.partition("Message")[0].lower()), body
    if isinstance(data, dict) and "content" in data:  # messages_to_dict
        return kind, data
    # a `role` beside `type` is of another API
    if "role" in value and value["role"] not in ("human", "ai"):
        return None, {}
    return kind, value  # model_dump


def message_of_pair(value: Any) -> ChatMessage | None:
    """Returns a message that is a role and a text (`["human", "Hi"]`), as LangChain takes it; None for any other."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    if not all(isinstance(text, str) for text in value):
        return None
    role = _LANGCHAIN_ROLES.get(value[0].lower(), value[0].lower())
    return {"role": role, "content": value[1]} if role in _LANGCHAIN_ROLES.values() else None


def _part_of_block(block: Any) -> Any:
    """Returns a block of LlamaIndex as a part."""
    if not isinstance(block, dict) or "block_type" not in block:
        return block
    return {**block, "type": block["block_type"]}


def shown_fields(text: str) -> dict[str, Any]:
    """Returns the fields with texts and lists of an object as `repr` writes it, `role='user' content='Hi'`."""
    fields: dict[str, Any] = {}
    for field in _SHOWN_FIELD.finditer(text):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            fields.setdefault(field[1], ast.literal_eval(field[2]))
    return fields


def _call_as_shown(part: Any) -> dict[str, Any] | None:
    """Returns the call that a part has as `repr` writes the object of OpenAI's library; None for any other part."""
    text = first_value(part, "text", "content")
    if not isinstance(text, str) or not text.startswith("ResponseFunctionToolCall("):
        return None
    fields = shown_fields(text)
    keys = ("name", "arguments", "call_id")
    call: dict[str, Any] = {key: fields[key] for key in keys if key in fields}
    return {"type": "tool_call", **call} if "name" in call else None


def _are_parts(value: Any) -> bool:
    """Returns whether a value is a list of parts of a message, each of a known kind or with a text."""
    return isinstance(value, list) and all(
        isinstance(part, dict)
        and (part_kind(part) not in ("unknown", "mark") or isinstance(part.get("text"), str))
        for part in value
    )


def _is_wrapped_call(call: Any) -> bool:
    """Returns whether an entry of `tool_calls` has the call in an object of its own, as OpenInference has it."""
    return isinstance(call, dict) and isinstance(call.get("tool_call"), dict)


def _unwrap_openinference(value: dict[str, Any]) -> ChatMessage:
    """Returns a message of OpenInference, whose parts and calls are wrapped, in the form of a chat API."""
    message = without_keys(value, "contents")
    parts = [part.get("message_content", part) for part in objects_in(value.get("contents"))]
    if parts and not message.get("content"):
        message["content"] = parts
    calls = [call.get("tool_call", call) for call in objects_in(value.get("tool_calls"))]
    if calls:
        message["tool_calls"] = calls
    message.setdefault("content", "")
    return message
