"""The question behind the list: filter, search, order, and how they are told. Knows nothing of Textual."""

from __future__ import annotations

from dataclasses import replace

from engine.filters import ListQuery, SortKey
from engine.rows import Counts, State
from engine.text import one_line
from screens import figures

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
    "p": "p end",
    "turns": "turns",
    "messages": "messages",
    "length": "length",
    "verdict": "your verdict",
    "tag": "your tag",
}


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
    return replace(query, sort=key, descending=key in ("turns", "messages", "length"))


def is_filtered(query: ListQuery) -> bool:
    """Whether the query leaves anything out."""
    return bool(query.filter)


def filter_words(query: ListQuery) -> str:
    """What is left out, as a filter that could be typed; empty when nothing is."""
    return one_line(str(query.filter), 80)


def counts_words(shown: int, everything: int, counts: Counts) -> str:
    """`812 of 2,000 · 71% ± 3 complete (96% scored)`; the rate is over scored conversations only.

    Args:
        shown: Conversations in the list.
        everything: Conversations in the project.
        counts: Of what matches apart from state and verdict filters, which would make a rate meaningless.
    """
    words = f"{shown:,} of {everything:,}"
    if counts.scored:
        scored = 100 * counts.scored / counts.conversations
        words += (
            f" · {figures.rate(counts.complete, counts.scored)} complete ({scored:.0f}% scored)"
        )
    return words
