"""The query behind the list and its result: filter, order and counts. Knows nothing of Textual."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.base.outcomes import (
    State,
)
from engine.completeness.records.scores import (
    DecisionRule,
)
from engine.conversations.filter_fields import TEXT, SortKey
from engine.conversations.filters import Filter, ListQuery
from engine.opener.conversations import (
    ConversationRow,
    Counts,
)
from engine.opener.open_project import OpenProject

STATE_CYCLE: tuple[State | None, ...] = (
    None,
    State.INCOMPLETE,
    State.BORDERLINE,
    State.UNSCORED,
    State.COMPLETE,
)
SORT_TITLES: dict[SortKey, str] = {
    "id": "order of import",
    "name": "name",
    "source": "source",
    "date": "date",
    "p": "score",
    "success": "probability of success",
    "turns": "turns",
    "messages": "messages",
    "length": "length",
    "verdict": "your verdict",
    "tag": "your tag",
}
_OUTCOME = ("state", "verdict", "p", "success", "remaining", "disagreement")
"""Filter fields about the outcome. A completion rate over conversations chosen by them would mean nothing."""


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
    """The query with the next state filter of the cycle."""
    now = query.filter.of("state")
    at = STATE_CYCLE.index(State(now[0].values[0]) if now else None)
    after = STATE_CYCLE[(at + 1) % len(STATE_CYCLE)]
    return replace(query, filter=query.filter.with_choice("state", after))


def toggle_sort(query: ListQuery, key: SortKey) -> ListQuery:
    """The query sorted by a column, the other way round when it is sorted by it already."""
    if query.sort == key:
        return replace(query, descending=not query.descending)
    return replace(query, sort=key, descending=key in ("turns", "messages", "length", "date"))


def sort_of_column(column: str) -> SortKey | None:
    """The sort key of a column; None for a column that cannot be sorted by."""
    if column == "state":
        return "p"
    return next((key for key in SORT_TITLES if key == column), None)


def searched(wanted: Filter) -> Filter:
    """The words and phrases that a filter searches for, without terms on fields and negated terms."""
    return Filter(tuple(term for term in wanted.of(TEXT) if not term.negated))
