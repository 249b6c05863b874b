"""Conversations and messages as imported, and the counts of a project."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.conversation import Message, Role, ToolCall


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message as imported, with its place; the last four as in `engine.base.conversation.Message`."""

    index: int
    turn: int
    role: Role
    name: str | None
    content: str
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    model_view: str | None
    hidden: bool
    reasoning: str | None = None
    facts: str | None = None


@dataclass(frozen=True, slots=True)
class EarlierState:
    """What a conversation was before an import replaced its text.

    Attributes:
        replaced_at: When, in UTC.
        source: Label of the source that it came from.
        score: The normalised score that was in force; None if it had none.
        raw: The record as imported, byte for byte.
    """

    replaced_at: str
    source: str
    messages: tuple[Message, ...]
    score: float | None
    raw: bytes


@dataclass(frozen=True, slots=True)
class LeakRow:
    """A leak (see the glossary), which is kept from the model: the rule that found it, index of the message (None for a
    field of the record) and text."""

    conversation_id: int
    message: int | None
    rule: str
    found: str


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A record that could not be imported: its source and line, the reason, and its bytes."""

    id: int
    source: str
    line: int | None
    reason: str
    raw: bytes
