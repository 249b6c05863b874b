"""What is read of a project about its conversations: messages, earlier states, leaks, the quarantine, checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.conversation import Message
from engine.base.number_format import counted
from engine.conversations.text_checks import KINDS, NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow(Message):
    """One message with its place in its conversation: its index from 0, and the number of its turn from 1."""

    index: int
    turn: int


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


MOST_LANGUAGES = 4


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """Numbers of conversations.

    Attributes:
        languages: By language; "" for those where it is not clear.
        personal: By kind of personal data.
        copies: Those that have near duplicates.
        groups: The groups that these form.
    """

    languages: Mapping[str, int]
    personal: Mapping[str, int]
    copies: int
    groups: int

    def in_words(self) -> str:
        """What was found, in one sentence."""
        languages = sorted(self.languages.items(), key=lambda entry: -entry[1])
        parts = [
            f"{code or 'language not clear'} {count:,}"
            for code, count in languages[:MOST_LANGUAGES]
        ]
        if len(languages) > MOST_LANGUAGES:
            parts.append(f"{len(languages) - MOST_LANGUAGES} more languages")
        parts += [
            f"{NAMES[kind]} in {self.personal[kind]:,}" for kind in KINDS if self.personal.get(kind)
        ]
        if self.copies:
            parts.append(
                f"{self.copies:,} are near copies of one another ({counted(self.groups, 'group')})"
            )
        some = counted(sum(self.languages.values()), "conversation")
        return f"Looked at {some}: {', '.join(parts) or 'nothing new'}."
