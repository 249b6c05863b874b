"""Counts of conversations by state and histograms of their scores, of a project or of what a query matches."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from engine.base.outcomes import (
    State,
)
from engine.completeness.records.scores import (
    Histogram,
)
from engine.completeness.tables.fields import in_state
from engine.conversations.filters import ListQuery
from engine.conversations.tables import quarantine
from engine.conversations.tables.selecting import matching
from engine.opener.records import (
    Counts,
)
from engine.project import settings
from engine.project.idset import IdSet
from engine.project.sql import snapshot
from engine.questions.tables.verdicts import CURRENT_VERDICTS


def counts(conn: sqlite3.Connection, query: ListQuery | None = None) -> Counts:
    """Counts of the project, or of what matches a query.

    `quarantined` counts records of all sources: they are not conversations, so no query applies to them.
    """
    with snapshot(conn):
        within = matching(conn, (query or ListQuery()).filter)
        chosen, flags = within.condition("id")
        messages, turns, sources = conn.execute(
            "SELECT coalesce(sum(messages), 0), coalesce(sum(turns), 0), count(DISTINCT source_id)"
            f" FROM conversation WHERE {chosen}",
            flags,
        ).fetchone()
        rule, config = settings.rule(conn), settings.score_config(conn)
        states = {
            state: _count(conn, within, *in_state(rule, config, state))
            for state in (State.COMPLETE, State.INCOMPLETE, State.BORDERLINE)
        }
        near, values = in_state(rule, config, State.BORDERLINE)
        near_above = f"{near} AND p_end_normalised >= ?", (*values, rule.threshold)
        return Counts(
            conversations=len(within),
            messages=messages,
            turns=turns,
            sources=sources,
            complete=states[State.COMPLETE],
            incomplete=states[State.INCOMPLETE],
            borderline=states[State.BORDERLINE],
            unscored=len(within) - sum(states.values()),
            above=states[State.COMPLETE] + _count(conn, within, *near_above),
            duplicates=_count(conn, within, "SELECT conversation_id FROM alias"),
            leaks=_count(conn, within, "SELECT conversation_id FROM leak"),
            verdicts=_count(conn, within, f"SELECT conversation_id FROM ({CURRENT_VERDICTS})"),
            quarantined=quarantine.count(conn),
        )


def histogram(conn: sqlite3.Connection, query: ListQuery | None, bins: int) -> Histogram:
    """Histogram of the normalised scores in `bins` equal parts, over the project or over what a query matches.

    Raises:
        ValueError: `bins` is not positive.
    """
    if bins < 1:
        raise ValueError(f"a histogram of {bins} parts")
    with snapshot(conn):
        within = matching(conn, (query or ListQuery()).filter)
        chosen, flags = within.condition("conversation_id")
        places = dict(
            conn.execute(
                "SELECT min(CAST(p_end_normalised * ? AS INTEGER), ?), count(*) FROM score"
                " WHERE config_hash = ? AND p_end_normalised IS NOT NULL"
                f" AND {chosen} GROUP BY 1",
                (bins, bins - 1, settings.score_config(conn), *flags),
            ).fetchall()
        )
    return Histogram(
        tuple(places.get(place, 0) for place in range(bins)), len(within) - sum(places.values())
    )


def _count(conn: sqlite3.Connection, within: IdSet, ids: str, values: Sequence[Any] = ()) -> int:
    """Number of rows of a statement whose conversation is in a set; a conversation selected twice counts twice."""
    chosen, flags = within.condition("conversation_id")
    sql = f"SELECT count(*) FROM ({ids}) WHERE {chosen}"
    return int(conn.execute(sql, (*values, *flags)).fetchone()[0])
