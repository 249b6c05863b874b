"""Completeness scores: one for each conversation and configuration, with the curve behind it."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.conversation import State
from engine.completeness.records import CurvePoint, DecisionRule, ScoreRow
from engine.completeness.tables import generated_ends, score_sets
from engine.conversations.tables.conversations import imported
from engine.formats.records import Imported
from engine.project.sql import chunks, id_pages, placeholders, snapshot

NO_PROBABILITY = "the model gives neither an end nor a continuation any probability"


@dataclass(frozen=True, slots=True)
class BoundaryEntry:
    """Probabilities at one boundary; `message`, `step` and `turn` as in `engine.conversations.records.CurvePoint`."""

    message: int
    step: int
    turn: int
    p_end: float
    p_continue: float


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """The result for one conversation: its boundaries in order, the last of which is its score.

    Attributes:
        boundaries: Empty when the conversation is unscored.
        reason: Why it is unscored, or what is special about the score; required when there are no boundaries.
        tokens: Tokens the model read for it.
    """

    conversation_id: int
    boundaries: tuple[BoundaryEntry, ...]
    reason: str | None
    tokens: int


def normalised(p_end: float, p_continue: float) -> float | None:
    """`p_end / (p_end + p_continue)`, or None where both are zero and there is no honest number."""
    total = p_end + p_continue
    return p_end / total if total > 0 else None


def state_sql(rule: DecisionRule, column: str = "s.p_end_normalised") -> tuple[str, list[float]]:
    """`DecisionRule.state` as an SQL expression over a column, with its parameters."""
    return (
        f"CASE WHEN {column} IS NULL THEN 'unscored'"
        f" WHEN abs({column} - ?) < ? THEN 'borderline'"
        f" WHEN {column} >= ? THEN 'complete' ELSE 'incomplete' END",
        [rule.threshold, rule.band, rule.threshold],
    )


def add(
    conn: sqlite3.Connection, config_hash: str, run_id: int, entries: Sequence[ScoreEntry]
) -> None:
    """Stores a batch of scores of a registered configuration, none of which is stored yet.

    Raises:
        ValueError: an unscored entry without a reason.
    """
    score_rows: list[tuple[Any, ...]] = []
    curve_rows: list[tuple[Any, ...]] = []
    for entry in entries:
        p_end = p_continue = score = None
        reason = entry.reason
        if entry.boundaries:
            last = entry.boundaries[-1]
            p_end, p_continue = last.p_end, last.p_continue
            score = normalised(p_end, p_continue)
            if score is None:
                reason = NO_PROBABILITY
        elif not reason:
            raise ValueError(f"conversation {entry.conversation_id} is unscored without a reason")
        score_rows.append(
            (
                entry.conversation_id,
                config_hash,
                run_id,
                p_end,
                p_continue,
                score,
                reason,
                entry.tokens,
            )
        )
        curve_rows.extend(
            (entry.conversation_id, config_hash, b.message, b.step, b.turn, b.p_end, b.p_continue)
            for b in entry.boundaries
        )
    conn.executemany(
        "INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue,"
        " p_end_normalised, reason, tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        score_rows,
    )
    conn.executemany(
        "INSERT INTO boundary_score (conversation_id, config_hash, message, step, turn, p_end,"
        " p_continue) VALUES (?, ?, ?, ?, ?, ?, ?)",
        curve_rows,
    )


def ids_without_score(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Ids of the conversations that have no score, nor a reason for none, under a configuration; in id order."""
    rows = conn.execute(
        "SELECT id FROM conversation WHERE NOT EXISTS (SELECT 1 FROM score"
        " WHERE conversation_id = id AND config_hash = ?) ORDER BY id",
        (config_hash,),
    )
    return array("q", (row[0] for row in rows))


def below_threshold(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Ids of the conversations whose score under a configuration is below the threshold; in id order."""
    rows = conn.execute(
        "SELECT conversation_id FROM score WHERE config_hash = ? AND p_end_normalised < ?"
        " ORDER BY conversation_id",
        (config_hash, score_sets.rule(conn, config_hash).threshold),
    )
    return array("q", (row[0] for row in rows))


def score(conn: sqlite3.Connection, conversation_id: int) -> ScoreRow | None:
    """The current score of one conversation."""
    return current(conn, [conversation_id]).get(conversation_id)


def current(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, ScoreRow]:
    """The current scores of these conversations, by id; those without one are absent."""
    found: dict[int, ScoreRow] = {}
    with snapshot(conn):
        config = score_sets.score_config(conn)
        rule = score_sets.rule(conn)
        for keys in chunks(ids):
            curves = _curves(conn, config, keys)
            ends = generated_ends.at_end(conn, config or "", keys)
            for row in conn.execute(
                "SELECT s.conversation_id, s.run_id, s.reason, s.p_end, s.p_end_normalised,"
                " g.mode, g.model, g.adapter, g.noise"
                " FROM score AS s JOIN score_config AS g USING (config_hash)"
                f" WHERE s.config_hash = ? AND s.conversation_id IN ({placeholders(keys)})",
                (config, *keys),
            ):
                found[row[0]] = ScoreRow(
                    conversation_id=row[0],
                    config_hash=config or "",
                    run_id=row[1],
                    state=rule.state(row[4]),
                    reason=row[2],
                    p_end=row[3],
                    p_end_normalised=row[4],
                    curve=tuple(curves.get(row[0], ())),
                    mode=row[5],
                    model=row[6],
                    adapter=row[7],
                    noise=row[8],
                    generated=ends.get(row[0]),
                )
    return found


def _curves(
    conn: sqlite3.Connection, config: str | None, keys: Sequence[int]
) -> dict[int, list[CurvePoint]]:
    curves: dict[int, list[CurvePoint]] = {}
    for row in conn.execute(
        "SELECT conversation_id, message, step, turn, p_end, p_continue FROM boundary_score"
        f" WHERE config_hash = ? AND conversation_id IN ({placeholders(keys)})"
        " ORDER BY conversation_id, message",
        (config, *keys),
    ):
        share = normalised(row[4], row[5])
        if share is not None:
            point = CurvePoint(row[1], row[2], row[3], row[4], share)
            curves.setdefault(row[0], []).append(point)
    return curves


def values(
    conn: sqlite3.Connection, config_hash: str, wanted: Sequence[int]
) -> dict[int, dict[int, float | None]]:
    """Curves under a configuration: conversation id to (message index to normalised score).

    Conversations without a score are left out; the value is None where neither end nor continuation has a probability.
    """
    found: dict[int, dict[int, float | None]] = {}
    for keys in chunks(wanted):
        for key, message, p_end, p_continue in conn.execute(
            "SELECT conversation_id, message, p_end, p_continue FROM boundary_score"
            f" WHERE config_hash = ? AND conversation_id IN ({placeholders(keys)})"
            " ORDER BY conversation_id, message",
            (config_hash, *keys),
        ):
            found.setdefault(key, {})[message] = normalised(p_end, p_continue)
    return found


def states(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, State]:
    """Returns the state of each of these conversations under the scores and the rule in force."""
    rule, config = score_sets.rule(conn), score_sets.score_config(conn)
    scored = {} if config is None else last_values(conn, config, ids)
    return {key: rule.state(scored.get(key)) for key in ids}


def last_values(
    conn: sqlite3.Connection, config_hash: str, wanted: Sequence[int]
) -> dict[int, float]:
    """Normalised scores under a configuration, by conversation; those without one are left out."""
    found: dict[int, float] = {}
    for keys in chunks(wanted):
        found.update(
            conn.execute(
                "SELECT conversation_id, p_end_normalised FROM score WHERE config_hash = ?"
                " AND p_end_normalised IS NOT NULL"
                f" AND conversation_id IN ({placeholders(keys)})",
                (config_hash, *keys),
            ).fetchall()
        )
    return found


def export_scores(
    conn: sqlite3.Connection, wanted: Sequence[int] | None = None
) -> Iterator[tuple[Imported, ScoreRow | None]]:
    """Each conversation with its current score; None if no run has scored it.

    Args:
        wanted: Ids of conversations, in the order of the result; None for all, in the order of import.
    """
    with snapshot(conn):
        for page in id_pages(conn, wanted):
            scored = current(conn, page)
            for one in imported(conn, page):
                yield one, scored.get(one.conversation_id)
