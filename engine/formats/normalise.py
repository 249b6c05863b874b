"""Converts messages from files into `engine.conversation.Message`: roles, contents, tool calls.

All formats share one vocabulary of roles, because exports mix them; a format only defines where its messages are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engine.conversation import Conversation, Message, Role, ToolCall, without_surrogates

MAX_DEPTH = 200
"""Deepest allowed nesting of a record, well below the limit of Python's JSON encoder."""

RENDERED_CALLS = "TOOL CALLS: ["
"""Start of the text with which the uniform format repeats the tool calls of a message at the end of its content."""

ROLE_NAMES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
    "tool_response": "tool",
}

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_TEXT_PARTS = (None, "text", "input_text", "output_text", "refusal")
_PLACEHOLDERS = {
    "image_url": "[image]",
    "input_image": "[image]",
    "input_audio": "[audio]",
    "audio_url": "[audio]",
    "input_file": "[file]",
    "video_url": "[video]",
}


class BadRecord(Exception):
    """The record is not a conversation; `reason` is a text for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Draft:
    """A conversation as its reader returns it, before the leak guard.

    Attributes:
        fields: The other fields of the record; the leak guard divides them into meta and truth.
        truth_fields: Names in `fields` that are truth in this format, even if not in others.
    """

    conversation: Conversation
    fields: dict[str, Any] = field(default_factory=dict)
    truth_fields: frozenset[str] = frozenset()


def kind_of(value: Any) -> str:
    """Returns the type of a JSON value in words: `a list`, `text`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"


def as_object(record: Any) -> dict[str, Any]:
    """Returns the record; raises BadRecord if it is not an object."""
    if not isinstance(record, dict):
        raise BadRecord(f"the record is {kind_of(record)}, not an object")
    return record


def looks_like_message(value: Any) -> bool:
    """Whether a JSON value has the keys of one message."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str):
        return "content" in value or "tool_calls" in value or "function_call" in value
    return isinstance(value.get("from"), str) and "value" in value


def looks_like_messages(value: Any) -> bool:
    """Whether a JSON value is a list that begins with a message."""
    return isinstance(value, list) and bool(value) and looks_like_message(value[0])


def read_messages(items: Any, *, rendered_calls: bool = False) -> tuple[Message, ...]:
    """Returns the messages of a record; raises BadRecord if there are none or one is not a message."""
    if not isinstance(items, list):
        raise BadRecord(f"the messages are {kind_of(items)}, not a list")
    if not items:
        raise BadRecord("no messages")
    return tuple(
        [read_message(item, number, rendered_calls) for number, item in enumerate(items, 1)]
    )


def read_message(item: Any, number: int, rendered_calls: bool = False) -> Message:
    """Reads one message.

    Args:
        number: Number of the message, from 1, for the reason of a BadRecord.
        rendered_calls: Whether the content may end with a copy of the tool calls as text, which is removed.

    Raises:
        BadRecord: It is not a message.
    """
    if not isinstance(item, dict):
        raise BadRecord(f"message {number} is {kind_of(item)}, not an object")
    spoken_by = item["role"] if "role" in item else item.get("from")
    role = ROLE_NAMES.get(spoken_by) if isinstance(spoken_by, str) else None
    if role is None:
        raise BadRecord(_bad_role(spoken_by, number))
    content = item["content"] if "content" in item else item.get("value")
    if len(item) == 2 and isinstance(content, str) and spoken_by != "function_call":
        return Message(role, content)
    calls: list[ToolCall] = []
    if spoken_by == "function_call" and isinstance(content, str):
        calls = _calls_in_text(content)
        content = "" if calls else content
    text = content if isinstance(content, str) else _joined_parts(content, calls, item, number)
    if "tool_calls" in item or "function_call" in item:
        _add_calls(item, calls, number)
    if rendered_calls and calls:
        text = _without_rendering(text)
    return Message(
        role,
        text,
        _optional_text(item, "name", number),
        tuple(calls),
        _optional_text(item, "tool_call_id", number),
    )


def _bad_role(spoken_by: Any, number: int) -> str:
    if spoken_by is None:
        return f"message {number} has no role"
    if isinstance(spoken_by, str):
        return f"message {number} has role {spoken_by[:60]!r}"
    return f"message {number} has a role that is {kind_of(spoken_by)}"


def _joined_parts(content: Any, calls: list[ToolCall], item: Mapping[str, Any], number: int) -> str:
    """Returns the text of a content that is null or a list of parts; appends tool calls among the parts to `calls`."""
    if content is None:
        refusal = item.get("refusal")
        if isinstance(refusal, str):
            return refusal
        if not {"content", "value", "tool_calls", "function_call"} & item.keys():
            raise BadRecord(f"message {number} has no content")
        return ""
    if not isinstance(content, list):
        raise BadRecord(f"message {number} has content that is {kind_of(content)}")
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            raise BadRecord(f"message {number} has a content part that is {kind_of(part)}")
        kind = part.get("type")
        found = next((part[key] for key in ("text", "value", "refusal") if key in part), None)
        if kind == "tool_call" and isinstance(found, str) and (more := _calls_in_text(found)):
            calls.extend(more)
        elif isinstance(found, str) and kind in _TEXT_PARTS:
            texts.append(found)
        elif isinstance(kind, str):
            texts.append(_PLACEHOLDERS.get(kind, f"[{kind}]"))
        else:
            raise BadRecord(f"message {number} has a content part without type and text")
    return "\n".join(texts)


def _add_calls(item: Mapping[str, Any], calls: list[ToolCall], number: int) -> None:
    listed = item.get("tool_calls")
    if listed is not None:
        if not isinstance(listed, list):
            raise BadRecord(f"message {number} has tool_calls that are {kind_of(listed)}")
        calls.extend(_call(entry, number) for entry in listed)
    old = item.get("function_call")
    if old is not None:
        calls.append(_call(old, number))


def _call(entry: Any, number: int) -> ToolCall:
    if not isinstance(entry, dict):
        raise BadRecord(f"message {number} has a tool call that is {kind_of(entry)}")
    body = entry.get("function", entry.get("custom"))
    if not isinstance(body, dict):
        # Some exports have the name itself under "function", others have no wrapper.
        body = {**entry, "name": body} if isinstance(body, str) else entry
    name = body.get("name")
    if not isinstance(name, str):
        raise BadRecord(f"message {number} has a tool call whose name is {kind_of(name)}")
    arguments = next((body[key] for key in ("arguments", "args", "input") if key in body), "")
    if not isinstance(arguments, str):
        arguments = _ENCODE(arguments)
    return ToolCall(name, arguments, _optional_text(entry, "id", number))


def _calls_in_text(text: str) -> list[ToolCall]:
    """Returns the calls that a `function_call` turn has as JSON text; [] if it is not such JSON."""
    try:
        value = storable(json.loads(text))
        return [_call(entry, 0) for entry in (value if isinstance(value, list) else [value])]
    except (ValueError, RecursionError, BadRecord):
        return []


def _without_rendering(text: str) -> str:
    if text.startswith(RENDERED_CALLS):
        return ""
    cut = text.rfind("\n" + RENDERED_CALLS)
    return text[:cut] if cut >= 0 and text.endswith("]") else text


def _optional_text(item: Mapping[str, Any], key: str, number: int) -> str | None:
    value = item.get(key)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadRecord(f"message {number} has a {key} that is {kind_of(value)}")


def record_id(record: Mapping[str, Any], keys: tuple[str, ...], fallback: str) -> str:
    """Returns the first usable id among `keys`, else `fallback`; raises BadRecord if an id is a list or an object."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, list | dict):
            raise BadRecord(f"`{key}` is {kind_of(value)}, not text")
    return fallback


def created_at(record: Mapping[str, Any]) -> str | None:
    """Returns when the conversation began, None if unknown: a text unchanged, seconds or milliseconds since 1970 as ISO
    8601 in UTC."""
    for key in ("created_at", "timestamp", "created", "create_time", "started_at"):
        value = record.get(key)
        if isinstance(value, str) and value and len(value) <= 64:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if 1e11 < value < 1e14 else value
            if 1e8 < seconds < 1e11:
                return datetime.fromtimestamp(seconds, UTC).isoformat()
    return None


def storable(value: Any) -> Any:
    """Returns a JSON value without lone surrogates in texts and keys, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [storable(entry) for entry in value]
    if isinstance(value, dict):
        return {without_surrogates(key): storable(entry) for key, entry in value.items()}
    return value


def nested_deeper(value: Any, limit: int) -> bool:
    """Whether a JSON value is nested deeper than `limit` levels; works without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level and depth <= limit:
        depth += 1
        level = [
            entry
            for parent in level
            for entry in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(entry, dict | list)
        ]
    return depth > limit
