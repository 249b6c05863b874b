"""Takes apart what a program wrote into texts: context in the messages of a user (opened files, reminders, the
environment), and thoughts and calls of tools in those of the assistant.

A *block* is a part of a text in a tag of its own, such as `<system-reminder>...</system-reminder>`.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

from engine.formats.messages.chat_message import ChatMessage

_PROGRAM_BLOCK = re.compile(
    r"\s*<(?P<tag>system[-_]reminder|environment_context|environment_details|user_info|user_instructions"
    r"|ide_\w+|[\w-]+-hook|task-notification|local-command-\w+|bash-std\w+|editor_context|attached_files"
    r"|open_and_recently\w*|current_\w+|workspace_\w+|project_layout|additional_data|USER_SETTINGS_CHANGE"
    r"|ADDITIONAL_METADATA)\b[^>]*>.*?</(?P=tag)>\s*",
    re.DOTALL,
)
"""Matches a block that a program wrote, in a tag with one of the usual names."""
_TAGGED_REQUEST = re.compile(
    r"\s*(?P<before><(?!user_query|USER_REQUEST)\w[^>]*>.*>\s*)?<(?P<tag>user_query|USER_REQUEST)>\s*(?P<text>.*?)\s*</(?P=tag)>\s*"
    r"(?P<after><(?!user_query|USER_REQUEST)\w[^>]*>.*>\s*)?",
    re.DOTALL,
)
"""Matches what a user wrote, in the tag that Cursor or Antigravity puts around it, perhaps between other tags."""

_DETAILS_BLOCK = re.compile(
    r"\s*<details type=\"(?P<type>reasoning|tool_calls)\"(?P<about>[^>]*)>(?P<inner>.*?)</details>\s*",
    re.DOTALL,
)
"""Matches a block of Open WebUI before version 0.7 with what the model thought, or the call of a tool."""

_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
"""Matches an attribute in the tag of a `_DETAILS_BLOCK`, with its name and its value."""

_THOUGHT_DECORATION = re.compile(r"<summary>.*?</summary>|^> ?", re.DOTALL | re.MULTILINE)
"""Finds what Open WebUI adds to what the model thought: a line about it, and the marks of a quotation."""


def with_context_apart(message: ChatMessage) -> list[ChatMessage]:
    """Returns the messages to put in place of one: itself, unless it is of the user and a program put context into it.

    Then a message of the system with the context stands before it, or in place of it if it is only context. The tag
    that a program put around all that the user wrote is taken off, with or without context.
    """
    if message.get("role") != "user":
        return [message]
    remaining, blocks = _without_blocks(message.get("content"))
    if not blocks:
        return [{**message, "content": remaining} if "content" in message else message]
    context = {"role": "system", "content": "\n".join(blocks)}
    if remaining is None:
        return [{**message, **context}]
    return [context, {**message, "content": remaining}]


def _without_blocks(content: Any) -> tuple[Any, list[str]]:
    """Returns the content of a user's message without what a program wrote into it, and these blocks.

    Each text loses the blocks at its beginning and end, and the tag around a request; see `_text_without_blocks`. None
    stands for a content that is blocks only.
    """
    if isinstance(content, str):
        return _text_without_blocks(content)
    if not isinstance(content, list):
        return content, []
    blocks: list[str] = []
    parts: list[Any] = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            parts.append(part)
            continue
        remaining, blocks_of_part = _text_without_blocks(text)
        blocks += blocks_of_part
        if remaining == text:
            parts.append(part)
        elif remaining is not None:
            parts.append({**part, "text": remaining})
    return (None if blocks and not parts else parts), blocks


def _text_without_blocks(content: str) -> tuple[str | None, list[str]]:
    """Returns a text without the blocks at its beginning and end that a program wrote, and these blocks.

    The blocks at the beginning come in their order, then those at the end, the last one first. Of a text with a tagged
    request (`_TAGGED_REQUEST`) only the request is left. None stands for a text that is blocks only.
    """
    if request := _TAGGED_REQUEST.fullmatch(content):
        around = (request["before"], request["after"])
        return request["text"], [block.strip() for block in around if block]
    blocks: list[str] = []
    text = content
    while match := _PROGRAM_BLOCK.match(text):
        blocks.append(match[0].strip())
        text = text[match.end() :]
    after = list(_PROGRAM_BLOCK.finditer(text)) if text.rstrip().endswith(">") else []
    while after and after[-1].end() == len(text):
        last = after.pop()
        blocks.append(last[0].strip())
        text = text[: last.start()]
    if not blocks:
        return content, []
    return text or None, blocks


def with_details_as_parts(message: ChatMessage) -> ChatMessage:
    """Returns a message of the assistant with the blocks of its text that hold thoughts and calls as parts; any other
    message as it is."""
    text = message.get("content")
    if message.get("role") != "assistant" or not isinstance(text, str) or "<details " not in text:
        return message
    parts: list[Any] = []
    end = 0
    for block in _DETAILS_BLOCK.finditer(text):
        if text[end : block.start()].strip():
            parts.append(text[end : block.start()])
        end = block.end()
        if block["type"] == "reasoning":
            thought = _THOUGHT_DECORATION.sub("", html.unescape(block["inner"])).strip()
            parts.append({"type": "reasoning", "text": thought})
        else:
            facts = {key: _unquoted(value) for key, value in _ATTRIBUTE.findall(block["about"])}
            call = {"type": "tool-call", "name": facts.get("name"), "id": facts.get("id")}
            parts.append({**call, "input": facts.get("arguments"), "output": facts.get("result")})
    if text[end:].strip():
        parts.append(text[end:])
    return {**message, "content": parts}


def _unquoted(value: str) -> Any:
    """Returns the value of an attribute: what its text says in JSON if it begins with a quotation mark, else the
    text."""
    value = html.unescape(value)
    try:
        return json.loads(value) if value.startswith('"') else value
    except ValueError:
        return value
