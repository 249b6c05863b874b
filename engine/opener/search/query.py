"""Answers a ListQuery: which conversations match, and in which order.

Each term is answered from one index as a set of ids, and the sets are combined in memory. A single SQL query over
several terms would read the rows of conversations, which are large and scattered over the file.
"""

from __future__ import annotations

import operator
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from random import Random
from typing import Any

from engine.base.errors import WorkbenchError
from engine.base.outcomes import (
    State,
    Verdict,
)
from engine.completeness.records.scores import (
    DecisionRule,
)
from engine.completeness.tables import score_sets
from engine.completeness.tables.requests import REQUEST_COUNTS_SQL
from engine.completeness.tables.scores import state_sql
from engine.conversations.filter_fields import ANY, NONE, TEXT, SortKey
from engine.conversations.filters import Filter, Op, Term, is_number
from engine.conversations.tables import facets
from engine.conversations.tables.watched import ENDED_PLACES, WATCHED
from engine.goals.tables import groups as goal_groups
from engine.opener.search import text_search
from engine.project import settings
from engine.project.idset import IdSet, read_ids
from engine.project.sql import placeholders
from engine.questions.records.example_probes import NOT, SUCCESS
from engine.questions.tables.example_probes import PROPOSED, VALUES_IN_FORCE
from engine.questions.tables.second_verdicts import DISAGREEMENTS, NAMED_OPINIONS
from engine.questions.tables.verdicts import CURRENT_NOTES, CURRENT_TAGS, CURRENT_VERDICTS
from engine.trees import tables as trees

PROPOSED_SIGN = "?"
"""End of the name of a tag that stands for what its probe predicts."""

_MOST_WORDS = 50
_ROUNDING = 1e-9
"""More than the rounding error of adding and subtracting scores."""

_COLUMNS = {
    "name": "external_id",
    "date": "created_at",
    "turns": "turns",
    "messages": "messages",
    "length": "chars",
}
_JUDGED = {
    "verdict": (CURRENT_VERDICTS, "verdict"),
    "tag": (CURRENT_TAGS, "tag"),
    "note": (CURRENT_NOTES, "note"),
    "annotator": (NAMED_OPINIONS, "annotator"),
}
_OF_FEW = {TEXT, "remaining", *_JUDGED}
_OF_TREES = {
    "leaves": "max(leaves)",
    "max_logprob": "min(max_log_prob)",
    "entropy": "max(entropy_high)",
}
_REMAINING = "SELECT conversation_id FROM remaining WHERE score_config_hash = ? AND text <> ''"
_COMPARED: Mapping[Op, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Sql:
    """A condition and its parameters."""

    text: str
    values: tuple[Any, ...] = ()


def matching(conn: sqlite3.Connection, wanted: Filter) -> IdSet:
    """The conversations for which every term holds.

    Raises:
        WorkbenchError: the search text has too many words.
    """
    if sum(len(term.values[0].split()) for term in wanted.of(TEXT)) > _MOST_WORDS:
        raise WorkbenchError(f"The search has more than {_MOST_WORDS} words.", "Use fewer words.")
    rule, config = settings.rule(conn), settings.score_config(conn)
    found = IdSet.every(conn)
    for term in sorted(wanted.terms, key=_cost):
        if not found:
            break
        holds = _holds(conn, term, found, rule, config)
        found = found - holds if term.negated else holds
    return found


def _cost(term: Term) -> int:
    """Terms that match few conversations come first, because the others are then tested on those only; a text for
    which every message is read comes last."""
    if term.field == TEXT and text_search.is_slow(term):
        return 2
    return 0 if term.field in _OF_FEW else 1


def ordered(conn: sqlite3.Connection, sort: SortKey, descending: bool, among: IdSet) -> array[int]:
    """Ids of those of `among` that have a value of `sort`, in its order; equal values by id.

    Descending order is the exact reverse, also of equal values, so that an index is read in one direction without
    sorting.
    """
    found = _ascending(conn, sort, among)
    return found[::-1] if descending else found


def _ascending(conn: sqlite3.Connection, sort: SortKey, among: IdSet) -> array[int]:
    if sort == "id":
        return among.ascending()
    if sort == "source":
        return _by_source(conn, among)
    if sort == "p":
        chosen, flags = among.condition("conversation_id")
        return read_ids(
            conn,
            "SELECT conversation_id FROM score WHERE config_hash = ? AND p_end_normalised"
            f" IS NOT NULL AND {chosen} ORDER BY p_end_normalised, conversation_id",
            (settings.score_config(conn), *flags),
        )
    if sort == "success":
        chosen, flags = among.condition("conversation_id")
        return read_ids(
            conn,
            f"SELECT conversation_id FROM ({VALUES_IN_FORCE}) WHERE {chosen}"
            " ORDER BY p, conversation_id",
            (SUCCESS, *flags),
        )
    if sort in _JUDGED:
        rows, column = _JUDGED[sort]
        chosen, flags = among.condition("conversation_id")
        return read_ids(
            conn,
            f"SELECT conversation_id FROM (SELECT conversation_id, min({column}) AS value"
            f" FROM ({rows}) GROUP BY conversation_id) WHERE {chosen}"
            " ORDER BY value, conversation_id",
            flags,
        )
    column = _COLUMNS[sort]
    chosen, flags = among.condition("id")
    return read_ids(
        conn,
        f"SELECT id FROM conversation WHERE {column} IS NOT NULL AND {chosen} ORDER BY {column}, id",
        flags,
    )


def _by_source(conn: sqlite3.Connection, among: IdSet) -> array[int]:
    """Reads source by source, because the index is in the order of source ids, not of labels; sources may share a
    label."""
    by_label: dict[str, list[int]] = {}
    for source, label in conn.execute("SELECT id, label FROM source"):
        by_label.setdefault(label, []).append(source)
    chosen, flags = among.condition("id")
    found = array("q")
    for label in sorted(by_label):
        ids: list[int] = []
        for source in by_label[label]:
            sql = f"SELECT id FROM conversation WHERE source_id = ? AND {chosen}"
            ids += read_ids(conn, sql, (source, *flags))
        found.extend(sorted(ids))
    return found


def in_state(rule: DecisionRule, config: str | None, state: State) -> tuple[str, tuple[Any, ...]]:
    """(SQL, parameters) that selects the conversations in a state; for `unscored` those that are scored. It reads a
    range of scores from the index and applies the exact rule to them."""
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


def _holds(
    conn: sqlite3.Connection, term: Term, among: IdSet, rule: DecisionRule, config: str | None
) -> IdSet:
    """Those of `among` for which a term holds; ignores whether the term is negated."""
    if term.field == "state":
        found = among - among
        for value in term.values:
            scored = _select(conn, among, *in_state(rule, config, State(value)))
            found |= among - scored if value == State.UNSCORED else scored
        return found
    if term.field in _JUDGED:
        return _judged(conn, term, among)
    if term.field == "disagreement":
        return _disagreeing(conn, term, among, rule, config)
    if term.field in ("goal", "also"):
        second = term.field == "also"
        return goal_groups.conversations(conn, term.values, among, second=second)
    if term.field == "share":
        inner = _number("share", term)
        return among & among.of(goal_groups.with_share(conn, inner.text, inner.values))
    if term.field in _OF_TREES:
        inner = _number(_OF_TREES[term.field], term)
        sql = (
            "SELECT conversation_id FROM tree WHERE config_hash = ? AND reason IS NULL"
            f" GROUP BY conversation_id HAVING {inner.text}"
        )
        return _select(conn, among, sql, (trees.chosen(conn), *inner.values))
    if term.field == "requests":
        inner = _number("coalesce(requests, 1)", term)
        sql = (
            "SELECT id AS conversation_id FROM conversation"
            f" LEFT JOIN ({REQUEST_COUNTS_SQL}) ON conversation_id = id WHERE {inner.text}"
        )
        return _select(conn, among, sql, inner.values)
    if term.field == "watched":
        sql = " UNION ".join(WATCHED[value] for value in term.values)
        return _select(conn, among, sql, ())
    if term.field == "ended":
        inner = _number("place", term)
        sql = f"SELECT conversation_id FROM ({ENDED_PLACES}) WHERE {inner.text}"
        return _select(conn, among, sql, inner.values)
    if term.field == "remaining":
        return _remaining(conn, term, among, config)
    if term.field in facets.FIELDS or term.key:
        return _with_facet(conn, term, among)
    if term.field == "draw":
        return _drawn(term, among)
    if term.field == TEXT:
        return text_search.conversations_with(conn, term, among)
    if term.field == "p":
        inner = _number("p_end_normalised", term)
        sql = f"SELECT conversation_id FROM score WHERE config_hash = ? AND {inner.text}"
        return _select(conn, among, sql, (config, *inner.values))
    if term.field == "success":
        inner = _number("p", term)
        sql = f"SELECT conversation_id FROM ({VALUES_IN_FORCE}) WHERE {inner.text}"
        return _select(conn, among, sql, (SUCCESS, *inner.values))
    if term.field == "source":
        inner = _parts("label", term.values)
        sql = f"source_id IN (SELECT id FROM source WHERE {inner.text})"
        condition = _Sql(sql, inner.values)
    else:
        column = _COLUMNS[term.field]
        condition = {"name": _name, "date": _date}.get(term.field, _number)(column, term)
    sql = f"SELECT id AS conversation_id FROM conversation WHERE {condition.text}"
    return _select(conn, among, sql, condition.values)


def _drawn(term: Term, among: IdSet) -> IdSet:
    """Those of `among` whose random number from a fixed seed, which depends on the id alone, satisfies the term."""
    numbers = sorted(map(float, term.values))

    def holds(drawn: float) -> bool:
        if term.span:
            return numbers[0] <= drawn <= numbers[1]
        return _COMPARED[term.op](drawn, numbers[0])

    draw = Random(0).random
    return IdSet(bytes(holds(draw()) and flag for flag in among.flags))


def _judged(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Those of `among` whose verdict, tag or note satisfies the term."""
    rows, column = _JUDGED[term.field]
    found = among - among
    named = tuple(_storable(value) for value in term.values if value not in (ANY, NONE))
    if named:
        sql = f"SELECT conversation_id FROM ({rows}) WHERE {column} IN ({placeholders(named)})"
        found |= _select(conn, among, sql, named)
    if term.field == "tag":
        for name in named:
            if name.endswith(PROPOSED_SIGN):
                found |= _proposed(conn, among, name.removesuffix(PROPOSED_SIGN))
    if len(named) < len(term.values):
        anything = _select(conn, among, f"SELECT conversation_id FROM ({rows})", ())
        if ANY in term.values:
            found |= anything
        if NONE in term.values:
            found |= among - anything
    return found


def _disagreeing(
    conn: sqlite3.Connection, term: Term, among: IdSet, rule: DecisionRule, config: str | None
) -> IdSet:
    """Those of `among` that one calls complete and the other incomplete, or on which people disagree."""

    def scored(rule: DecisionRule, config: str | None) -> tuple[IdSet, IdSet]:
        complete, incomplete = (
            _select(conn, among, *in_state(rule, config, state))
            for state in (State.COMPLETE, State.INCOMPLETE)
        )
        return complete, incomplete

    complete, incomplete = scored(rule, config)
    found = among - among
    if "verdict" in term.values:
        rows = f"SELECT conversation_id FROM ({CURRENT_VERDICTS}) WHERE verdict = ?"
        found |= complete & _select(conn, among, rows, (Verdict.INCOMPLETE,))
        found |= incomplete & _select(conn, among, rows, (Verdict.COMPLETE,))
    if "people" in term.values:
        found |= _select(conn, among, DISAGREEMENTS, ())
    if "scores" in term.values:
        for other in score_sets.configs(conn):
            if other.config_hash != config:
                yes, no = scored(settings.rule(conn, other.config_hash), other.config_hash)
                found |= (complete & no) | (incomplete & yes)
    return found


def _remaining(conn: sqlite3.Connection, term: Term, among: IdSet, config: str | None) -> IdSet:
    """Those of `among` whose remaining tasks, written for the scores in force, have a part of the text."""
    found = among - among
    parts = tuple(value for value in term.values if value not in (ANY, NONE))
    if parts:
        inner = _parts("text", parts)
        found |= _select(conn, among, f"{_REMAINING} AND {inner.text}", (config, *inner.values))
    if len(parts) < len(term.values):
        anything = _select(conn, among, _REMAINING, (config,))
        if ANY in term.values:
            found |= anything
        if NONE in term.values:
            found |= among - anything
    return found


def _with_facet(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Those of `among` with a tool, a model, or a field of metadata or truth.

    Raises:
        WorkbenchError: No conversation has the field of metadata or truth.
    """
    if term.key and not facets.is_known(conn, term.field):
        beginning = term.field.partition(".")[0] + "."
        known = facets.keys(conn, beginning)
        near = get_close_matches(term.field, known, 3, 0.5) or known[:5]
        raise WorkbenchError(
            f"No conversation has the field “{term.field}”.",
            f"Do you mean {' or '.join(near)}?"
            if near
            else f"No conversation has any {'metadata' if beginning == 'meta.' else 'truth'}.",
        )
    found = among - among
    inner = _facet(tuple(value for value in term.values if value not in (ANY, NONE)), term)
    if inner.text:
        found |= among.of(read_ids(conn, _FACETS.format(inner.text), (term.field, *inner.values)))
    if ANY in term.values or NONE in term.values:
        anything = among.of(read_ids(conn, _FACETS.format("TRUE"), (term.field,)))
        if ANY in term.values:
            found |= anything
        if NONE in term.values:
            found |= among - anything
    return among & found


_FACETS = (
    "SELECT conversation_id FROM conversation_facet"
    " WHERE facet_id IN (SELECT id FROM facet WHERE key = ? AND ({}))"
)


def _facet(wanted: Sequence[str], term: Term) -> _Sql:
    """The condition on a facet that its value is one of these; empty without any."""
    if not wanted:
        return _Sql("")
    if (term.span or term.op != ":") and all(map(is_number, wanted)):
        return _number("number", term)
    values = tuple(_storable(value)[: facets.LONGEST] for value in wanted)
    if term.span:
        return _date("value", term)
    if term.op != ":":
        return _Sql(f"value {term.op} ?", values)
    conditions, found = [], []
    for value in values:
        if value.endswith("*"):
            conditions.append("substr(value, 1, length(?)) = ? COLLATE NOCASE")
            found += [value[:-1], value[:-1]]
        else:
            conditions.append("value = ?")
            found.append(value)
        if is_number(value):
            conditions.append("number = CAST(? AS REAL)")
            found.append(value)
    return _Sql(" OR ".join(conditions), tuple(found))


def _proposed(conn: sqlite3.Connection, among: IdSet, tag: str) -> IdSet:
    """Those of `among` for which the probe of a tag proposes it, and which a person has not marked since."""
    marked = f"SELECT conversation_id FROM ({CURRENT_TAGS}) WHERE tag IN (?, ?)"
    found = _select(conn, among, PROPOSED, (tag,))
    return found - _select(conn, among, marked, (tag, NOT + tag))


def _select(conn: sqlite3.Connection, among: IdSet, sql: str, values: Sequence[Any]) -> IdSet:
    """Those of `among` whose `conversation_id` a statement selects."""
    chosen, flags = among.condition("conversation_id")
    ids = read_ids(conn, f"SELECT conversation_id FROM ({sql}) WHERE {chosen}", (*values, *flags))
    return among.of(ids)


def _number(column: str, term: Term) -> _Sql:
    numbers = tuple(float(value) for value in term.values)
    if term.span:
        return _Sql(f"{column} BETWEEN ? AND ?", (min(numbers), max(numbers)))
    if term.op == ":":
        return _Sql(f"{column} IN ({placeholders(numbers)})", numbers)
    return _Sql(f"{column} {term.op} ?", numbers)


def _date(column: str, term: Term) -> _Sql:
    """Dates are texts that sort; a month or a year stands for all of its days."""
    beyond = "~"  # sorts after everything that a date goes on with
    if term.span:
        low, high = sorted(term.values)
        return _Sql(f"{column} BETWEEN ? AND ?", (low, high + beyond))
    if term.op == ":":
        any_of = " OR ".join(f"{column} BETWEEN ? AND ?" for _ in term.values)
        return _Sql(
            f"({any_of})", tuple(end for value in term.values for end in (value, value + beyond))
        )
    after_all: tuple[Op, Op] = (">", "<=")
    end = term.values[0] + (beyond if term.op in after_all else "")
    return _Sql(f"{column} {term.op} ?", (end,))


def _name(column: str, term: Term) -> _Sql:
    return _parts(column, term.values)


def _parts(column: str, wanted: Sequence[str]) -> _Sql:
    """Whether a text holds one of some parts, whatever their case."""
    any_of = " OR ".join(f"instr(lower({column}), lower(?)) > 0" for _ in wanted)
    return _Sql(f"({any_of})", tuple(_storable(value) for value in wanted))


def _storable(text: str) -> str:
    """Text without lone surrogates, which no stored text holds and SQLite cannot take."""
    return text.encode("utf-8", "replace").decode("utf-8")
