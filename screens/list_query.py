"""The question behind the list: filter, search, order, and how they are told. Knows nothing of Textual."""

from __future__ import annotations

from dataclasses import replace

from engine.rows import Counts, ListQuery, SortKey, State
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
    "external_id": "name",
    "source": "source",
    "p_end": "p end",
    "turns": "turns",
    "chars": "length",
}


def next_state(query: ListQuery) -> ListQuery:
    """The query with the next state filter of the cycle."""
    at = STATE_CYCLE.index(query.state)
    return replace(query, state=STATE_CYCLE[(at + 1) % len(STATE_CYCLE)])


def toggle_sort(query: ListQuery, key: SortKey) -> ListQuery:
    """The query sorted by a column, the other way round when it is sorted by it already."""
    if query.sort == key:
        return replace(query, descending=not query.descending)
    return replace(query, sort=key, descending=key in ("turns", "chars"))


def is_filtered(query: ListQuery) -> bool:
    """Whether the query leaves anything out."""
    return replace(query, sort="id", descending=False) != ListQuery()


def filter_words(query: ListQuery) -> str:
    """What is left out, in words; empty when nothing is."""
    parts = []
    if query.state is not None:
        parts.append(query.state.value)
    if query.judged is not None:
        parts.append("judged by you" if query.judged else "not judged by you")
    if query.verdict is not None:
        parts.append(f"you said {query.verdict.value}")
    if query.source is not None:
        parts.append(f"from {one_line(query.source, 30)}")
    if query.text:
        parts.append(f"with “{one_line(query.text, 30)}”")
    return " · ".join(parts)


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
