"""The conversation history of Cline and programs made of it: messages of Anthropic, tool calls often as XML in the
text.

A result of a tool stands in a message of the user that begins with `[name for 'what'] Result:`. It becomes the answer
of a tool, unless the user wrote something in it. Calls in the text stay there, as the model wrote them.
"""

from __future__ import annotations

import re
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.formats.json_values import BadRecord, json_text, objects_in
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalise import created_at, looks_like_message, messages_of
from engine.formats.reader import ParsedRecord

_RESULT = re.compile(r"\s*\[([\w.-]+)(?: for [^\n]*)?\] Result:")
_FEEDBACK = re.compile(r"<(feedback|user_message|answer)>")
_DETAILS = "<environment_details>"
_LOOKED_AT = 6


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, list) or not record or not all(map(looks_like_message, record[:1])):
        return None
    beginning = json_text(record[:_LOOKED_AT])
    if "<environment_details>" in beginning and ("<task>" in beginning or "] Result:" in beginning):
        return "the records are lists of messages with `<environment_details>`, as of Cline"
    return None


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft.

    Raises:
        BadRecord: It is no list of messages.
    """
    if not isinstance(record, list):
        raise BadRecord("it is no list of messages")
    messages: list[Message] = []
    for item in record:
        messages += messages_of(_with_role(item), len(messages) + 1)
    if not messages:
        raise BadRecord("no messages")
    first = record[0]
    began = created_at({"timestamp": first.get("ts")}) if isinstance(first, dict) else None
    return ParsedRecord(Conversation(fallback_id, tuple(messages), created_at=began))


def _with_role(item: Any) -> ChatMessage:
    if not isinstance(item, dict) or item.get("role") != "user":
        return item  # type: ignore[no-any-return]
    texts = _texts(item.get("content"))
    if _has_result(item.get("content")) and all(text.startswith(_DETAILS) for text in texts):
        return {**item, "role": "tool"}
    result = _RESULT.match(texts[0]) if texts else None
    if result is None or any(map(_FEEDBACK.search, texts)):
        return item
    return {**item, "role": "tool", "name": result[1]}


def _has_result(content: Any) -> bool:
    return any(part.get("type") == "tool_result" for part in objects_in(content))


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    found = (part.get("text") for part in objects_in(content))
    return [text for text in found if isinstance(text, str)]
