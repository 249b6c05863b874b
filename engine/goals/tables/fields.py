"""The fields of filters that ask for goals."""

from __future__ import annotations

import sqlite3

from engine.conversations.filter_fields import CountedValues, Field
from engine.conversations.filters import Term
from engine.conversations.tables.fields import number
from engine.goals.tables import groups
from engine.project.idset import IdSet


def _goal(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    return groups.conversations(conn, term.values, among, second=term.field == "also")


def _goal_counts(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
    return groups.counts(conn, among, second=field == "also")[:limit]


def _share(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    inner = number("share", term)
    return among & among.of(groups.with_share(conn, inner.text, inner.values))


GOAL = Field(
    "goal",
    "text",
    "label of its goal, or a part of it; any, none or novel",
    example='goal:"book a restaurant" or goal:novel',
    optional=True,
    condition=_goal,
    values=_goal_counts,
)
ALSO = Field(
    "also",
    "text",
    "a second goal that it may have",
    example='also:"book a hotel" or also:any',
    optional=True,
    condition=_goal,
    values=_goal_counts,
)
SHARE = Field(
    "share",
    "number",
    "share of its second goal, 0 to 1",
    example="share>.3 or share:.2...4",
    condition=_share,
)
