"""The query behind the list and its result: filter, order, counts and hits, also as text."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.completeness.records import DecisionRule
from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery
from engine.opener.conversations import ConversationRow, Counts
from engine.opener.open_project import OpenProject
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import STATE_LOOKS, rate_piece

SORT_TITLES: dict[SortKey, str] = {
    "id": "order of import",
    "name": "name",
    "source": "source",
    "date": "date",
    "p": "score",
    "success": "probability of success",
    "trouble": "trouble",
    "turns": "turns",
    "messages": "messages",
    "length": "length",
    "succeeded": "your verdict",
    "tag": "your tag",
}
"""What each order is called on the screen."""
_OUTCOME = ("state", "succeeded", "p", "success", "remaining", "disagreement", "sign", "trouble")
"""Filter fields about the outcome. A rate over conversations chosen by them would mean nothing."""


@dataclass(frozen=True, slots=True)
class ListCounts:
    """Counts that belong to one list.

    Attributes:
        everything: Of the project.
        matching: Of what matches.
        scores: The set of scores that the states come from; empty without scores.
        has_rate: Whether what matches was not chosen by its outcome, so that its completion rate means something.
        rule: What makes states of scores.
    """

    everything: Counts
    matching: Counts
    scores: str = ""
    has_rate: bool = True
    rule: DecisionRule = field(default_factory=DecisionRule)


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to one query: ids in order, the first rows if they were read with them, and the counts that belong to
    them once they are known."""

    query: ListQuery
    ids: array[int]
    counts: ListCounts | None = None
    first: Sequence[ConversationRow] = ()


def read_counts(services: OpenProject, query: ListQuery) -> ListCounts:
    """Counts what belongs to the list of a query."""
    conversations = services.conversations
    everything = conversations.counts()
    matching = conversations.counts(query) if query.filter else everything
    has_rate = query.filter == query.filter.without(*_OUTCOME)
    name, rule = services.score_sets.name_in_force(), conversations.rule()
    return ListCounts(everything, matching, name, has_rate, rule)


def toggle_sort(query: ListQuery, key: SortKey) -> ListQuery:
    """Returns the query sorted by a column, the other way round when it is sorted by it already."""
    if query.sort == key:
        return replace(query, descending=not query.descending)
    return replace(query, sort=key, descending=key in ("turns", "messages", "length", "date"))


def sort_of_column(column: str) -> SortKey | None:
    """Returns the sort key of a column; None for a column that cannot be sorted by."""
    if column == "state":
        return "p"
    return next((key for key in SORT_TITLES if key == column), None)


def format_counts(shown: int, counts: ListCounts) -> Content:
    """Returns `812 of 2,000 · 71% [68, 74] ended, ≥ .50 (96% scored)`; the rate is over scored conversations only,
    and left out where they were chosen by their outcome."""
    words = f"{shown:,} of {counts.everything.conversations:,}"
    count = counts.matching
    if not (count.scored and counts.has_rate):
        return Content(words)
    threshold = number_format.at_least(counts.rule.threshold)
    scored = 100 * count.scored / count.conversations
    return Content.assemble(
        f"{words} · ",
        rate_piece(count.above, count.scored),
        f" ended, {threshold} ({scored:.0f}% scored)",
    )


def summary_content(listing: Listing, marked: int) -> Content:
    """Returns how many conversations are marked and listed, and how many of those that match have each state."""
    parts: list[Content | tuple[str, str] | str] = []
    if marked:
        parts.append((f"{marked:,} marked · ", "bold $tone-accent"))
    if listing.counts is None:
        parts.append(f"{len(listing.ids):,} listed · counting …")
        return Content.assemble(*parts)
    found = listing.counts.matching
    parts.append(format_counts(len(listing.ids), listing.counts))
    if found.conversations and not found.scored:
        if listing.counts.scores:
            parts.append(" · none is scored, enter says why")
        else:
            parts.append(" · no scores yet, r scores them and says first how long it takes")
    for look, number in zip(
        STATE_LOOKS.values(),
        (found.complete, found.incomplete, found.borderline, found.unscored),
        strict=True,
    ):
        if number:
            parts.append((f"  {look.glyph} {number:,}", look.tone_variable))
    if listing.counts.scores:
        parts.append((f"  {listing.counts.scores}", "$tone-muted"))
    return Content.assemble(*parts)


def no_match(total: int, query: ListQuery) -> EmptyState:
    """Returns the sentence that nothing matches the filter, of so many conversations."""
    shown = one_line(str(query.filter), 80)
    return EmptyState(
        f"None of {total:,} conversations matches: {shown}",
        "changes the filter",
        "edit_filter",
        others=(("conversations.clear", "clears it"),),
    )
