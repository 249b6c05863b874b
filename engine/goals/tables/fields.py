"""Answers the terms of filters on goals."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from engine.conversations.filter_fields import CountedValues, FieldQuery
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


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "goal": FieldQuery(_goal, count_values=_goal_counts),
    "also": FieldQuery(_goal, count_values=_goal_counts),
    "share": FieldQuery(_share),
}
"""Answers terms on goals, by the name of the field."""
