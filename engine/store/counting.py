"""How many conversations there are of each kind, and how their scores spread; of a project or of what matches."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any

from engine.filters import ListQuery
from engine.rows import Counts, Histogram, State
from engine.store import imports, settings
from engine.store.idset import IdSet, read_ids
from engine.store.query import in_state, matching
from engine.store.sql import snapshot
from engine.store.verdicts import STANDING_VERDICTS


def counts(conn: sqlite3.Connection, query: ListQuery | None = None) -> Counts:
    """Counts of the project, or of what matches a query.

    `quarantined` counts records of all sources: they are not conversations, so no query applies to them.
    """
    with snapshot(conn):
        within = _within(conn, query)
        conversations, messages, turns, sources = _sizes(conn, within)
        rule, config = settings.rule(conn), settings.score_config(conn)
        states = {
            state: _count(conn, within, *in_state(rule, config, state))
            for state in (State.COMPLETE, State.INCOMPLETE, State.BORDERLINE)
        }
        return Counts(
            conversations=conversations,
            messages=messages,
            turns=turns,
            sources=sources,
            complete=states[State.COMPLETE],
            incomplete=states[State.INCOMPLETE],
            borderline=states[State.BORDERLINE],
            unscored=conversations - sum(states.values()),
            duplicates=_count(conn, within, "SELECT conversation_id FROM alias"),
            leaks=_count(conn, within, "SELECT conversation_id FROM leak"),
            verdicts=_count(conn, within, f"SELECT conversation_id FROM ({STANDING_VERDICTS})"),
            quarantined=imports.count_quarantined(conn),
        )


def histogram(conn: sqlite3.Connection, query: ListQuery | None, bins: int) -> Histogram:
    """How the normalised scores spread over `bins` equal parts, over the project or over what matches.

    Raises:
        ValueError: `bins` is not positive.
    """
    if bins < 1:
        raise ValueError(f"a histogram of {bins} parts")
    with snapshot(conn):
        within = _within(conn, query)
        place = "min(CAST(p_end_normalised * ? AS INTEGER), ?)"
        scored = "FROM score WHERE config_hash = ? AND p_end_normalised IS NOT NULL"
        values = (bins, bins - 1, settings.score_config(conn))
        if within is None:
            total = IdSet.every(conn)
            places = dict(conn.execute(f"SELECT {place}, count(*) {scored} GROUP BY 1", values))
        else:
            total = within
            places = Counter(
                row[1]
                for row in conn.execute(f"SELECT conversation_id, {place} {scored}", values)
                if row[0] in within
            )
    return Histogram(
        tuple(places.get(place, 0) for place in range(bins)), len(total) - sum(places.values())
    )


def _within(conn: sqlite3.Connection, query: ListQuery | None) -> IdSet | None:
    """What matches a query, None where that is everything."""
    if query is None or not query.filter:
        return None
    return matching(conn, query.filter, IdSet.every(conn))


def _sizes(conn: sqlite3.Connection, within: IdSet | None) -> Sequence[int]:
    """Conversations, messages, turns, sources; all off one index."""
    if within is None:
        row: tuple[int, ...] = conn.execute(
            "SELECT count(*), coalesce(sum(messages), 0), coalesce(sum(turns), 0),"
            " count(DISTINCT source_id) FROM conversation"
        ).fetchone()
        return row
    messages = turns = 0
    sources = set()
    for key, message_count, turn_count, source in conn.execute(
        "SELECT id, messages, turns, source_id FROM conversation"
    ):
        if key in within:
            messages += message_count
            turns += turn_count
            sources.add(source)
    return len(within), messages, turns, len(sources)


def _count(
    conn: sqlite3.Connection, within: IdSet | None, ids: str, values: Sequence[Any] = ()
) -> int:
    """How many of the ids that a statement selects lie within a set."""
    if within is None:
        return int(conn.execute(f"SELECT count(*) FROM ({ids})", values).fetchone()[0])
    return len(within.keep(read_ids(conn, ids, values)))
