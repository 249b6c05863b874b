"""Context that a program puts into the messages of a user: opened files, reminders, details of the environment."""

from __future__ import annotations

import re
from typing import Any

from engine.formats.json_values import list_or_empty
from engine.formats.messages.chat_message import ChatMessage

_BLOCK = re.compile(
    r"\s*<(?P<tag>system[-_]reminder|environment_context|environment_details|user_info|user_instructions"
    r"|ide_\w+|[\w-]+-hook|task-notification|local-command-\w+|bash-std\w+|editor_context|attached_files"
    r"|open_and_recently\w*|current_\w+|workspace_\w+|project_layout|additional_data|USER_SETTINGS_CHANGE"
    r"|ADDITIONAL_METADATA)\b[^>]*>.*?</(?P=tag)>\s*",
    re.DOTALL,
)
"""Matches a block that a program wrote, in a tag with one of the usual names."""
_ASKED = re.compile(
    r"\s*<(?P<tag>user_query|USER_REQUEST)>\s*(?P<text>.*?)\s*</(?P=tag)>\s*", re.DOTALL
)
"""Matches what a user wrote, in the tag that Cursor or Antigravity puts around it."""


def with_context_apart(message: ChatMessage) -> list[ChatMessage]:
    """Returns a message, before it what a program put into it if it is the user's: a message of the system.

    The tag that a program put around all that the user wrote is taken off.
    """
    if message.get("role") != "user":
        return [message]
    rest, blocks = _without_blocks(message.get("content"))
    if isinstance(rest, str) and (asked := _ASKED.fullmatch(rest)):
        rest = asked["text"]
    elif isinstance(rest, list):
        rest = [
            {**part, "text": asked["text"]}
            if isinstance(part, dict) and (asked := _ASKED.fullmatch(str(part.get("text"))))
            else part
            for part in rest
        ]
    if not blocks:
        return [{**message, "content": rest} if "content" in message else message]
    context = {"role": "system", "content": "\n".join(blocks)}
    if rest is None:
        return [{**message, **context}]
    return [context, {**message, "content": rest}]


def _without_blocks(content: Any) -> tuple[Any, list[str]]:
    """Returns the content of a user's message without the blocks at its beginning and end that a program wrote, and
    these blocks; nothing is left of the content, None, if it is such blocks only."""
    if isinstance(content, str):
        blocks: list[str] = []
        text = content
        while match := _BLOCK.match(text):
            blocks.append(match[0].strip())
            text = text[match.end() :]
        after = list(_BLOCK.finditer(text)) if text.rstrip().endswith(">") else []
        while after and after[-1].end() == len(text):
            last = after.pop()
            blocks.append(last[0].strip())
            text = text[: last.start()]
        return (text if blocks else content) or (None if blocks else content), blocks
    blocks = []
    parts: list[Any] = []
    for part in list_or_empty(content):
        said = part.get("text") if isinstance(part, dict) else None
        rest, inserted = _without_blocks(said) if isinstance(said, str) else (said, [])
        blocks += inserted
        if not inserted:
            parts.append(part)
        elif rest is not None:
            parts.append({**part, "text": rest})
    return (parts or None, blocks) if blocks else (content, [])
