"""The filter language over one row in memory, as plain as it can be said."""

from __future__ import annotations

import operator

from engine.filters import Filter, Term
from engine.records.conversations import ConversationRow

COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def matches(row: ConversationRow, text: str, wanted: Filter) -> bool:
    """Whether every term holds; `text` is that of all messages."""
    return all(_holds(row, text, term) != term.negated for term in wanted.terms)


def _holds(row: ConversationRow, text: str, term: Term) -> bool:
    numbers = {
        "p": row.p_end_normalised,
        "turns": row.turns,
        "messages": row.messages,
        "length": row.chars,
    }
    if term.field in numbers:
        number = numbers[term.field]
        if number is None:
            return False
        if term.span:
            return float(term.values[0]) <= number <= float(term.values[1])
        if term.op == ":":
            return number in map(float, term.values)
        return bool(COMPARE[term.op](number, float(term.values[0])))
    if term.field == "text":
        return term.values[0].lower() in text.lower()
    if term.field in ("source", "name"):
        held = row.source if term.field == "source" else row.external_id
        return any(value.lower() in held.lower() for value in term.values)
    verdict = {"none"} if row.verdict is None else {"any", str(row.verdict)}
    sets = {
        "state": {str(row.state)},
        "verdict": verdict,
        "tag": {"any", *row.tags} if row.tags else {"none"},
    }
    return bool(sets[term.field].intersection(term.values))
