"""Finds the conversations that match the terms of filters on scores, requests and remaining tasks."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping
from typing import Any

from engine.base.conversation import State
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets
from engine.completeness.tables.scores import state_sql
from engine.conversations.filter_fields import FIELDS, FieldQuery
from engine.conversations.filters import Term
from engine.conversations.tables.fields import (
    add_any_or_none,
    choice_counts,
    contains_condition,
    ids_in_order,
    named_values,
    number_condition,
    select_among,
)
from engine.project.sql import IdSet

_ROUNDING = 1e-9
"""A little more than the rounding error of a sum of two scores."""

_REMAINING_SQL = "SELECT conversation_id FROM remaining WHERE score_config_hash = ? AND text <> ''"
"""Selects the conversations with remaining tasks under a configuration of scores."""


def state_selection_sql(
    rule: DecisionRule, config: str | None, state: State
) -> tuple[str, tuple[Any, ...]]:
    """Returns (SQL, parameters) that select the conversations in a state; for `unscored` those that are scored.

    The SQL reads a range of scores from the index and applies the exact rule to them.

    Args:
        config: Hash of the configuration of the scores; None if none is in force.
    """
    low, high = {
        State.COMPLETE: (rule.threshold + rule.band, 1.0),
        State.INCOMPLETE: (0.0, rule.threshold - rule.band),
        State.BORDERLINE: (rule.threshold - rule.band, rule.threshold + rule.band),
        State.UNSCORED: (0.0, 1.0),
    }[state]
    range_sql = (
        "SELECT conversation_id FROM score"
        " WHERE config_hash = ? AND p_end_normalised BETWEEN ? AND ?"
    )
    range_parameters = (config, low - _ROUNDING, high + _ROUNDING)
    if state is State.UNSCORED:
        return range_sql, range_parameters
    exact_state, parameters = state_sql(rule, "p_end_normalised")
    return f"{range_sql} AND {exact_state} = ?", (*range_parameters, *parameters, str(state))


def _by_state(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations in one of the states of the term."""
    rule, config = score_sets.rule(conn), score_sets.hash_in_force(conn)
    result = among - among  # empty
    for value in term.values:
        scored = select_among(conn, among, *state_selection_sql(rule, config, State(value)))
        result |= among - scored if value == State.UNSCORED else scored
    return result


def _by_score_range(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations whose score is in the range of the term."""
    condition = number_condition("p_end_normalised", term)
    sql = f"SELECT conversation_id FROM score WHERE config_hash = ? AND {condition.text}"
    return select_among(conn, among, sql, (score_sets.hash_in_force(conn), *condition.values))


def _in_score_order(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    """Returns the scored conversations by their score."""
    scored = "FROM score WHERE config_hash = ? AND p_end_normalised IS NOT NULL"
    return ids_in_order(conn, among, scored, "p_end_normalised", (score_sets.hash_in_force(conn),))


def _by_remaining_tasks(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations whose remaining tasks, written for the scores in force, contain a text of the term."""
    config = score_sets.hash_in_force(conn)
    result, texts = among - among, named_values(term)  # empty at first
    if texts:
        condition = contains_condition("text", texts)
        result = select_among(
            conn, among, f"{_REMAINING_SQL} AND {condition.text}", (config, *condition.values)
        )
    return add_any_or_none(
        term, among, result, lambda: select_among(conn, among, _REMAINING_SQL, (config,))
    )


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "state": FieldQuery(_by_state, count_values=choice_counts(_by_state, FIELDS["state"].choices)),
    "remaining": FieldQuery(_by_remaining_tasks, is_selective=True),
    "p": FieldQuery(_by_score_range, _in_score_order),
}
"""The functions that find the conversations of a term, by the name of its field."""
