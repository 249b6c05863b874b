"""Answers the terms of filters on what an import stores of a conversation: its length, its source, its date, its facets
(tools, models, metadata), and what a watch saw of it. Conditions and counters that other subjects use for their fields
are here too."""

from __future__ import annotations

import operator
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from random import Random
from typing import Any

from engine.base.conversation import without_surrogates
from engine.base.errors import WorkbenchError
from engine.conversations.filter_fields import (
    ANY_VALUE,
    NO_VALUE,
    CountedValues,
    CountValues,
    FieldQuery,
    MatchTerm,
)
from engine.conversations.filters import Op, Term, first_and_last_day, is_number
from engine.conversations.tables import facets
from engine.conversations.tables.watched import WATCHED
from engine.project.sql import IdSet, placeholders, read_ids

# What other subjects use for their fields too

COMPARISONS: Mapping[Op, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
"""The comparison that each sign of a term stands for."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition in SQL, and the values of its parameters."""

    text: str
    values: tuple[Any, ...] = ()


def number_condition(column: str, term: Term) -> Sql:
    """Returns the condition that a column of numbers satisfies a term."""
    numbers = tuple(float(value) for value in term.values)
    if term.span:
        return Sql(f"{column} BETWEEN ? AND ?", (min(numbers), max(numbers)))
    if term.op == ":":
        return Sql(f"{column} IN ({placeholders(numbers)})", numbers)
    return Sql(f"{column} {term.op} ?", numbers)


def date_condition(column: str, term: Term) -> Sql:
    """Returns the condition on a column of dates, texts that sort; a week, month or year stands for all of its days."""
    after_any_date = "~"  # sorts after everything that a date goes on with
    periods = [first_and_last_day(value) for value in term.values]
    if term.span:
        low, high = min(first for first, _ in periods), max(last for _, last in periods)
        return Sql(f"{column} BETWEEN ? AND ?", (low, high + after_any_date))
    if term.op == ":":
        any_of = " OR ".join(f"{column} BETWEEN ? AND ?" for _ in term.values)
        return Sql(
            f"({any_of})",
            tuple(end for first, last in periods for end in (first, last + after_any_date)),
        )
    ops_with_whole_period: tuple[Op, Op] = (">", "<=")
    first, last = periods[0]
    end = last + after_any_date if term.op in ops_with_whole_period else first
    return Sql(f"{column} {term.op} ?", (end,))


def contains_condition(column: str, texts: Sequence[str]) -> Sql:
    """Returns the condition that a column of texts holds one of some parts, whatever their case."""
    any_of = " OR ".join(f"instr(lower({column}), lower(?)) > 0" for _ in texts)
    return Sql(f"({any_of})", tuple(without_surrogates(text) for text in texts))


def select_among(
    conn: sqlite3.Connection, among: IdSet, sql: str, parameters: Sequence[Any] = ()
) -> IdSet:
    """Returns those of `among` whose `conversation_id` a statement selects."""
    chosen, flags = among.condition("conversation_id")
    ids = read_ids(
        conn, f"SELECT conversation_id FROM ({sql}) WHERE {chosen}", (*parameters, *flags)
    )
    return among.of(ids)


def add_any_or_none(term: Term, among: IdSet, named: IdSet, with_any: Callable[[], IdSet]) -> IdSet:
    """Returns the conversations that have a named value of a term, and those that its values `any` and `none` ask for.

    Args:
        named: Those of `among` that have a named value.
        with_any: Reads those of `among` that have any value.
    """
    if ANY_VALUE not in term.values and NO_VALUE not in term.values:
        return named
    with_value = with_any()
    if ANY_VALUE in term.values:
        named |= with_value
    if NO_VALUE in term.values:
        named |= among - with_value
    return named


def named_values(term: Term) -> tuple[str, ...]:
    """Returns the values of a term other than `any` and `none`."""
    return tuple(value for value in term.values if value not in (ANY_VALUE, NO_VALUE))


def ids_in_order(
    conn: sqlite3.Connection, among: IdSet, rows: str, by: str, parameters: Sequence[Any] = ()
) -> array[int]:
    """Returns the ids of `among` in ascending order of the expression `by`, equal ones by id.

    Args:
        rows: `FROM ... WHERE ...` of rows that have a `conversation_id` and a value.
    """
    chosen, flags = among.condition("conversation_id")
    return read_ids(
        conn,
        f"SELECT conversation_id {rows} AND {chosen} ORDER BY {by}, conversation_id",
        (*parameters, *flags),
    )


def count_values(
    conn: sqlite3.Connection,
    rows: str,
    among: IdSet,
    limit: int,
    order: str = "2 DESC, 1",
    parameters: Sequence[Any] = (),
) -> CountedValues:
    """Returns the values of a statement of (conversation_id, value) with their numbers of conversations of a set.

    Args:
        order: SQL by which they are ordered: the most frequent first, if it is not given.
    """
    chosen, flags = among.condition("conversation_id")
    return conn.execute(
        f"SELECT value, count(*) FROM ({rows}) WHERE value IS NOT NULL AND {chosen} GROUP BY value"
        f" ORDER BY {order} LIMIT ?",
        (*parameters, *flags, limit),
    ).fetchall()


def choice_counts(matches: MatchTerm, choices: Sequence[str]) -> CountValues:
    """Returns the counter of a field with few values: it counts each choice, also one that no conversation has.

    Args:
        matches: Finds the conversations that a term on the field matches.
    """

    def count(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
        """Returns all choices, whatever the limit, each with its number of conversations of a set."""
        return [
            (choice, len(matches(conn, Term(field, ":", (choice,)), among))) for choice in choices
        ]

    return count


def random_numbers(count: int) -> list[float]:
    """Returns a random number from 0 to 1 for each id below `count`, always the same for an id."""
    draw = Random(0).random
    return [draw() for _ in range(count)]


# Columns of conversations


def _column_query(
    column: str, condition: Callable[[str, Term], Sql], count_values: CountValues | None = None
) -> FieldQuery:
    """Returns the query of a field that is a column of the conversations.

    Args:
        condition: Returns the condition that a column satisfies a term.
        count_values: Counts the values of the field; None where they are not counted.
    """

    def matches(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
        """Returns those of a set whose column satisfies a term."""
        inner = condition(column, term)
        rows = f"SELECT id AS conversation_id FROM conversation WHERE {inner.text}"
        return select_among(conn, among, rows, inner.values)

    def order(conn: sqlite3.Connection, among: IdSet) -> array[int]:
        """Returns the ids of those of a set with a value, ascending by it."""
        chosen, flags = among.condition("id")
        return read_ids(
            conn,
            f"SELECT id FROM conversation WHERE {column} IS NOT NULL AND {chosen} ORDER BY {column}, id",
            flags,
        )

    return FieldQuery(matches, order, count_values=count_values)


_MONTHS = "SELECT id AS conversation_id, substr(created_at, 1, 7) AS value FROM conversation"
"""(conversation_id, value) of the months in which conversations took place, as a query to select from."""


def _count_months(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
    """Returns months with their numbers of conversations, the latest first."""
    return count_values(conn, _MONTHS, among, limit, order="value DESC")


# Sources


SOURCES = (
    "SELECT c.id AS conversation_id, source.label AS value FROM conversation AS c"
    " JOIN source ON source.id = c.source_id"
)
"""(conversation_id, value) of the labels of sources, as a query to select from."""


def _match_source(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set from a source whose label contains a value of the term."""
    inner = contains_condition("label", term.values)
    rows = (
        "SELECT id AS conversation_id FROM conversation"
        f" WHERE source_id IN (SELECT id FROM source WHERE {inner.text})"
    )
    return select_among(conn, among, rows, inner.values)


def _order_by_source(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    """Returns the ids of a set in the order of the labels of their sources, equal ones by id.

    It reads source by source, because the index is in the order of source ids; sources may share a label.
    """
    by_label: dict[str, list[int]] = {}
    for source, label in conn.execute("SELECT id, label FROM source"):
        by_label.setdefault(label, []).append(source)
    chosen, flags = among.condition("id")
    result = array("q")
    for label in sorted(by_label):
        ids: list[int] = []
        for source in by_label[label]:
            sql = f"SELECT id FROM conversation WHERE source_id = ? AND {chosen}"
            ids += read_ids(conn, sql, (source, *flags))
        result.extend(sorted(ids))
    return result


def _count_sources(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
    """Returns the labels of sources with their numbers of conversations, the most frequent first."""
    return count_values(conn, SOURCES, among, limit)


# Watches and draws


def _match_watched(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set that are in one of the states of a watch that the term names."""
    return select_among(conn, among, " UNION ".join(WATCHED[value] for value in term.values))


def _match_draw(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set whose random number satisfies the term. It comes from a fixed seed, so that it depends on
    the id alone."""
    limits = sorted(map(float, term.values))
    lowest, highest = limits[0], limits[-1]

    def holds(draw: float) -> bool:
        """Returns whether a number from 0 to 1 satisfies the term."""
        if term.span:
            return lowest <= draw <= highest
        return COMPARISONS[term.op](draw, lowest)

    numbers = random_numbers(len(among.flags))
    return IdSet(
        bytes(holds(number) and flag for number, flag in zip(numbers, among.flags, strict=True))
    )


# Facets


MOST_FOR_KEYS = 50_000
"""Most conversations of a project whose keys are counted; a million with five keys each would take nine seconds."""

_FACETS = (
    "SELECT conversation_id FROM conversation_facet"
    " WHERE facet_id IN (SELECT id FROM facet WHERE key = ? AND ({}))"
)
"""Query of the conversations with a facet under a key that satisfies a condition."""


def _match_facet(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set with a facet that the term asks for.

    Raises:
        WorkbenchError: No conversation has the field of metadata or truth.
    """
    # a term has a key where its field is one of metadata or truth, as `meta.team`
    if term.key and not facets.is_known(conn, term.field):
        beginning = term.field.partition(".")[0] + "."
        known_keys = facets.keys(conn, beginning)
        near = get_close_matches(term.field, known_keys, n=3, cutoff=0.5) or known_keys[:5]
        raise WorkbenchError(
            f"No conversation has the field “{term.field}”.",
            f"Do you mean {' or '.join(near)}?"
            if near
            else f"No conversation has any {'metadata' if beginning == 'meta.' else 'truth'}.",
        )

    def with_value(condition: str, values: Sequence[object] = ()) -> IdSet:
        """Returns those of the set that have a facet of the field under a condition."""
        return among.of(read_ids(conn, _FACETS.format(condition), (term.field, *values)))

    inner = _facet_condition(named_values(term), term)
    named = with_value(inner.text, inner.values) if inner.text else among - among  # the empty set
    return among & add_any_or_none(term, among, named, partial(with_value, "TRUE"))


def _facet_condition(values: Sequence[str], term: Term) -> Sql:
    """Returns the condition that the value of a facet is one of these values of a term, is in the range between them,
    or compares with them as the term says; its text is empty without any value."""
    if not values:
        return Sql("")
    if (term.span or term.op != ":") and all(map(is_number, values)):
        return number_condition("number", replace(term, values=tuple(values)))
    texts = tuple(without_surrogates(value)[: facets.MAX_VALUE_CHARS] for value in values)
    if term.span:
        return date_condition("value", term)
    if term.op != ":":
        return Sql(f"value {term.op} ?", texts)
    conditions, parameters = [], []
    for text in texts:
        if text.endswith("*"):
            conditions.append("substr(value, 1, length(?)) = ? COLLATE NOCASE")
            parameters += [text[:-1], text[:-1]]
        else:
            conditions.append("value = ?")
            parameters.append(text)
        if is_number(text):
            conditions.append("number = CAST(? AS REAL)")
            parameters.append(text)
    return Sql(" OR ".join(conditions), tuple(parameters))


def _count_keys_or_values(
    conn: sqlite3.Connection, field: str, among: IdSet, limit: int
) -> CountedValues:
    """Returns the keys of the metadata or the truth, or the values of one key."""
    if "." in field:
        return facets.values(conn, field, among, limit)
    names = facets.keys(conn, f"{field}.")
    count_them = len(among.flags) <= MOST_FOR_KEYS
    return [
        (name.partition(".")[2], facets.count(conn, name, among) if count_them else None)
        for name in names[:limit]
    ]


# All fields


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "turns": _column_query("turns", number_condition),
    "messages": _column_query("messages", number_condition),
    "length": _column_query("chars", number_condition),
    **dict.fromkeys(facets.FIELDS, FieldQuery(_match_facet, count_values=facets.values)),
    "watched": FieldQuery(_match_watched),
    "source": FieldQuery(_match_source, _order_by_source, count_values=_count_sources),
    "name": _column_query(
        "external_id", lambda column, term: contains_condition(column, term.values)
    ),
    "date": _column_query("created_at", date_condition, _count_months),
    "meta": FieldQuery(_match_facet, count_values=_count_keys_or_values),
    "truth": FieldQuery(_match_facet, count_values=_count_keys_or_values),
    "draw": FieldQuery(_match_draw),
}
"""Answers terms on what a conversation is, by the name of the field."""
