"""Rows of the joined list of conversations."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.outcomes import (
    State,
    Verdict,
)
from engine.completeness.records.scores import StateCounts


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One row of the conversation list.

    Attributes:
        opening: The beginning of the first user message that says more than what conversations share.
        success: Probability of success, fitted to verdicts; None before there are enough, and without hidden states.
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
