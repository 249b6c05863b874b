"""Parts from which subjects declare how their fields are filtered, ordered and counted."""

from __future__ import annotations

import operator
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.conversations.filter_fields import ANY, FIELDS, NONE, Values
from engine.conversations.filters import Op, Term
from engine.project.idset import IdSet, read_ids
from engine.project.sql import placeholders

COMPARISONS: Mapping[Op, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition and its parameters."""

    text: str
    values: tuple[Any, ...] = ()


def number(column: str, term: Term) -> Sql:
    """Returns the condition that a column of numbers satisfies a term."""
    numbers = tuple(float(value) for value in term.values)
    if term.span:
        return Sql(f"{column} BETWEEN ? AND ?", (min(numbers), max(numbers)))
    if term.op == ":":
        return Sql(f"{column} IN ({placeholders(numbers)})", numbers)
    return Sql(f"{column} {term.op} ?", numbers)


def date(column: str, term: Term) -> Sql:
    """Returns the condition on a column of dates, texts that sort; a month or a year stands for all of its days."""
    beyond = "~"  # sorts after everything that a date goes on with
    if term.span:
        low, high = sorted(term.values)
        return Sql(f"{column} BETWEEN ? AND ?", (low, high + beyond))
    if term.op == ":":
        any_of = " OR ".join(f"{column} BETWEEN ? AND ?" for _ in term.values)
        return Sql(
            f"({any_of})", tuple(end for value in term.values for end in (value, value + beyond))
        )
    after_all: tuple[Op, Op] = (">", "<=")
    end = term.values[0] + (beyond if term.op in after_all else "")
    return Sql(f"{column} {term.op} ?", (end,))


def parts(column: str, texts: Sequence[str]) -> Sql:
    """Returns the condition that a column of texts holds one of some parts, whatever their case."""
    any_of = " OR ".join(f"instr(lower({column}), lower(?)) > 0" for _ in texts)
    return Sql(f"({any_of})", tuple(storable(text) for text in texts))


def storable(text: str) -> str:
    """Returns a text without lone surrogates, which no stored text holds and SQLite cannot take."""
    return text.encode("utf-8", "replace").decode("utf-8")


def of_statement(
    conn: sqlite3.Connection, among: IdSet, sql: str, parameters: Sequence[Any] = ()
) -> IdSet:
    """Returns those of `among` whose `conversation_id` a statement selects."""
    chosen, flags = among.condition("conversation_id")
    ids = read_ids(
        conn, f"SELECT conversation_id FROM ({sql}) WHERE {chosen}", (*parameters, *flags)
    )
    return among.of(ids)


def with_any_or_none(
    term: Term, among: IdSet, named: IdSet, anything: Callable[[], IdSet]
) -> IdSet:
    """Adds to the conversations that have a named value those that the values `any` and `none` of a term ask for.

    Args:
        anything: Reads those of `among` that have any value.
    """
    if ANY not in term.values and NONE not in term.values:
        return named
    with_value = anything()
    if ANY in term.values:
        named |= with_value
    if NONE in term.values:
        named |= among - with_value
    return named


def named_values(term: Term) -> tuple[str, ...]:
    """Returns the values of a term other than `any` and `none`."""
    return tuple(value for value in term.values if value not in (ANY, NONE))


def in_order(
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


def counted(
    conn: sqlite3.Connection, rows: str, among: IdSet, limit: int, order: str = "2 DESC, 1"
) -> Values:
    """Returns the values of a statement of (conversation_id, value) with their numbers of conversations of a set, the
    most frequent first."""
    chosen, flags = among.condition("conversation_id")
    return conn.execute(
        f"SELECT value, count(*) FROM ({rows}) WHERE value IS NOT NULL AND {chosen} GROUP BY value"
        f" ORDER BY {order} LIMIT ?",
        (*flags, limit),
    ).fetchall()


def counted_choices(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> Values:
    """Returns every choice of a field with the number of conversations of a set for which it holds."""
    choices, condition = FIELDS[field].choices, FIELDS[field].condition
    if condition is None:
        raise ValueError(f"the field {field!r} has no condition")
    return [
        (choice, len(condition(conn, Term(field, ":", (choice,)), among))) for choice in choices
    ]
