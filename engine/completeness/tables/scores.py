"""Completeness scores, one for each conversation and configuration, with the curve behind each and the remaining tasks
that were written for it.

A boundary is a place where a conversation could end. A curve has at each the probabilities of the end and of the
continuation; the score is that of the end divided by the sum of both (`normalized`), at the last boundary. Next to the
curve is stored, where it is known, what the model generates: whether the most probable text at a boundary is the end
tag, by which Soroka et al. decide. A config hash is the key of a set of scores, or of remaining tasks; the current
score is that under the config hash in force.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.conversation import State
from engine.completeness.records import (
    CurvePoint,
    DecisionRule,
    RemainingTasks,
    ScoreRow,
    normalized,
)
from engine.completeness.tables import score_sets
from engine.conversations.tables.conversations import imported
from engine.formats.records import Imported
from engine.project.sql import id_pages, read_ids, rows_in, snapshot

NO_PROBABILITY = "the model gives neither an end nor a continuation any probability"
"""Reason why a conversation is unscored at whose last boundary both probabilities are zero."""


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """The scores of one conversation, or the reason why it has none.

    Attributes:
        curve: The points of its boundaries in order, the last of which is its score; empty when it is unscored.
        reason: Why it is unscored, or what is special about the score; required without a curve.
        tokens: Number of tokens that the model read for it.
    """

    conversation_id: int
    curve: tuple[CurvePoint, ...]
    reason: str | None
    tokens: int


# Storing scores


def add_scores(
    conn: sqlite3.Connection, config_hash: str, run_id: int, entries: Sequence[ScoreEntry]
) -> None:
    """Stores a batch of scores of a registered configuration, none of which is stored yet, with their curves and what
    is known to be generated.

    An entry whose curve ends where neither answer has a probability gets `NO_PROBABILITY` as its reason.

    Raises:
        ValueError: An unscored entry has no reason.
    """
    conn.executemany(
        "INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue,"
        " p_end_normalised, reason, tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [_score_row(entry, config_hash, run_id) for entry in entries],
    )
    points = [(entry.conversation_id, point) for entry in entries for point in entry.curve]
    conn.executemany(
        "INSERT INTO boundary_score (conversation_id, config_hash, message, step, turn, p_end,"
        " p_continue) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (key, config_hash, at.message, at.step, at.turn, at.p_end, at.p_continue)
            for key, at in points
        ],
    )
    known = [(key, at.message, at.generated) for key, at in points if at.generated is not None]
    add_generated_ends(conn, config_hash, known)


def _score_row(entry: ScoreEntry, config_hash: str, run_id: int) -> tuple[Any, ...]:
    """Returns the row of `score` of an entry.

    Raises:
        ValueError: The entry is unscored and has no reason.
    """
    key, reason = entry.conversation_id, entry.reason
    if not entry.curve:
        if not reason:
            raise ValueError(f"conversation {key} is unscored without a reason")
        return key, config_hash, run_id, None, None, None, reason, entry.tokens
    p_end, p_continue = entry.curve[-1].p_end, entry.curve[-1].p_continue
    score = normalized(p_end, p_continue)
    if score is None:
        reason = NO_PROBABILITY
    return key, config_hash, run_id, p_end, p_continue, score, reason, entry.tokens


def ids_without_score(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations that have no score, nor a reason for none, under a configuration,
    ascending."""
    return read_ids(
        conn,
        "SELECT id FROM conversation WHERE NOT EXISTS (SELECT 1 FROM score"
        " WHERE conversation_id = id AND config_hash = ?) ORDER BY id",
        (config_hash,),
    )


def forget_failures(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes the reasons why conversations are unscored under a configuration."""
    conn.execute(
        "DELETE FROM score WHERE config_hash = ? AND p_end_normalised IS NULL", (config_hash,)
    )


# Reading scores


def state_sql(rule: DecisionRule, column: str = "s.p_end_normalised") -> tuple[str, list[float]]:
    """Returns `DecisionRule.state` as an SQL expression over a column of normalized scores, with its parameters."""
    return (
        f"CASE WHEN {column} IS NULL THEN 'unscored'"
        f" WHEN abs({column} - ?) < ? THEN 'borderline'"
        f" WHEN {column} >= ? THEN 'complete' ELSE 'incomplete' END",
        [rule.threshold, rule.band, rule.threshold],
    )


def states(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, State]:
    """Returns the state of each of these conversations under the scores and the rule in force."""
    rule, config_hash = score_sets.rule(conn), score_sets.hash_in_force(conn)
    score_by_id = {} if config_hash is None else normalized_scores(conn, config_hash, ids)
    return {key: rule.state(score_by_id.get(key)) for key in ids}


def below_threshold(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations whose score is below the threshold of its set, ascending."""
    return read_ids(
        conn,
        "SELECT conversation_id FROM score WHERE config_hash = ? AND p_end_normalised < ?"
        " ORDER BY conversation_id",
        (config_hash, score_sets.rule(conn, config_hash).threshold),
    )


def normalized_scores(
    conn: sqlite3.Connection, config_hash: str, ids: Sequence[int]
) -> dict[int, float]:
    """Returns the normalized scores of a set, by conversation; conversations without a score are left out."""
    # with + the ids are looked up; without it SQLite reads all scores of the set in their order
    query = (
        "SELECT conversation_id, p_end_normalised FROM score WHERE config_hash = ?"
        " AND +p_end_normalised IS NOT NULL AND conversation_id IN"
    )
    return dict(rows_in(conn, query, ids, (config_hash,)))


def current_score(conn: sqlite3.Connection, conversation_id: int) -> ScoreRow | None:
    """Returns the current score of one conversation; None where it has none."""
    return current_scores(conn, [conversation_id]).get(conversation_id)


def current_scores(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, ScoreRow]:
    """Returns the current scores of these conversations, by id; those without one are absent."""
    score_by_id: dict[int, ScoreRow] = {}
    with snapshot(conn):
        config_hash = score_sets.hash_in_force(conn)
        if config_hash is None:
            return {}
        rule = score_sets.rule(conn)
        curves = _curves(conn, config_hash, ids)
        generated = generated_curves(conn, config_hash, ids)
        rows = rows_in(
            conn,
            "SELECT s.conversation_id, s.reason, s.p_end, s.p_end_normalised,"
            " g.mode, g.model, g.adapter, g.features"
            " FROM score AS s JOIN score_config AS g USING (config_hash)"
            " WHERE s.config_hash = ? AND s.conversation_id IN",
            ids,
            (config_hash,),
        )
        for key, reason, p_end, p_end_normalised, mode, model, adapter, features in rows:
            ends = generated.get(key)
            score_by_id[key] = ScoreRow(
                state=rule.state(p_end_normalised),
                reason=reason,
                p_end=p_end,
                p_end_normalised=p_end_normalised,
                curve=tuple(curves.get(key, ())),
                mode=mode,
                model=model,
                adapter=adapter,
                features=features,
                generated=None if ends is None else bool(ends[max(ends)]),
            )
    return score_by_id


def export_scores(
    conn: sqlite3.Connection, ids: Sequence[int] | None = None
) -> Iterator[tuple[Imported, ScoreRow | None]]:
    """Yields each conversation with its current score, None if no run has scored it.

    Args:
        ids: Ids of conversations, in the order of the result; None for all, in the order of import.
    """
    with snapshot(conn):
        for page in id_pages(conn, ids):
            scored = current_scores(conn, page)
            for conversation in imported(conn, page):
                yield conversation, scored.get(conversation.conversation_id)


# Reading curves


def normalized_curves(
    conn: sqlite3.Connection, config_hash: str, ids: Sequence[int]
) -> dict[int, dict[int, float | None]]:
    """Returns the curves of a set, by conversation: the normalized probability of the end, by index of the message.

    Conversations without a curve are left out. A value is None where neither end nor continuation has a probability.
    """
    curves: dict[int, dict[int, float | None]] = {}
    columns = "message, p_end, p_continue"
    rows = _rows_at_boundaries(conn, columns, "boundary_score", config_hash, ids)
    for key, message, p_end, p_continue in rows:
        curves.setdefault(key, {})[message] = normalized(p_end, p_continue)
    return curves


def mean_distances_from_even(conn: sqlite3.Connection, config_hash: str) -> dict[int, float]:
    """Returns the mean distance from .5 of the probabilities of an end at the boundaries of a conversation, for each
    that has a curve under a configuration."""
    rows = conn.execute(
        "SELECT conversation_id, avg(abs(p_end / (p_end + p_continue) - 0.5)) FROM boundary_score"
        " WHERE config_hash = ? AND p_end + p_continue > 0 GROUP BY conversation_id",
        (config_hash,),
    )
    return dict(rows.fetchall())


def _curves(
    conn: sqlite3.Connection, config_hash: str, keys: Sequence[int]
) -> dict[int, list[CurvePoint]]:
    """Returns the curves of these conversations by id, without the boundaries where neither answer has any
    probability."""
    curves: dict[int, list[CurvePoint]] = {}
    columns = "message, step, turn, p_end, p_continue"
    rows = _rows_at_boundaries(conn, columns, "boundary_score", config_hash, keys)
    for key, *values in rows:
        point = CurvePoint(*values)
        if normalized(point.p_end, point.p_continue) is not None:
            curves.setdefault(key, []).append(point)
    return curves


def _rows_at_boundaries(
    conn: sqlite3.Connection, columns: str, table: str, config_hash: str, ids: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """Yields (conversation id, columns) of the boundaries of these conversations under a configuration, in order."""
    query = f"SELECT conversation_id, {columns} FROM {table} WHERE config_hash = ? AND conversation_id IN"
    yield from rows_in(conn, query, ids, (config_hash,), "ORDER BY conversation_id, message")


# What is generated


_LAST_GENERATED_ENDS = (
    "SELECT conversation_id, ends FROM generated_end AS e WHERE config_hash = ?1 AND message ="
    " (SELECT max(message) FROM generated_end WHERE config_hash = ?1"
    " AND conversation_id = e.conversation_id) ORDER BY conversation_id"
)
"""(conversation_id, ends) of the last boundary of every conversation for which it is known."""


def add_generated_ends(
    conn: sqlite3.Connection, config_hash: str, rows: Iterable[tuple[int, int, bool]]
) -> None:
    """Stores what is generated at scored boundaries.

    Args:
        rows: Conversation id, index of the boundary's message, whether the end is generated there.
    """
    conn.executemany(
        "INSERT INTO generated_end (conversation_id, config_hash, message, ends) VALUES (?, ?, ?, ?)",
        [(key, config_hash, message, int(ends)) for key, message, ends in rows],
    )


def generated_curves(
    conn: sqlite3.Connection, config_hash: str, ids: Sequence[int]
) -> dict[int, dict[int, float | None]]:
    """Returns whether the end is generated, 1 or 0, by conversation and index of the message.

    Conversations for which nothing is known are left out.
    """
    curves: dict[int, dict[int, float | None]] = {}
    rows = _rows_at_boundaries(conn, "message, ends", "generated_end", config_hash, ids)
    for key, message, ends in rows:
        curves.setdefault(key, {})[message] = float(ends)
    return curves


def generated_counts(conn: sqlite3.Connection, config_hash: str) -> tuple[int, int]:
    """Returns the numbers of conversations at whose last boundary the end is generated, and is not."""
    ends = [ends for _, ends in conn.execute(_LAST_GENERATED_ENDS, (config_hash,))]
    return sum(ends), len(ends) - sum(ends)


def ids_that_go_on(conn: sqlite3.Connection, config_hash: str) -> list[int]:
    """Returns the ids of the conversations at whose last boundary something else than the end is generated,
    ascending."""
    return [key for key, ends in conn.execute(_LAST_GENERATED_ENDS, (config_hash,)) if not ends]


# Remaining tasks


def add_remaining(
    conn: sqlite3.Connection,
    config_hash: str,
    score_config_hash: str,
    run_id: int,
    entries: Sequence[RemainingTasks],
) -> None:
    """Stores remaining tasks generated under `config_hash` for scores of `score_config_hash`."""
    conn.executemany(
        "INSERT INTO remaining (conversation_id, config_hash, score_config_hash, run_id, text, reason)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                tasks.conversation_id,
                config_hash,
                score_config_hash,
                run_id,
                tasks.text,
                tasks.reason,
            )
            for tasks in entries
        ],
    )


def ids_with_remaining(conn: sqlite3.Connection, config_hash: str) -> set[int]:
    """Returns the ids of the conversations that have remaining tasks, or a reason for none, under a configuration."""
    rows = conn.execute(
        "SELECT conversation_id FROM remaining WHERE config_hash = ?", (config_hash,)
    )
    return {row[0] for row in rows}


def forget_no_remaining(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes the reasons why there are no remaining tasks under a configuration."""
    conn.execute(
        "DELETE FROM remaining WHERE config_hash = ? AND reason IS NOT NULL", (config_hash,)
    )


def current_remaining(conn: sqlite3.Connection, conversation_id: int) -> RemainingTasks | None:
    """Returns the newest remaining tasks that belong to the current score of a conversation; None without any."""
    row = conn.execute(
        "SELECT text, reason FROM remaining WHERE conversation_id = ?"
        " AND score_config_hash = ? ORDER BY run_id DESC LIMIT 1",
        (conversation_id, score_sets.hash_in_force(conn)),
    ).fetchone()
    return None if row is None else RemainingTasks(conversation_id, *row)
