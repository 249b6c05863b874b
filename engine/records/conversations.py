"""Conversations and messages as imported, and the counts of a project."""

from __future__ import annotations

from dataclasses import dataclass

from engine.conversation import Message, Role, ToolCall
from engine.records.scores import State, StateCounts
from engine.records.triage import Verdict


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One row of the conversation list.

    Attributes:
        opening: The beginning of the first user message that says more than what conversations share.
        success: Probability of success, fitted to verdicts; None before there are enough, and without hidden states.
        kl: KL(base || fine-tuned), in bits, mean over boundaries; None where not measured.
        messages_before: Number of messages of the text that an import last replaced; None if none was.
    """

    id: int
    external_id: str
    source: str
    opening: str
    messages: int
    turns: int
    chars: int
    created_at: str | None
    p_end: float | None
    p_end_normalised: float | None
    state: State
    reason: str | None
    verdict: Verdict | None
    tags: tuple[str, ...] = ()
    success: float | None = None
    messages_before: int | None = None
    kl: float | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message as imported, with its place; the last four as in `engine.conversation.Message`."""

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


@dataclass(frozen=True, slots=True)
class Counts(StateCounts):
    """Counts of a project or of the conversations that a query matches, with the states under the current scores.

    `complete + incomplete + borderline + unscored == conversations`.
    """

    conversations: int = 0
    messages: int = 0
    turns: int = 0
    sources: int = 0
    duplicates: int = 0
    quarantined: int = 0
    leaks: int = 0
    verdicts: int = 0
