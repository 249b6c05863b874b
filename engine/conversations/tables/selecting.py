"""Answers a ListQuery: which conversations match, and in which order; and searches the text of messages.

Each term is answered from one index as a set of ids, and the sets are combined in memory. A single SQL query over
several terms would read the rows of conversations, which are large and scattered over the file.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from array import array
from contextlib import closing
from functools import lru_cache
from typing import NamedTuple

from engine.base.conversation import without_surrogates
from engine.base.errors import WorkbenchError
from engine.conversations.filter_fields import (
    QUESTION_FIELD,
    WORD_FIELD,
    CountedValues,
    FieldQuery,
    SortKey,
)
from engine.conversations.filters import Filter, ListQuery, Term
from engine.project import cjk_index
from engine.project.sql import MESSAGE_BITS, IdSet, read_ids, snapshot

FIELD_QUERIES: dict[str, FieldQuery] = {}
"""Answers terms on each field, by the name of the field. The subjects above this one have queries of their own, which
`engine.opener.open_project` hands in when a project is opened."""

_MAIN_INDEX = "message_fts"
"""Name of the full-text index of all messages."""

_MARKS = re.compile("[\u0300-\u036f]")
"""Finds accents that stand apart from their letters."""

_ALIKE = str.maketrans("‘’“”‐‑", "''\"\"--")
"""Signs that writers and programs put for each other, so that `don't` is found however it was typed."""

MOST_VALUES = 200
"""Most values of a field that are offered for completion."""

_MOST_WORDS = 50


def ids(conn: sqlite3.Connection, query: ListQuery) -> array[int]:
    """Returns the ids of the conversations that match, in order; those without a value of the sort key come last.

    The first term that is not negated and whose field ranks conversations replaces the order `id` by its own.

    Raises:
        WorkbenchError: The search text has too many words, or there is no such question.
    """
    with snapshot(conn):
        matching_ids = matching(conn, query.filter)
        # "id" is the order where nobody chose one
        for term in query.filter.terms if query.sort == "id" else ():
            if term.negated or term.field == WORD_FIELD:
                continue
            if rank := _query_of(term.field).rank:
                ranked = rank(conn, term, matching_ids)
                return ranked[::-1] if query.descending else ranked
        result = _ordered(conn, query.sort, query.descending, matching_ids)
        if len(result) < len(matching_ids):
            result += (matching_ids - matching_ids.of(result)).ascending()
        return result


def matching(conn: sqlite3.Connection, filter: Filter) -> IdSet:
    """Returns the conversations for which every term holds.

    Raises:
        WorkbenchError: The search text has too many words, or there is no such question.
    """
    if sum(len(term.values[0].split()) for term in filter.of(WORD_FIELD)) > _MOST_WORDS:
        raise WorkbenchError(f"The search has more than {_MOST_WORDS} words.", "Use fewer words.")
    among = IdSet.every(conn)
    for term in sorted(filter.terms, key=_cost):
        # Terms on questions are answered even if nothing is left, so that an unknown question is an error.
        if not among and not term.field.startswith(f"{QUESTION_FIELD}."):
            continue
        holding_ids = _holds(conn, term, among)
        among = among - holding_ids if term.negated else holding_ids
    return among


def values(conn: sqlite3.Connection, field: str, filter: Filter) -> CountedValues:
    """Returns the values of a field, given as `Term.field`, with their numbers of conversations that match a filter.

    The most frequent come first, months in their order. For `meta` and `truth` they are the keys. Fields whose values
    are not counted, such as numbers, have none.

    Raises:
        WorkbenchError: The filter cannot be answered.
    """
    with snapshot(conn):
        among = matching(conn, filter)
        query = FIELD_QUERIES.get(field.partition(".")[0])
        count_values = query.count_values if query else None
        return [] if count_values is None else count_values(conn, field, among, MOST_VALUES)


def _cost(term: Term) -> int:
    """Returns the rank at which a term is answered, the smallest first.

    Terms that match few conversations come first, because the others are then tested on those only. A text of signs
    alone, for which every message is read, comes after them. Terms that rank what the others leave come last.
    """
    if term.field == WORD_FIELD:
        return 2 if _signs_of(_text(term)).only_signs else 0
    query = _query_of(term.field)
    if query.rank:
        return 3
    return 0 if query.is_selective else 1


def _holds(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set for which the condition of a term holds, whether or not the term is negated."""
    if term.field == WORD_FIELD:
        return _with_text(conn, term, among)
    return _query_of(term.field).matches(conn, term, among)


def _query_of(field: str) -> FieldQuery:
    """Returns what answers terms on a field, whose name may go on with a key."""
    return FIELD_QUERIES[field.partition(".")[0]]


def _ordered(conn: sqlite3.Connection, sort: SortKey, descending: bool, among: IdSet) -> array[int]:
    """Returns the ids of those of `among` that have a value of `sort`, in its order; equal values by id.

    Descending order is the exact reverse, also of equal values, so that an index is read in one direction without
    sorting.

    Raises:
        ValueError: Conversations are not ordered by `sort`.
    """
    if sort == "id":
        ascending = among.ascending()
    else:
        order = _query_of(sort).order
        if order is None:
            raise ValueError(f"conversations are not ordered by {sort!r}")
        ascending = order(conn, among)
    return ascending[::-1] if descending else ascending


# Searching text


class _Signs(NamedTuple):
    """Whether some and whether all characters of a text are *signs*, such as `?`, which the full-text indexes do not
    have."""

    has_signs: bool
    only_signs: bool


def _with_text(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set in which the text of a term occurs."""
    text = _text(term)
    if _signs_of(text).only_signs:
        chosen, flags = among.condition(f"(id >> {MESSAGE_BITS})")
        holds, signs = _sign_condition(text)
        sql = f"SELECT DISTINCT id >> {MESSAGE_BITS} FROM message WHERE {chosen} AND {holds}"
        return among.of(read_ids(conn, sql, (*flags, *signs)))
    matching_ids = among - among  # empty, for ids of the same range
    for sql, parameters in _search_index(conn, term, text):
        ids = read_ids(conn, f"SELECT id >> {MESSAGE_BITS} FROM ({sql})", parameters)
        matching_ids |= among.of(ids)
    return among & matching_ids


def _search_index(
    conn: sqlite3.Connection, term: Term, text: str
) -> list[tuple[str, tuple[str, ...]]]:
    """Returns (SQL, parameters) that select the `id` of messages, for each index in which a text is searched.

    A text with Chinese or Japanese characters is in `cjk_index` only. Other words may also be between such characters,
    where the main index does not see them, so they are looked for in both.
    """
    indexes = [cjk_index.INDEX] if cjk_index.has_cjk(text) else [_MAIN_INDEX, cjk_index.INDEX]
    words = _phrase(cjk_index.spaced(text)) + ("" if term.whole else "*")
    if not _signs_of(text).has_signs:
        return [
            (f"SELECT rowid AS id FROM {index} WHERE {index} MATCH ?", (words,))
            for index in indexes
        ]
    conn.create_function("written", 2, _is_written, deterministic=True)
    written = _folded(text)
    return [
        (
            f"SELECT message.id FROM {index} JOIN message ON message.id = {index}.rowid"
            f" WHERE {index} MATCH ?"
            " AND (written(message.content, ?) OR written(message.tool_calls, ?))",
            (words, written, written),
        )
        for index in indexes
    ]


def _text(term: Term) -> str:
    """Returns the text of a term without lone surrogates, which no stored text holds and SQLite cannot take, and with
    spaces for null characters."""
    return without_surrogates(term.values[0]).replace("\0", " ")


def _phrase(text: str) -> str:
    """Returns a text as a phrase of FTS5: in quotation marks, those within doubled."""
    return '"' + text.replace('"', '""') + '"'


@lru_cache(1_000)
def _signs_of(text: str) -> _Signs:
    """Returns which signs a text has. The tokenizer of the indexes is asked which characters it passes over, because it
    does not know the newest scripts."""
    chars = {(char,) for char in text if not char.isspace()}  # rows of one column, for SQL
    if text.isascii():
        indexed_chars = sum(char.isalnum() for (char,) in chars)
    else:
        with closing(sqlite3.connect(":memory:")) as memory_index:
            memory_index.execute("CREATE VIRTUAL TABLE chars USING fts5 (text)")
            memory_index.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab (chars, instance)")
            memory_index.executemany("INSERT INTO chars VALUES (?)", chars)
            ((indexed_chars,),) = memory_index.execute("SELECT count(DISTINCT doc) FROM tokens")
    return _Signs(has_signs=indexed_chars < len(chars), only_signs=indexed_chars == 0)


def _sign_condition(signs: str) -> tuple[str, tuple[str, str]]:
    """Returns (SQL, parameters) of whether a message has these signs, or others that writers put for them."""
    plain = signs.translate(_ALIKE)
    content, tool_calls = "content", "tool_calls"
    for other, sign in _ALIKE.items():
        if chr(sign) in plain:
            content = f"replace({content}, char({other}), char({sign}))"
            tool_calls = f"replace({tool_calls}, char({other}), char({sign}))"
    return f"(instr({content}, ?) OR instr({tool_calls}, ?))", (plain, plain)


def _is_written(message: str | None, folded: str) -> bool:
    """Returns whether a text that was folded stands in a message, signs included; the SQL function `written`."""
    return message is not None and folded in _folded(message)


def _folded(text: str) -> str:
    """Returns a text without the differences that a search passes over: case, accents, width of white space, and which
    of the signs in `_ALIKE` was written."""
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFD", text.translate(_ALIKE)))
    return " ".join(text.casefold().split())
