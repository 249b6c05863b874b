"""A ListQuery as SQL: which conversations, in which order."""

from __future__ import annotations

import unicodedata
from typing import Any

from engine.errors import WorkbenchError
from engine.rows import DecisionRule, ListQuery, SortKey
from engine.store.scores import state_sql
from engine.store.verdicts import verdict_sql

_ORDER: dict[SortKey, str] = {
    "id": "c.id",
    "external_id": "c.external_id",
    "source": "(SELECT label FROM source WHERE source.id = c.source_id)",
    "p_end": "s.p_end_normalised",
    "turns": "c.turns",
    "chars": "c.chars",
}
_MOST_WORDS = 50


def from_where(
    query: ListQuery, rule: DecisionRule, score_config: str | None
) -> tuple[str, list[Any]]:
    """The FROM and WHERE clauses, conversations named `c` and their current scores `s`, with parameters.

    Raises:
        WorkbenchError: the search text has too many words.
    """
    sql = " FROM conversation AS c"
    values: list[Any] = []
    if query.state is not None or query.sort == "p_end":
        sql += " LEFT JOIN score AS s ON s.conversation_id = c.id AND s.config_hash = ?"
        values.append(score_config)
    conditions: list[str] = []
    if query.state is not None:
        expression, parameters = state_sql(rule)
        conditions.append(f"{expression} = ?")
        values += [*parameters, query.state.value]
    if query.verdict is not None:
        conditions.append(f"{verdict_sql('c.id')} = ?")
        values.append(query.verdict.value)
    if query.judged is not None:
        conditions.append(f"{verdict_sql('c.id')} IS {'NOT ' if query.judged else ''}NULL")
    if query.source is not None:
        conditions.append("c.source_id IN (SELECT id FROM source WHERE label = ?)")
        values.append(_storable(query.source))
    for word in search_words(query.text or ""):
        conditions.append(
            "c.id IN (SELECT conversation_id FROM message WHERE id IN"
            " (SELECT rowid FROM message_fts WHERE message_fts MATCH ?))"
        )
        values.append(word)
    if conditions:
        sql += " WHERE " + " AND ".join(conditions)
    return sql, values


def order_by(query: ListQuery) -> str:
    """The ORDER BY clause; what has no value stands last in either direction, equal ones in id order."""
    key = _ORDER[query.sort]
    direction = "DESC" if query.descending else "ASC"
    if key == "c.id":
        return f" ORDER BY c.id {direction}"
    return f" ORDER BY {key} IS NULL, {key} {direction}, c.id"


def search_words(text: str) -> list[str]:
    """What a person typed as full-text terms, one for each word, matching words that begin with it.

    Words without any letter or digit are left out: the index knows none of their characters.

    Raises:
        WorkbenchError: more than 50 words.
    """
    words = [
        '"' + word.replace('"', '""') + '"*'
        for word in _storable(text).replace("\0", " ").split()
        if any(unicodedata.category(char)[0] in "LN" for char in word)
    ]
    if len(words) > _MOST_WORDS:
        raise WorkbenchError(f"The search has more than {_MOST_WORDS} words.", "Use fewer words.")
    return words


def _storable(text: str) -> str:
    """Text without lone surrogates, which no stored text holds and SQLite cannot take."""
    return text.encode("utf-8", "replace").decode("utf-8")
