"""Answers the terms of filters on what people said of conversations, and on what probes predict from it."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from engine.base.conversation import SUCCEEDED, State, Verdict, without_surrogates
from engine.base.errors import NotFound
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets
from engine.completeness.tables.fields import state_selection_sql
from engine.conversations.filter_fields import FIELDS, QUESTION_FIELD, CountedValues, FieldQuery
from engine.conversations.filters import Term
from engine.conversations.tables.fields import (
    add_any_or_none,
    choice_counts,
    count_values,
    ids_in_order,
    named_values,
    number_condition,
    select_among,
)
from engine.project.schema import NOT_UNDONE
from engine.project.sql import IdSet, placeholders
from engine.questions.question import hyphenate
from engine.questions.records import MachineKind
from engine.questions.tables import questions
from engine.questions.tables.answers import (
    CURRENT_ANSWERS,
    CURRENT_NOTES,
    CURRENT_TAGS,
    CURRENT_VERDICTS,
)
from engine.questions.tables.example_probes import PREDICTIONS, VALUES
from engine.questions.tables.machine_answers import IN_FORCE
from engine.questions.tables.opinions import (
    DISAGREEMENTS,
    NAMED_OPINIONS,
    disagreements_sql,
    opinions_sql,
)

DISAGREE = "disagree"
"""The value that matches conversations on which people disagree about a question."""

ANSWERS_OF_PEOPLE = f"SELECT conversation_id, value FROM ({CURRENT_ANSWERS}) WHERE question = ?"
"""(conversation_id, value) of the answers in force of people to a question."""

MACHINES = (
    "SELECT m.conversation_id AS conversation_id, m.value AS value FROM answerer AS a"
    f" JOIN machine_answer AS m USING (config_hash) WHERE m.value IS NOT NULL AND {IN_FORCE}"
    " AND a.question = ?"
)
"""(conversation_id, value) of the answers in force of patterns, models and files to a question."""

_ASKED = (
    f"SELECT conversation_id, question AS value FROM ({CURRENT_ANSWERS}) UNION"
    " SELECT m.conversation_id, a.question FROM answerer AS a JOIN machine_answer AS m"
    f" USING (config_hash) WHERE m.value IS NOT NULL AND {IN_FORCE}"
)
"""(conversation_id, value) of the questions that somebody or something has answered on a conversation."""

MACHINES_WHERE_NO_PERSON = (
    f"{MACHINES} AND a.rowid = (SELECT max(rowid) FROM answerer AS newer WHERE newer.question = a.question)"
    f" AND a.question <> '{SUCCEEDED}' AND NOT EXISTS"
    " (SELECT 1 FROM answer AS v WHERE v.question = a.question"
    f" AND v.conversation_id = m.conversation_id AND v.kind = 'give' AND {NOT_UNDONE}"
    " AND v.value IS NOT NULL)"
)
"""(conversation_id, value) of the answers of the machine that answered a question last, where no person has answered;
none of `SUCCEEDED`, whose answer is that of a person alone."""


def _make_query(statement: str, column: str) -> FieldQuery:
    """Returns the query of a field whose values a statement of (conversation_id, column) selects."""

    def matches(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
        """Returns the conversations whose value is one that the term names."""
        result = among - among
        texts = tuple(without_surrogates(value) for value in named_values(term))
        if texts:
            sql = f"SELECT conversation_id FROM ({statement}) WHERE {column} IN ({placeholders(texts)})"
            result = select_among(conn, among, sql, texts)
        return add_any_or_none(
            term,
            among,
            result,
            lambda: select_among(conn, among, f"SELECT conversation_id FROM ({statement})"),
        )

    def order(conn: sqlite3.Connection, among: IdSet) -> array[int]:
        """Returns the conversations by their least value."""
        rows = (
            f"FROM (SELECT conversation_id, min({column}) AS value FROM ({statement})"
            " GROUP BY conversation_id) WHERE TRUE"
        )
        return ids_in_order(conn, among, rows, "value")

    def values(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
        """Returns the values with their number of conversations."""
        rows = f"SELECT conversation_id, {column} AS value FROM ({statement})"
        return count_values(conn, rows, among, limit)

    return FieldQuery(matches, order, count_values=values, is_selective=True)


def _match_answers(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations on which the answer to the question of the term is one of its values.

    Raises:
        NotFound: There is no such question, or nobody of that name answered it.
    """
    name, _, by = term.key.partition("@")
    compares = term.span or term.op != ":"
    sql, parameters = _answers_by(conn, name, by, probabilities=compares)
    values = tuple(without_surrogates(value).casefold() for value in named_values(term))
    condition, compared = f"lower(value) IN ({placeholders(values)})", values
    if compares:
        inner = number_condition("CAST(value AS REAL)", term)
        condition, compared = inner.text, inner.values
    matching = f"SELECT conversation_id FROM ({sql}) WHERE {condition}"
    result = select_among(conn, among, matching, (*parameters, *compared))
    if DISAGREE in values:
        result |= select_among(conn, among, disagreements_sql(name))
    return add_any_or_none(term, among, result, lambda: select_among(conn, among, sql, parameters))


def _answers_by(
    conn: sqlite3.Connection, question: str, by: str, *, probabilities: bool = False
) -> tuple[str, tuple[Any, ...]]:
    """Returns the query of (conversation_id, value) of the answers to a question, with its parameters.

    Args:
        by: Who answers: `person`, `examples`, `pattern`, `model`, `file`, or the name of somebody or something; empty
            for people, and where they have not answered, for what answered last beside examples.
        probabilities: Whether examples give probabilities instead of answers.

    Raises:
        NotFound: There is no such question, or nobody of that name answered it.
    """
    known = questions.names(conn)
    if question not in known:
        raise NotFound(
            f"There is no field and no question “{question}”.",
            f"Questions are {', '.join(known)}. To search for the text itself, quote it.",
        )
    if by == "examples":
        if probabilities:
            return VALUES, (question,)
        answered = f"SELECT conversation_id FROM ({ANSWERS_OF_PEOPLE})"
        unanswered = f"SELECT * FROM ({PREDICTIONS}) WHERE conversation_id NOT IN ({answered})"
        return unanswered, (question, question)
    if by == "person":
        return ANSWERS_OF_PEOPLE, (question,)
    if not by:
        return f"{ANSWERS_OF_PEOPLE} UNION ALL {MACHINES_WHERE_NO_PERSON}", (question,) * 2
    if by in get_args(MachineKind):
        return f"{MACHINES} AND a.kind = ?", (question, by)
    names_by_slug = _names_by_slug(conn, question)
    if by not in names_by_slug:
        raise NotFound(
            f"Nobody of the name “{by}” has answered “{question}”.",
            f"Who has: {', '.join(names_by_slug) or 'nobody with a name'}.",
        )
    names = names_by_slug[by]
    in_names = placeholders(names)
    return (
        f"SELECT conversation_id, verdict AS value FROM ({opinions_sql(question)})"
        f" WHERE annotator IN ({in_names}) UNION ALL {MACHINES} AND a.name IN ({in_names})",
        (*names, question, *names),
    )


def _names_by_slug(conn: sqlite3.Connection, question: str) -> dict[str, list[str]]:
    """Returns the names of those who answered a question, people first, by what filters write for them."""
    result: dict[str, list[str]] = {}
    for name in questions.answerer_names(conn, question):
        if slug := hyphenate(name):
            result.setdefault(slug, []).append(name)
    return result


def _count_answers(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
    """Returns the names of the questions, or behind `NAME@` those who answered one, or the answers to one, with their
    numbers of conversations."""
    name, separator, by = field.partition(".")[2].partition("@")
    if not name:
        counts = dict(count_values(conn, _ASKED, among, limit))
        return [(name, counts.get(name, 0)) for name in questions.names(conn)[:limit]]
    if separator and not by:
        sizes = {}
        for answerer in ("person", "examples", *get_args(MachineKind), *_names_by_slug(conn, name)):
            sql, parameters = _answers_by(conn, name, answerer)
            answered = f"SELECT conversation_id FROM ({sql})"
            sizes[answerer] = len(select_among(conn, among, answered, parameters))
        return [(answerer, size) for answerer, size in sizes.items() if size][:limit]
    sql, parameters = _answers_by(conn, name, by)
    return count_values(conn, sql, among, limit, parameters=parameters)


def _match_disagreements(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations on which two disagree: the verdict or another set of scores with the scores in force,
    or people with each other; the term names which."""

    def called_by(rule: DecisionRule, config: str | None) -> tuple[IdSet, IdSet]:
        """Returns the conversations that a rule calls complete, and those it calls incomplete."""
        complete, incomplete = (
            select_among(conn, among, *state_selection_sql(rule, config, state))
            for state in (State.COMPLETE, State.INCOMPLETE)
        )
        return complete, incomplete

    config = score_sets.hash_in_force(conn)
    complete, incomplete = called_by(score_sets.rule(conn), config)
    result = among - among
    if "verdict" in term.values:
        rows = f"SELECT conversation_id FROM ({CURRENT_VERDICTS}) WHERE verdict = ?"
        result |= complete & select_among(conn, among, rows, (Verdict.NO,))
        result |= incomplete & select_among(conn, among, rows, (Verdict.YES,))
    if "people" in term.values:
        result |= select_among(conn, among, DISAGREEMENTS)
    if "scores" in term.values:
        for scoring in score_sets.configs(conn):
            if scoring.config_hash != config:
                yes, no = called_by(score_sets.rule(conn, scoring.config_hash), scoring.config_hash)
                result |= (complete & no) | (incomplete & yes)
    return result


def _match_success(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations whose probability of success is in the range of the term."""
    inner = number_condition("p", term)
    sql = f"SELECT conversation_id FROM ({VALUES}) WHERE {inner.text}"
    return select_among(conn, among, sql, (SUCCEEDED, *inner.values))


def _order_by_success(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    """Returns the conversations by their probability of success."""
    return ids_in_order(conn, among, f"FROM ({VALUES}) WHERE TRUE", "p", (SUCCEEDED,))


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    SUCCEEDED: _make_query(CURRENT_VERDICTS, "verdict"),
    "disagreement": FieldQuery(
        _match_disagreements,
        count_values=choice_counts(_match_disagreements, FIELDS["disagreement"].choices),
    ),
    "annotator": _make_query(NAMED_OPINIONS, "annotator"),
    "tag": _make_query(CURRENT_TAGS, "tag"),
    QUESTION_FIELD: FieldQuery(_match_answers, count_values=_count_answers),
    # Notes are free texts, which are neither ordered nor counted.
    "note": replace(_make_query(CURRENT_NOTES, "note"), order=None, count_values=None),
    "success": FieldQuery(_match_success, _order_by_success),
}
"""Answers terms on what people said, and on what probes predict, by the name of the field."""
