"""Reads what comparisons compare: the measures of conversations as arrays, and the conversations by values of a
field."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.conversation import SUCCEEDED
from engine.base.errors import NotFound, UsageError
from engine.completeness.records import DecisionRule, StateCounts
from engine.conversations.filter_fields import FIELDS_WITH_KEYS
from engine.conversations.filters import Term
from engine.conversations.tables import facets
from engine.conversations.tables.fields import SOURCES
from engine.goals.records import NAMELESS
from engine.goals.views.clustering_view import ClusteringView
from engine.questions.calibration import Calibration, count_states, estimate_completion_rate
from engine.questions.records import CompletionRate
from engine.questions.service.calibration import CHOSEN_BY_SCORE, ScoredConversations
from engine.questions.tables import answers, example_probes
from engine.questions.tables.answers import CURRENT_TAGS
from engine.signs import tables as signs
from engine.trees import tables as trees

NO_GOAL = -1
"""Stands in `Measures.goal` for a conversation without a goal."""

MAX_OFFERED_VALUES = 200
"""Most values of a field of metadata that is offered; a field with more values is an id or a text."""

MAX_SUGGESTIONS = 3
"""Most fields of similar names that a hint suggests."""

MAX_LISTED_KEYS = 8
"""Most fields of metadata and truth (`meta.KEY`, `truth.KEY`) that a hint lists besides the other fields."""

_THURSDAY = "date(substr(created_at, 1, 10), '-3 days', 'weekday 4')"
"""SQL of the Thursday of the same week, whose year and number the week has (ISO 8601)."""

_WEEK = f"strftime('%Y', {_THURSDAY}) || printf('-W%02d', (strftime('%j', {_THURSDAY}) + 6) / 7)"
"""SQL of a week, such as `2026-W11`."""

TIME_FIELDS = {
    "year": ("substr(created_at, 1, 4)", 4),
    "month": ("substr(created_at, 1, 7)", 7),
    "week": (_WEEK, 10),
    "day": ("substr(created_at, 1, 10)", 10),
}
"""Fields of time, each with its SQL and the fewest characters of a date that has it."""

_DATE_PATTERN = "[12][0-9][0-9][0-9]-[01][0-9]*"
"""GLOB pattern of SQLite for texts that begin with a year and a month."""

_IS_EPOCH = "number BETWEEN 6e8 AND 5e9 OR number BETWEEN 6e11 AND 5e12"
"""SQL condition that a number can be the seconds or the milliseconds since 1970 of a time in the years of logs."""

_SELECT_VALUES = {
    "source": SOURCES,
    "tag": f"SELECT conversation_id, tag AS value FROM ({CURRENT_TAGS})",
    **{
        name: f"SELECT id AS conversation_id, {sql} AS value FROM conversation"
        f" WHERE length(created_at) >= {length} AND value IS NOT NULL"
        for name, (sql, length) in TIME_FIELDS.items()
    },
    "turns": "SELECT id AS conversation_id, CAST(turns AS TEXT) AS value FROM conversation",
}
"""A query for (conversation_id, value), for each field that is no facet."""


@dataclass(frozen=True, eq=False, slots=True)
class Measures:
    """The measures of conversations; every array has shape (conversations,), in the order of ids.

    Attributes:
        ids: Ids of the conversations, ascending.
        score: Normalized score; NaN where there is none.
        turns: Number of turns.
        characters: Length in characters.
        trouble: Sum of the standard scores of the signs of trouble; NaN before they were read.
        success: Probability of success, fitted to verdicts; NaN where there is none.
        verdict, outcome: 1 where the conversation succeeded, by the verdict of a person and by the outcome that came
            with it; 0 where it failed; NaN where that is unknown.
        entropy, leaves: Mean over the response trees of the conversation; NaN where there is none.
        goal: Index of the goal in `goals`; `NO_GOAL` where there is none.
        goals: Label of each goal.
        rule: The decision rule of the project.
        calibration: The errors of the scores of the project, by its verdicts.
    """

    ids: Ints
    score: Floats
    turns: Floats
    characters: Floats
    trouble: Floats
    success: Floats
    verdict: Floats
    outcome: Floats
    entropy: Floats
    leaves: Floats
    goal: Ints
    goals: tuple[str, ...]
    rule: DecisionRule
    calibration: Calibration

    @classmethod
    def read(cls, conn: sqlite3.Connection, view: ClusteringView | None) -> Measures:
        """Returns the measures of all conversations of a project, with the goals of a clustering if one is given.

        Slow; see `ScoredConversations.read`.
        """
        id_column, turns, characters = _read_columns(
            conn, "SELECT id, turns, chars FROM conversation ORDER BY id"
        ).T
        ids: Ints = id_column.astype(np.int64)
        scored = ScoredConversations.read(conn)
        tree_id_column, entropies, leaf_counts = _read_columns(
            conn,
            "SELECT conversation_id, avg(entropy), avg(leaves) FROM tree"
            " WHERE config_hash = ? AND reason IS NULL GROUP BY 1 ORDER BY 1",
            trees.chosen(conn),
        ).T
        success = example_probes.success_of(conn, ids.tolist())
        trouble = signs.trouble_of(conn, ids.tolist())
        verdict = example_probes.examples(conn, SUCCEEDED)
        outcome = answers.imported_outcomes(conn)
        last = int(ids[-1]) if len(ids) else 0

        def by_id(keys: Ints, values: Floats) -> Floats:
            """Returns for each of `ids` the value of the equal key, NaN where there is none; shape (conversations,)."""
            table = np.full(last + 1, np.nan)
            table[keys] = values
            return table[ids]

        def of_dict(values: Mapping[int, float]) -> Floats:
            """Returns `by_id` of values by their keys."""
            return by_id(np.array(list(values), np.int64), np.array(list(values.values()), float))

        tree_ids = tree_id_column.astype(np.int64)
        goal, goals = goal_numbers(view, ids)
        return cls(
            ids=ids,
            score=by_id(scored.ids, scored.scores),
            turns=turns,
            characters=characters,
            trouble=of_dict(trouble),
            success=of_dict(success),
            verdict=of_dict(verdict),
            outcome=of_dict(outcome),
            entropy=by_id(tree_ids, entropies),
            leaves=by_id(tree_ids, leaf_counts),
            goal=goal,
            goals=goals,
            rule=scored.rule,
            calibration=scored.calibration,
        )

    def part(self, chosen: Bools) -> Measures:
        """Returns the measures of the conversations for which `chosen`, of shape (conversations,), is true."""
        arrays: dict[str, Any] = {
            field.name: value[chosen]
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        return replace(self, **arrays)

    def of(self, ids: Ints) -> Measures:
        """Returns the measures of the conversations with these ids."""
        return self.part(np.isin(self.ids, ids))

    @property
    def scored(self) -> Bools:
        """Whether each conversation has a score, shape (conversations,)."""
        return ~np.isnan(self.score)

    def states(self) -> StateCounts:
        """Returns how many conversations are in each state, and the rate of complete ones."""
        return count_states(self.score, self.rule)

    def counts(self) -> tuple[int, int]:
        """Returns the number of scored conversations at or above the threshold, and of all scored ones."""
        states = self.states()
        return states.above, states.scored

    def outcomes(self) -> tuple[int, int]:
        """Returns the number of conversations that failed, and of those of which that is known: by a verdict, else by
        the outcome that came with them."""
        succeeded = np.where(np.isnan(self.verdict), self.outcome, self.verdict)
        return int((succeeded == 0).sum()), int((~np.isnan(succeeded)).sum())

    def rate(self, *, by_score: bool = False) -> CompletionRate:
        """Returns the rate of complete conversations.

        Args:
            by_score: Whether the conversations were selected by score or verdict; then the errors of their scores are
                not those of the whole project, and the rate is not corrected.
        """
        why = CHOSEN_BY_SCORE if by_score else ""
        return estimate_completion_rate(self.calibration, self.states(), why)


def goal_numbers(view: ClusteringView | None, ids: Ints) -> tuple[Ints, tuple[str, ...]]:
    """Returns the goal of each conversation, shape (conversations,), as an index into the labels that follow.

    A conversation in no group has `NO_GOAL`.
    """
    if view is None:
        return np.full(len(ids), NO_GOAL), ()
    ranks = np.frombuffer(view.map_of_groups, dtype=">u2")
    rank = np.where(ids < len(ranks), ranks[np.minimum(ids, len(ranks) - 1)], 0).astype(np.int64)
    labels = tuple(view.state.groups[key].label or NAMELESS for key in view.sizes)
    # ranks count from 1; one beyond the last is a conversation in no group
    return np.where(rank <= len(labels), rank - 1, NO_GOAL), labels


def _read_columns(conn: sqlite3.Connection, sql: str, *values: object) -> Floats:
    """Returns the numbers of a query, shape (rows, columns)."""
    cursor = conn.execute(sql, values)
    width = len(cursor.description)
    flat = np.fromiter(chain.from_iterable(cursor), dtype=np.float64)
    return flat.reshape(-1, width)


# The values of a field


def conversations_by_value(conn: sqlite3.Connection, field: str) -> dict[str, array[int]]:
    """Returns the ids of conversations by their value of a field, ascending.

    A conversation with several values is listed under each of them.

    Raises:
        UsageError: There is no such field, or no conversation has it.
    """
    if field in _SELECT_VALUES:
        rows = conn.execute(f"{_SELECT_VALUES[field]} ORDER BY 1")
    elif field in facets.FIELDS or field.partition(".")[0] in FIELDS_WITH_KEYS:
        rows = conn.execute(
            "SELECT conversation_id, value FROM facet JOIN conversation_facet ON facet_id = facet.id"
            " WHERE key = ? ORDER BY 1",
            (field,),
        )
    else:
        raise UsageError(f"Nothing can be compared by {field!r}.", _field_hint(conn, field))
    by_value: dict[str, array[int]] = {}
    for key, value in rows:
        by_value.setdefault(value, array("q")).append(key)
    if not by_value and field in TIME_FIELDS:
        raise NotFound("No conversation has a date.", _date_hint(conn))
    if not by_value:
        raise NotFound(
            f"No conversation has a {field}.",
            f"There are values of {', '.join(comparable_fields(conn)[:MAX_LISTED_KEYS])}.",
        )
    return by_value


def comparable_fields(conn: sqlite3.Connection) -> list[str]:
    """Returns the fields of which conversations have at least two values, and facets at most `MAX_OFFERED_VALUES`."""
    fields_with_values = [
        name for name, sql in _SELECT_VALUES.items() if _has_two_values(conn, sql)
    ]
    rows = conn.execute(
        "SELECT key FROM facet WHERE id IN (SELECT facet_id FROM conversation_facet)"
        " GROUP BY key HAVING count(*) BETWEEN 2 AND ? ORDER BY key LIKE '%.%', key",
        (MAX_OFFERED_VALUES,),
    )
    return [*fields_with_values, *(key for (key,) in rows)]


def _has_two_values(conn: sqlite3.Connection, sql: str) -> bool:
    """Returns whether a query of `_SELECT_VALUES` gives at least two different values."""
    (has_two,) = conn.execute(f"SELECT count(DISTINCT value) > 1 FROM ({sql})").fetchone()
    return bool(has_two)


def term_of(field: str, value: str) -> Term:
    """Returns the term of a filter that selects the conversations with a value of a field."""
    return Term("date" if field in TIME_FIELDS else field, ":", (value,))


def _date_hint(conn: sqlite3.Connection) -> str:
    """Returns a sentence on the fields of metadata that have dates, and how dates can be used."""
    rows = conn.execute(
        "SELECT key FROM facet WHERE key LIKE 'meta.%' GROUP BY key"
        f" HAVING min(coalesce(value GLOB '{_DATE_PATTERN}' OR {_IS_EPOCH}, 0)) ORDER BY key LIMIT 5"
    )
    names = [key for (key,) in rows]
    if not names:
        return "A mapping says where a log has them: `created_at` in docs/mapping-files.md."
    name = names[0]
    return (
        f"Dates are in {', '.join(names)}. `--by {name}` compares by its values; for months, import into a new project"
        f' with a mapping that has `created_at = "{name.partition(".")[2]}"` (`workbench mapping`).'
    )


def _field_hint(conn: sqlite3.Connection, field: str) -> str:
    """Returns sentences with the fields whose names are similar to `field`, and with all fields."""
    dotted = [key for name in FIELDS_WITH_KEYS for key in facets.keys(conn, f"{name}.")]
    names = [*_SELECT_VALUES, *facets.FIELDS, *dotted]
    similar = get_close_matches(field, names, MAX_SUGGESTIONS)
    suggestion = f"Did you mean {' or '.join(similar)}? " if similar else ""
    listed = [*_SELECT_VALUES, *facets.FIELDS, *dotted[:MAX_LISTED_KEYS]]
    return f"{suggestion}Fields: {', '.join(listed)}."
