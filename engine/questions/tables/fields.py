"""Answers the terms of filters on what people said of conversations, and on what probes predict from it."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping

from engine.base.conversation import State, Verdict
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets
from engine.completeness.tables.fields import in_state
from engine.conversations.filter_fields import (
    FIELDS,
    CountedValues,
    CountValues,
    FieldQuery,
    MatchTerm,
    OrderConversations,
)
from engine.conversations.filters import Term
from engine.conversations.tables.fields import (
    choice_counts,
    counted,
    in_order,
    named_values,
    number,
    of_statement,
    storable,
    with_any_or_none,
)
from engine.project.idset import IdSet
from engine.project.sql import placeholders
from engine.questions.records import NOT, SUCCESS
from engine.questions.tables.example_probes import PROPOSED, VALUES_IN_FORCE
from engine.questions.tables.second_verdicts import DISAGREEMENTS, NAMED_OPINIONS
from engine.questions.tables.verdicts import CURRENT_NOTES, CURRENT_TAGS, CURRENT_VERDICTS

PROPOSED_SIGN = "?"
"""End of the name of a tag that stands for what its probe predicts."""


def _by_statement(statement: str, column: str) -> tuple[MatchTerm, OrderConversations, CountValues]:
    """Returns condition, order and counts of a field whose values a statement of (conversation_id, column) selects."""

    def condition(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
        """Returns the conversations whose value is one that the term names."""
        result = among - among
        texts = tuple(storable(value) for value in named_values(term))
        if texts:
            sql = f"SELECT conversation_id FROM ({statement}) WHERE {column} IN ({placeholders(texts)})"
            result = of_statement(conn, among, sql, texts)
        return with_any_or_none(
            term,
            among,
            result,
            lambda: of_statement(conn, among, f"SELECT conversation_id FROM ({statement})"),
        )

    def order(conn: sqlite3.Connection, among: IdSet) -> array[int]:
        """Returns the conversations by their least value."""
        rows = (
            f"FROM (SELECT conversation_id, min({column}) AS value FROM ({statement})"
            " GROUP BY conversation_id) WHERE TRUE"
        )
        return in_order(conn, among, rows, "value")

    def values(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
        """Returns the values with their number of conversations."""
        rows = f"SELECT conversation_id, {column} AS value FROM ({statement})"
        return counted(conn, rows, among, limit)

    return condition, order, values


_verdict, _by_verdict, _verdict_counts = _by_statement(CURRENT_VERDICTS, "verdict")
_tag, _by_tag, _tag_counts = _by_statement(CURRENT_TAGS, "tag")
_note = _by_statement(CURRENT_NOTES, "note")[0]
_annotator, _by_annotator, _annotator_counts = _by_statement(NAMED_OPINIONS, "annotator")


def _tag_or_proposal(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those with a tag, and for a name with a question mark those for which its probe proposes it."""
    result = _tag(conn, term, among)
    for name in named_values(term):
        if name.endswith(PROPOSED_SIGN):
            result |= _proposed(conn, among, storable(name).removesuffix(PROPOSED_SIGN))
    return result


def _proposed(conn: sqlite3.Connection, among: IdSet, tag: str) -> IdSet:
    """Returns those for which the probe of a tag proposes it, and which a person has not marked since."""
    marked = f"SELECT conversation_id FROM ({CURRENT_TAGS}) WHERE tag IN (?, ?)"
    proposed = of_statement(conn, among, PROPOSED, (tag,))
    return proposed - of_statement(conn, among, marked, (tag, NOT + tag))


def _disagreement(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those that one calls complete and the other incomplete, or on which people disagree."""

    def scored(rule: DecisionRule, config: str | None) -> tuple[IdSet, IdSet]:
        """Returns the conversations that a rule calls complete, and those it calls incomplete."""
        complete, incomplete = (
            of_statement(conn, among, *in_state(rule, config, state))
            for state in (State.COMPLETE, State.INCOMPLETE)
        )
        return complete, incomplete

    config = score_sets.hash_in_force(conn)
    complete, incomplete = scored(score_sets.rule(conn), config)
    result = among - among
    if "verdict" in term.values:
        rows = f"SELECT conversation_id FROM ({CURRENT_VERDICTS}) WHERE verdict = ?"
        result |= complete & of_statement(conn, among, rows, (Verdict.INCOMPLETE,))
        result |= incomplete & of_statement(conn, among, rows, (Verdict.COMPLETE,))
    if "people" in term.values:
        result |= of_statement(conn, among, DISAGREEMENTS)
    if "scores" in term.values:
        for other in score_sets.configs(conn):
            if other.config_hash != config:
                yes, no = scored(score_sets.rule(conn, other.config_hash), other.config_hash)
                result |= (complete & no) | (incomplete & yes)
    return result


def _success(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those whose probability of success is in the range of the term."""
    inner = number("p", term)
    sql = f"SELECT conversation_id FROM ({VALUES_IN_FORCE}) WHERE {inner.text}"
    return of_statement(conn, among, sql, (SUCCESS, *inner.values))


def _by_success(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    """Returns the conversations by their probability of success."""
    return in_order(conn, among, f"FROM ({VALUES_IN_FORCE}) WHERE TRUE", "p", (SUCCESS,))


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "verdict": FieldQuery(_verdict, _by_verdict, count_values=_verdict_counts, is_selective=True),
    "disagreement": FieldQuery(
        _disagreement, count_values=choice_counts(_disagreement, FIELDS["disagreement"].choices)
    ),
    "annotator": FieldQuery(
        _annotator, _by_annotator, count_values=_annotator_counts, is_selective=True
    ),
    "tag": FieldQuery(_tag_or_proposal, _by_tag, count_values=_tag_counts, is_selective=True),
    "note": FieldQuery(_note, is_selective=True),
    "success": FieldQuery(_success, _by_success),
}
"""Answers terms on what people said, and on what probes predict, by the name of the field."""
