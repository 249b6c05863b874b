"""The query behind the list and its result: filter, order, counts and hits, also as text."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from textual.content import Content
from textual.dom import DOMNode

from engine.base import number_format
from engine.base.conversation import State
from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.completeness.records import DecisionRule
from engine.conversations.filter_fields import WORD_FIELD, SortKey
from engine.conversations.filters import Filter, ListQuery
from engine.opener.conversations import ConversationRow, Counts
from engine.opener.open_project import OpenProject
from screens.widgets.background import background
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import STATE_LOOKS, rate_piece

STATE_CYCLE: tuple[State | None, ...] = (
    None,
    State.INCOMPLETE,
    State.BORDERLINE,
    State.UNSCORED,
    State.COMPLETE,
)
"""The states that a key goes through, after them all conversations."""
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


def next_state(query: ListQuery) -> ListQuery:
    """Returns the query with the next state filter of the cycle."""
    now = query.filter.of("state")
    position = STATE_CYCLE.index(State(now[0].values[0]) if now else None)
    after = STATE_CYCLE[(position + 1) % len(STATE_CYCLE)]
    return replace(query, filter=query.filter.with_choice("state", after))


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


def searched_words(filter: Filter) -> Filter:
    """Returns the words and phrases that a filter searches for, without terms on fields and negated terms."""
    return Filter(tuple(term for term in filter.of(WORD_FIELD) if not term.negated))


CountHits = Callable[[int, Filter], list[int]]
"""Returns the indices of the messages of a conversation in which the words of a filter occur."""


class HitCounts:
    """Counts the searched words in each conversation that is shown, on another thread and a batch at a time.

    Where counting failed the number stays unknown and is not tried again.
    """

    def __init__(self, node: DOMNode, count: CountHits, counted: Callable[[], None]) -> None:
        """`counted` is called when there are new numbers."""
        self._node, self._count, self._counted = node, count, counted
        self._filter = Filter()
        self._counts: dict[int, int | None] = {}
        self._uncounted: dict[int, None] = {}
        self._reading = False

    def look_for(self, words: Filter) -> None:
        """Forgets what is known and counts these words from now on."""
        self._filter = words
        self._counts.clear()
        self._uncounted.clear()

    def of(self, conversation_id: int) -> int | None:
        """Returns the number, or None while it is not known: it is counted then."""
        if conversation_id not in self._counts:
            self._counts[conversation_id] = None
            self._uncounted[conversation_id] = None
            if not self._reading:
                self._reading = True
                self._node.call_later(self._read)
        return self._counts[conversation_id]

    def _read(self) -> None:
        """Counts the words in the conversations that were asked for since the last batch."""
        ids, words = list(self._uncounted), self._filter
        self._uncounted.clear()
        self._reading = bool(ids)
        if not ids:
            return

        def on_result(counts: dict[int, int]) -> None:
            if words is self._filter:
                self._counts.update(counts)
                self._counted()
            self._read()

        def on_failure(error: WorkbenchError) -> None:
            self._read()

        background(
            self._node,
            lambda: {row_id: len(self._count(row_id, words)) for row_id in ids},
            on_result,
            on_failure,
            group="hits",
        )


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
