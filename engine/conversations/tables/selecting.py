"""Answers a ListQuery: which conversations match, and in which order.

Each term is answered from one index as a set of ids, and the sets are combined in memory. A single SQL query over
several terms would read the rows of conversations, which are large and scattered over the file.
"""

from __future__ import annotations

import sqlite3
from array import array

from engine.base.errors import WorkbenchError
from engine.conversations.filter_fields import FIELDS, TEXT, SortKey, Values
from engine.conversations.filters import Filter, ListQuery, Term
from engine.conversations.tables import text_search
from engine.project.idset import IdSet
from engine.project.sql import snapshot

MOST_VALUES = 200
"""Values of a field that are offered for completion."""

_MOST_WORDS = 50


def ids(conn: sqlite3.Connection, query: ListQuery) -> array[int]:
    """Returns the ids of the conversations that match, in order; those without a value of the sort key come last.

    Raises:
        WorkbenchError: The search text has too many words.
    """
    with snapshot(conn):
        found = matching(conn, query.filter)
        result = ordered(conn, query.sort, query.descending, found)
        if len(result) < len(found):
            result += (found - found.of(result)).ascending()
        return result


def matching(conn: sqlite3.Connection, filter: Filter) -> IdSet:
    """Returns the conversations for which every term holds.

    Raises:
        WorkbenchError: The search text has too many words.
    """
    if sum(len(term.values[0].split()) for term in filter.of(TEXT)) > _MOST_WORDS:
        raise WorkbenchError(f"The search has more than {_MOST_WORDS} words.", "Use fewer words.")
    found = IdSet.every(conn)
    for term in sorted(filter.terms, key=_cost):
        if not found:
            break
        holds = _holds(conn, term, found)
        found = found - holds if term.negated else holds
    return found


def _cost(term: Term) -> int:
    """Terms that match few conversations come first, because the others are then tested on those only; a text for
    which every message is read comes last."""
    if term.field == TEXT:
        return 2 if text_search.is_slow(term) else 0
    return 0 if FIELDS[term.field.partition(".")[0]].few else 1


def _holds(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    if term.field == TEXT:
        return text_search.conversations_with(conn, term, among)
    condition = FIELDS[term.field.partition(".")[0]].condition
    if condition is None:
        raise ValueError(f"a filter has a term on {term.field!r}, which stands for another field")
    return condition(conn, term, among)


def ordered(conn: sqlite3.Connection, sort: SortKey, descending: bool, among: IdSet) -> array[int]:
    """Returns the ids of those of `among` that have a value of `sort`, in its order; equal values by id.

    Descending order is the exact reverse, also of equal values, so that an index is read in one direction without
    sorting.
    """
    if sort == "id":
        ascending = among.ascending()
    else:
        order = FIELDS[sort].order
        if order is None:
            raise ValueError(f"conversations are not ordered by {sort!r}")
        ascending = order(conn, among)
    return ascending[::-1] if descending else ascending


def values(conn: sqlite3.Connection, field: str, rest: Filter, limit: int = MOST_VALUES) -> Values:
    """Returns values of a field (as `Term.field`) with the number of conversations that match the rest of the filter.

    The most frequent come first, months in their order. For `meta` and `truth` they are the keys. Fields whose values
    are not counted, such as numbers, have none.

    Raises:
        WorkbenchError: The rest of the filter cannot be answered.
    """
    with snapshot(conn):
        among = matching(conn, rest)
        count = FIELDS[field.partition(".")[0]].values
        return [] if count is None else count(conn, field, among, limit)
