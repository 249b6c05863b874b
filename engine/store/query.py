"""A ListQuery as SQL: which conversations, in which order."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from engine.errors import WorkbenchError
from engine.filters import ANY, NONE, TEXT, Filter, ListQuery, Op, SortKey, Term
from engine.rows import DecisionRule
from engine.store.scores import state_sql
from engine.store.sql import MESSAGE_BITS
from engine.store.verdicts import STANDING_NOTES, STANDING_TAGS, STANDING_VERDICTS

_MOST_WORDS = 50
_SCORE = " LEFT JOIN score AS s ON s.conversation_id = c.id AND s.config_hash = ?"

_ORDER: dict[SortKey, str] = {
    "id": "c.id",
    "name": "c.external_id",
    "source": "(SELECT label FROM source WHERE source.id = c.source_id)",
    "date": "c.created_at",
    "p": "s.p_end_normalised",
    "turns": "c.turns",
    "messages": "c.messages",
    "length": "c.chars",
    "verdict": f"(SELECT v.verdict FROM ({STANDING_VERDICTS}) AS v WHERE v.conversation_id = c.id)",
    "tag": f"(SELECT min(t.tag) FROM ({STANDING_TAGS}) AS t WHERE t.conversation_id = c.id)",
}
_NUMBERS = {
    "p": "s.p_end_normalised",
    "turns": "c.turns",
    "messages": "c.messages",
    "length": "c.chars",
}


@dataclass(frozen=True, slots=True)
class _Sql:
    """A condition and its parameters."""

    text: str
    values: tuple[Any, ...] = ()


def from_where(
    query: ListQuery, rule: DecisionRule, score_config: str | None
) -> tuple[str, list[Any]]:
    """The FROM and WHERE clauses, conversations named `c` and their current scores `s`, with parameters.

    Raises:
        WorkbenchError: the search text has too many words.
    """
    sql = " FROM conversation AS c"
    values: list[Any] = []
    if query.sort == "p" or query.filter.of("state") or query.filter.of("p"):
        sql += _SCORE
        values.append(score_config)
    conditions = [_condition(term, rule) for term in counted(query.filter).terms]
    if conditions:
        sql += " WHERE " + " AND ".join(condition.text for condition in conditions)
        values += [value for condition in conditions for value in condition.values]
    return sql, values


def order_by(query: ListQuery) -> str:
    """The ORDER BY clause; what has no value stands last in either direction, equal ones in id order."""
    key = _ORDER[query.sort]
    direction = "DESC" if query.descending else "ASC"
    if key == "c.id":
        return f" ORDER BY c.id {direction}"
    return f" ORDER BY {key} IS NULL, {key} {direction}, c.id"


def counted(wanted: Filter) -> Filter:
    """The filter without words that hold neither a letter nor a digit, which the index does not know."""
    terms = tuple(
        term for term in wanted.terms if term.field != TEXT or _has_letters(term.values[0])
    )
    if sum(len(term.values[0].split()) for term in terms if term.field == TEXT) > _MOST_WORDS:
        raise WorkbenchError(f"The search has more than {_MOST_WORDS} words.", "Use fewer words.")
    return Filter(terms)


def _condition(term: Term, rule: DecisionRule) -> _Sql:
    """The condition of one term; never NULL, so that it can be negated."""
    if term.field == TEXT:
        found = _text(term)
    elif term.field == "state":
        expression, parameters = state_sql(rule)
        found = _among(expression, term.values, tuple(parameters))
    elif term.field in _NUMBERS:
        found = _number(_NUMBERS[term.field], term)
    elif term.field == "date":
        found = _date(term)
    elif term.field == "verdict":
        found = _standing(STANDING_VERDICTS, "verdict", term.values)
    elif term.field == "tag":
        found = _standing(STANDING_TAGS, "tag", term.values)
    elif term.field == "note":
        found = _standing(STANDING_NOTES, "note", term.values)
    elif term.field == "source":
        inner = _parts("label", term.values)
        found = _Sql(f"c.source_id IN (SELECT id FROM source WHERE {inner.text})", inner.values)
    else:
        found = _parts("c.external_id", term.values)
    return _Sql(f"NOT ({found.text})", found.values) if term.negated else found


def match(term: Term) -> str:
    """What a term of text is in the language of the text index."""
    word = '"' + _storable(term.values[0]).replace("\0", " ").replace('"', '""') + '"'
    return word if term.whole else word + "*"


def _text(term: Term) -> _Sql:
    return _Sql(
        f"c.id IN (SELECT rowid >> {MESSAGE_BITS} FROM message_fts WHERE message_fts MATCH ?)",
        (match(term),),
    )


def _among(expression: str, wanted: tuple[str, ...], before: tuple[Any, ...] = ()) -> _Sql:
    return _Sql(f"{expression} IN ({','.join('?' * len(wanted))})", (*before, *wanted))


def _number(column: str, term: Term) -> _Sql:
    numbers = tuple(float(value) for value in term.values)
    if term.span:
        return _Sql(f"coalesce({column} BETWEEN ? AND ?, 0)", (min(numbers), max(numbers)))
    if term.op == ":":
        marks = ",".join("?" * len(numbers))
        return _Sql(f"coalesce({column} IN ({marks}), 0)", numbers)
    return _Sql(f"coalesce({column} {term.op} ?, 0)", numbers)


def _date(term: Term) -> _Sql:
    """Dates are texts that sort; a month or a year stands for all of its days."""
    beyond = "~"  # sorts after everything that a date goes on with
    if term.span:
        low, high = sorted(term.values)
        return _Sql("coalesce(c.created_at BETWEEN ? AND ?, 0)", (low, high + beyond))
    if term.op == ":":
        any_of = " OR ".join("c.created_at BETWEEN ? AND ?" for _ in term.values)
        ends = tuple(end for value in term.values for end in (value, value + beyond))
        return _Sql(f"coalesce({any_of}, 0)", ends)
    after_all: tuple[Op, Op] = (">", "<=")
    end = term.values[0] + (beyond if term.op in after_all else "")
    return _Sql(f"coalesce(c.created_at {term.op} ?, 0)", (end,))


def _standing(rows: str, column: str, wanted: tuple[str, ...]) -> _Sql:
    """Against what stands: a query of (conversation_id, `column`); there are few such rows beside conversations."""
    parts: list[_Sql] = []
    named = tuple(_storable(value) for value in wanted if value not in (ANY, NONE))
    if ANY in wanted:
        parts.append(_Sql(f"c.id IN (SELECT conversation_id FROM ({rows}))"))
    if NONE in wanted:
        parts.append(_Sql(f"c.id NOT IN (SELECT conversation_id FROM ({rows}))"))
    if named:
        inner = _among(column, named)
        parts.append(
            _Sql(f"c.id IN (SELECT conversation_id FROM ({rows}) WHERE {inner.text})", inner.values)
        )
    text = " OR ".join(part.text for part in parts)
    return _Sql(f"({text})", tuple(value for part in parts for value in part.values))


def _parts(column: str, wanted: tuple[str, ...]) -> _Sql:
    """Whether a text holds one of some parts, whatever their case."""
    any_of = " OR ".join(f"instr(lower({column}), lower(?)) > 0" for _ in wanted)
    return _Sql(f"({any_of})", tuple(_storable(value) for value in wanted))


def _has_letters(text: str) -> bool:
    return any(unicodedata.category(char)[0] in "LN" for char in text)


def _storable(text: str) -> str:
    """Text without lone surrogates, which no stored text holds and SQLite cannot take."""
    return text.encode("utf-8", "replace").decode("utf-8")
