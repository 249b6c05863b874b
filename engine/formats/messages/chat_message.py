"""Reads one message, in the form of any chat API or of LangChain, as a message of one common form."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from engine.formats.json_values import json_text, list_or_empty, object_or_empty, objects_in
from engine.formats.messages.parts import first_value, part_kind
from engine.formats.messages.roles import CHAT_ROLES, role_named, role_of_speaker
from engine.formats.paths import json_within

ChatMessage = dict[str, Any]
"""A message with role, content, tool_calls, tool_call_id, name and reasoning_content; other keys are facts."""

UNKNOWN_ROLE = "unknown_role"
"""Key of a message for a role of the log that is no known word; the account counts it."""

_LANGCHAIN_ROLES: dict[str, str] = {
    **{
        word: CHAT_ROLES[word]
        for word in ("human", "ai", "system", "tool", "function", "developer")
    },
    "chat": "assistant",
}
"""Types of LangChain's messages; `chat` has a role of its own, of which nothing is known."""

_SHOWN_FIELD = re.compile(
    r"\b(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[\{.*?\}\](?=[ ,)]))", re.DOTALL
)
"""Matches a field of an object as Python shows it, with its value: a text, or a list of objects."""


def as_message(value: Any) -> ChatMessage | None:
    """Returns a value as a message of a chat API, if it is a message of any known form; else None."""
    if not isinstance(value, dict):
        return None
    if (langchain := langchain_message(value)) is not None:
        return langchain
    if isinstance(value.get("_role"), str):  # Haystack
        value = {key.removeprefix("_"): entry for key, entry in value.items()}
    if "role" not in value and is_of_autogen(value):
        value = _of_autogen(value)
    inner: Any = value.get("message")
    if isinstance(inner, dict) and "role" not in value and isinstance(inner.get("role"), str):
        return as_message(inner)
    role = value.get("role")
    if not isinstance(role, str):
        return None
    if "blocks" in value and "content" not in value:  # LlamaIndex
        rest = {key: entry for key, entry in value.items() if key != "blocks"}
        value = {
            **rest,
            "content": [_part_of_block(block) for block in list_or_empty(value["blocks"])],
        }
    if not value.keys() & {"content", "parts", "contents", "tool_calls", "function_call"}:
        return {**value, "content": ""} if len(value) == 1 else None
    content = value.get("content")
    if isinstance(content, str) and content[:2] == "[{" and _are_parts(json_within(content)):
        content = json_within(content)  # Strands
        value = {**value, "content": content}
    if isinstance(content or value.get("parts"), list):
        key = "content" if content else "parts"
        value = {**value, key: [_call_as_shown(part) or part for part in value[key]]}
    if role == "tool" and isinstance(content, list) and content:
        if not _are_parts(content):  # the answer is itself a list
            value = {**value, "content": json_text(content)}
        elif all(part_kind(part) == "call" for part in content):  # Koog
            value = {**value, "role": (role := "assistant")}
    kwargs = object_or_empty(value.get("additional_kwargs"))
    if "tool_calls" in kwargs and not value.get("tool_calls"):  # LangChain, as Langfuse has it
        value = {**value, "tool_calls": kwargs["tool_calls"]}
    if role_named(role) is None:  # the name of a tool or an agent stands in its place
        assumed_role = "tool" if value.get("tool_call_id") else "assistant"
        value = {**value, "role": assumed_role, "name": value.get("name") or role}
        if assumed_role == "assistant":
            value[UNKNOWN_ROLE] = role
    if "contents" in value or any(
        _is_wrapped_call(call) for call in list_or_empty(value.get("tool_calls"))
    ):
        value = _unwrap_openinference(value)
    message: ChatMessage = value
    return message


def is_of_autogen(value: Mapping[str, Any]) -> bool:
    """Returns whether an object is a message or an event of AutoGen."""
    is_known = str(value.get("type")).endswith(("Message", "Event"))
    return is_known and isinstance(value.get("source"), str) and "content" in value


def _of_autogen(value: Mapping[str, Any]) -> ChatMessage:
    """Returns a message or an event of AutoGen, whose type says what it is or else whose source says who speaks."""
    kind, source = value["type"], value["source"]
    rest = {key: value[key] for key in value if key != "type"}
    if kind == "ToolCallRequestEvent":
        calls = {"tool_calls": value["content"]}
        return {**rest, **calls, "role": "assistant", "name": source, "content": ""}
    if kind == "ToolCallExecutionEvent":
        answers = [{"type": "tool-result", **answer} for answer in objects_in(value["content"])]
        return {**rest, "role": "tool", "content": answers}
    role = role_named(kind.removesuffix("Message")) or role_of_speaker(source) or "assistant"
    return {**rest, "role": role, "name": None if role_of_speaker(source) else source}


def langchain_message(value: Mapping[str, Any]) -> ChatMessage | None:
    """Returns a message of LangChain, as `dumpd`, `messages_to_dict` or `model_dump` write it; None if it is none."""
    kind = value.get("type")
    body: Any = value
    if kind == "constructor" and isinstance(value.get("id"), list) and value["id"]:
        name = str(value["id"][-1])
        body = object_or_empty(value.get("kwargs"))
        if "Message" not in name:
            return None
        kind = body.get("type", name.partition("Message")[0].lower())
    elif isinstance(value.get("data"), dict) and "content" in value["data"]:
        body = value["data"]
    elif "role" in value and value["role"] not in ("human", "ai"):
        return None
    if not isinstance(kind, str) or "content" not in body:
        return None
    word = kind.removesuffix("MessageChunk").removesuffix("Message").lower()
    role = _LANGCHAIN_ROLES.get(word)
    if role is None:
        return None
    extra = body.get("additional_kwargs")
    extra = object_or_empty(extra)
    calls = body.get("tool_calls") or extra.get("tool_calls")
    content = body["content"]
    if calls and isinstance(content, list):  # some models' parts repeat the calls
        content = [
            part for part in content if not isinstance(part, dict) or part_kind(part) != "call"
        ]
    rest = {
        key: entry
        for key, entry in body.items()
        if entry not in (None, "", [], {}) and key not in ("type", "content", "tool_calls", "role")
    }
    if isinstance(extra, dict) and "tool_calls" in extra and body.get("tool_calls"):
        rest["additional_kwargs"] = {key: extra[key] for key in extra if key != "tool_calls"}
    message = {**rest, "role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
    if isinstance(extra.get("reasoning_content"), str):
        message["reasoning_content"] = extra["reasoning_content"]
    if role == "tool" and not isinstance(content, str | list):
        message["content"] = json_text(content)
    return message


def message_of_pair(value: Any) -> ChatMessage | None:
    """Returns a message that is a role and a text, as LangChain takes it."""
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(x, str) for x in value):
        return None
    role = _LANGCHAIN_ROLES.get(value[0].lower(), value[0].lower())
    return {"role": role, "content": value[1]} if role in _LANGCHAIN_ROLES.values() else None


def _part_of_block(block: Any) -> Any:
    """Returns a block of LlamaIndex as a part."""
    if not isinstance(block, dict) or "block_type" not in block:
        return block
    return {**block, "type": block["block_type"]}


def shown_fields(text: str) -> dict[str, Any]:
    """Returns the fields with texts and lists of an object as Python shows it, `role='user' content='Hi'`."""
    fields: dict[str, Any] = {}
    for field in _SHOWN_FIELD.finditer(text):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            fields.setdefault(field[1], ast.literal_eval(field[2]))
    return fields


def _call_as_shown(part: Any) -> dict[str, Any] | None:
    """Returns the call that a part has as Python shows the object of OpenAI's library; None for any other part."""
    text = first_value(part, ("text", "content")) if isinstance(part, dict) else None
    if not isinstance(text, str) or not text.startswith("ResponseFunctionToolCall("):
        return None
    fields = shown_fields(text)
    keys = ("name", "arguments", "call_id")
    call: dict[str, Any] = {key: fields[key] for key in keys if key in fields}
    return {"type": "tool_call", **call} if "name" in call else None


def _are_parts(value: Any) -> bool:
    return isinstance(value, list) and all(
        (isinstance(part, dict) and part_kind(part) not in ("unknown", "mark")) or _is_text(part)
        for part in value
    )


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _is_wrapped_call(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("tool_call"), dict)


def _unwrap_openinference(value: dict[str, Any]) -> ChatMessage:
    """Returns a message of OpenInference, whose parts and calls are wrapped, in the form of a chat API."""
    message = {key: entry for key, entry in value.items() if key != "contents"}
    parts = [
        part.get("message_content", part)
        for part in list_or_empty(value.get("contents"))
        if isinstance(part, dict)
    ]
    if parts and not message.get("content"):
        message["content"] = parts
    calls = [
        call.get("tool_call", call)
        for call in list_or_empty(value.get("tool_calls"))
        if isinstance(call, dict)
    ]
    if calls:
        message["tool_calls"] = calls
    message.setdefault("content", "")
    return message
