"""The fields of filters that ask for scores, requests and remaining tasks."""

from __future__ import annotations

import sqlite3
from array import array
from typing import Any

from engine.base.conversation import State
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets
from engine.completeness.tables.requests import REQUEST_COUNTS_SQL
from engine.completeness.tables.scores import state_sql
from engine.conversations.filter_fields import Field
from engine.conversations.filters import Term
from engine.conversations.tables.fields import (
    counted_choices,
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
    rule, config = score_sets.rule(conn), score_sets.score_config(conn)
    result = among - among
    for value in term.values:
        scored = of_statement(conn, among, *in_state(rule, config, State(value)))
        result |= among - scored if value == State.UNSCORED else scored
    return result


def _p(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    inner = number("p_end_normalised", term)
    sql = f"SELECT conversation_id FROM score WHERE config_hash = ? AND {inner.text}"
    return of_statement(conn, among, sql, (score_sets.score_config(conn), *inner.values))


def _by_p(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    rows = "FROM score WHERE config_hash = ? AND p_end_normalised IS NOT NULL"
    return in_order(conn, among, rows, "p_end_normalised", (score_sets.score_config(conn),))


def _requests(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    inner = number("coalesce(requests, 1)", term)
    sql = (
        "SELECT id AS conversation_id FROM conversation"
        f" LEFT JOIN ({REQUEST_COUNTS_SQL}) ON conversation_id = id WHERE {inner.text}"
    )
    return of_statement(conn, among, sql, inner.values)


def _remaining(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those whose remaining tasks, written for the scores in force, have a part of the text."""
    config = score_sets.score_config(conn)
    result, texts = among - among, named_values(term)
    if texts:
        inner = parts("text", texts)
        result = of_statement(
            conn, among, f"{_REMAINING} AND {inner.text}", (config, *inner.values)
        )
    return with_any_or_none(
        term, among, result, lambda: of_statement(conn, among, _REMAINING, (config,))
    )


STATE = Field(
    "state",
    "choice",
    "what the score says",
    tuple(State),
    condition=_state,
    values=counted_choices,
)
REMAINING = Field(
    "remaining",
    "text",
    "what the model says is left to do (part of it)",
    example="remaining:refund or remaining:any",
    optional=True,
    condition=_remaining,
    is_selective=True,
)
P = Field(
    "p",
    "number",
    "normalized probability of the end, 0 to 1",
    example="p<.3",
    condition=_p,
    order=_by_p,
)
REQUESTS = Field(
    "requests",
    "number",
    "number of requests that were found or marked in it, else 1",
    example="requests>1",
    condition=_requests,
)
