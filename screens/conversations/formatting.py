"""The counts of the list as text: the summary above it, and why it is empty."""

from __future__ import annotations

from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from screens.conversations.query import ListCounts, Listing
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import STATE_LOOKS


def format_counts(shown: int, counts: ListCounts) -> str:
    """`812 of 2,000 · 71% [68, 74] complete, ≥ .50 (96% scored)`; the rate is over scored conversations only, and left
    out where they were chosen by their outcome."""
    words = f"{shown:,} of {counts.everything.conversations:,}"
    found = counts.matching
    if found.scored and counts.has_rate:
        scored = 100 * found.scored / found.conversations
        words += (
            f" · {number_format.rate(found.above, found.scored)} complete,"
            f" {number_format.at_least(counts.rule.threshold)} ({scored:.0f}% scored)"
        )
    return words


def summary_content(listing: Listing, marked: int) -> Content:
    """How many conversations are marked and listed, and how many of those that match have each state."""
    parts: list[Content | tuple[str, str] | str] = []
    if marked:
        parts.append((f"{marked:,} marked · ", "bold $tone-accent"))
    if listing.counts is None:
        parts.append(f"{len(listing.ids):,} listed · counting …")
        return Content.assemble(*parts)
    found = listing.counts.matching
    parts.append(format_counts(len(listing.ids), listing.counts))
    if found.conversations and not found.scored:
        parts.append(" · no scores yet, r scores them and says first how long it takes")
    for look, number in zip(
        STATE_LOOKS.values(),
        (found.complete, found.incomplete, found.borderline, found.unscored),
        strict=True,
    ):
        parts.append((f"  {look.glyph} {number:,}", look.tone_variable))
    if listing.counts.scores:
        parts.append((f"  {listing.counts.scores}", "$tone-muted"))
    return Content.assemble(*parts)


def no_match(total: int, query: ListQuery) -> EmptyState:
    """That nothing matches the filter, of so many conversations."""
    shown = one_line(str(query.filter), 80)
    return EmptyState(
        f"None of {total:,} conversations matches: {shown}",
        "changes the filter",
        "edit_filter",
        others=(("conversations.clear", "clears it"),),
    )
