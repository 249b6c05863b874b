"""The texts that are shown of a message, before they are broken into lines. Pure functions.

Finding looks through the same texts as the transcript draws, so an offset means the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.base.conversation import ToolCall
from engine.conversations.records import MessageRow
from screens.widgets.text.pretty_json import pretty_json
from screens.widgets.text.wrap import safe_text

Form = Literal["plain", "markdown", "json", "call"]
"""What kind of text something is, for its styles."""

REASONING = "reasoning: "
"""Stands before what the assistant thought."""


@dataclass(frozen=True, slots=True)
class Part:
    """The reasoning of a message, its content, or one of its tool calls.

    Attributes:
        text: Not yet display-safe: `safe_text(text)` is what offsets refer to.
        call: It is a tool call.
        reasoning: It is what the assistant thought; a model does not read it.
        packed: The text as imported where `text` is laid out: it says more in few lines.
    """

    text: str
    form: Form
    call: bool = False
    packed: str | None = None
    reasoning: bool = False


def parts(message: MessageRow, *, raw: bool) -> list[Part]:
    """The reasoning and the content, unless they are blank, then the tool calls in order; `raw` leaves everything as
    imported."""
    found = []
    if message.reasoning and message.reasoning.strip():
        found.append(Part(f"{REASONING}{message.reasoning.strip()}", "plain", reasoning=True))
    if message.content.strip():
        found.append(content_part(message, raw=raw))
    found += [call_part(call, raw=raw) for call in message.tool_calls]
    return found


def content_part(message: MessageRow, *, raw: bool) -> Part:
    """The content as it is shown."""
    content = message.content.rstrip("\n")
    if raw:
        return Part(content, "plain")
    if content[:1] in "{[ \n\t" and content.lstrip()[:1] in ("{", "["):
        laid_out = pretty_json(content)
        if laid_out is not None:
            return Part(laid_out, "json", packed=content)
        if content.lstrip()[:2] in ('{"', '["', "[{", "[["):
            return Part(content, "json")
    return Part(content, "markdown" if message.role in ("user", "assistant") else "plain")


def call_part(call: ToolCall, *, raw: bool) -> Part:
    """A tool call as it is shown: name and arguments."""
    packed = f"→ {call.name} {call.arguments}"
    if raw:
        return Part(packed, "plain", call=True)
    laid_out = pretty_json(call.arguments)
    if laid_out is None:
        return Part(packed, "call", call=True)
    return Part(f"→ {call.name} {laid_out}", "call", call=True, packed=packed)


def part_texts(message: MessageRow, *, raw: bool) -> list[str]:
    """The parts as they are drawn, whole."""
    return [safe_text(part.text) for part in parts(message, raw=raw)]
