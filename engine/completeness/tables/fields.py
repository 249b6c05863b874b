"""Answers the terms of filters on scores, requests and remaining tasks."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping
from typing import Any

from engine.base.conversation import State
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets
from engine.completeness.tables.requests import REQUEST_COUNTS_SQL
from engine.completeness.tables.scores import state_sql
from engine.conversations.filter_fields import FIELDS, FieldQuery
from engine.conversations.filters import Term
from engine.conversations.tables.fields import (
    choice_counts,
    in_order,
    named_values,
    number,
    of_statement,
    parts,
    with_any_or_none,
)
from engine.project.idset import IdSet

_ROUNDING = 1e-9
"""More than the rounding error of adding and subtracting scores."""

_REMAINING = "SELECT conversation_id FROM remaining WHERE score_config_hash = ? AND text <> ''"


def in_state(rule: DecisionRule, config: str | None, state: State) -> tuple[str, tuple[Any, ...]]:
    """Returns (SQL, parameters) that select the conversations in a state; for `unscored` those that are scored. It
    reads a range of scores from the index and applies the exact rule to them."""
    low, high = {
        State.COMPLETE: (rule.threshold + rule.band, 1.0),
        State.INCOMPLETE: (0.0, rule.threshold - rule.band),
        State.BORDERLINE: (rule.threshold - rule.band, rule.threshold + rule.band),
        State.UNSCORED: (0.0, 1.0),
    }[state]
    text = (
        "SELECT conversation_id FROM score"
        " WHERE config_hash = ? AND p_end_normalised BETWEEN ? AND ?"
    )
    ends = (config, low - _ROUNDING, high + _ROUNDING)
    if state is State.UNSCORED:
        return text, ends
    exactly, parameters = state_sql(rule, "p_end_normalised")
    return f"{text} AND {exactly} = ?", (*ends, *parameters, str(state))


def _state(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations in one of the states of the term."""
    rule, config = score_sets.rule(conn), score_sets.hash_in_force(conn)
    result = among - among
    for value in term.values:
        scored = of_statement(conn, among, *in_state(rule, config, State(value)))
        result |= among - scored if value == State.UNSCORED else scored
    return result


def _p(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those whose score is in the range of the term."""
    inner = number("p_end_normalised", term)
    sql = f"SELECT conversation_id FROM score WHERE config_hash = ? AND {inner.text}"
    return of_statement(conn, among, sql, (score_sets.hash_in_force(conn), *inner.values))


def _by_p(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    """Returns the scored conversations by their score."""
    rows = "FROM score WHERE config_hash = ? AND p_end_normalised IS NOT NULL"
    return in_order(conn, among, rows, "p_end_normalised", (score_sets.hash_in_force(conn),))


def _requests(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those whose number of requests is in the range of the term; a conversation without a count has one."""
    inner = number("coalesce(requests, 1)", term)
    sql = (
        "SELECT id AS conversation_id FROM conversation"
        f" LEFT JOIN ({REQUEST_COUNTS_SQL}) ON conversation_id = id WHERE {inner.text}"
    )
    return of_statement(conn, among, sql, inner.values)


def _remaining(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those whose remaining tasks, written for the scores in force, have a part of the text."""
    config = score_sets.hash_in_force(conn)
    result, texts = among - among, named_values(term)
    if texts:
        inner = parts("text", texts)
        result = of_statement(
            conn, among, f"{_REMAINING} AND {inner.text}", (config, *inner.values)
        )
    return with_any_or_none(
        term, among, result, lambda: of_statement(conn, among, _REMAINING, (config,))
    )


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "state": FieldQuery(_state, count_values=choice_counts(_state, FIELDS["state"].choices)),
    "remaining": FieldQuery(_remaining, is_selective=True),
    "p": FieldQuery(_p, _by_p),
    "requests": FieldQuery(_requests),
}
"""Answers terms on scores, requests and remaining tasks, by the name of the field."""
