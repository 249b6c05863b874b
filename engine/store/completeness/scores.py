"""Completeness scores: one for each conversation and configuration, with the curve behind it."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.records.interval import Interval
from engine.records.scores import (
    CurvePoint,
    DecisionRule,
    EndingTest,
    RemainingRow,
    ScoredId,
    ScoreRow,
    ScoreSet,
    SetMode,
)
from engine.store import settings
from engine.store.completeness import generated_ends
from engine.store.sql import chunks, id_pages, placeholders, snapshot, to_json

NO_PROBABILITY = "the model gives neither an end nor a continuation any probability"


@dataclass(frozen=True, slots=True)
class ScoreConfig:
    """What produced a set of scores.

    Attributes:
        noise: Largest change of a probability seen on the model when the batch size changes; None if not measured.
            Of a probe: mean spread of the scores between repeats of the fit.
        test: Out-of-fold test of a probe; None for other modes, and where no conversation can be cut.
    """

    config_hash: str
    mode: SetMode
    model: str
    adapter: str | None = None
    noise: float | None = None
    test: EndingTest | None = None


@dataclass(frozen=True, slots=True)
class BoundaryEntry:
    """Probabilities at one boundary; `message`, `step` and `turn` as in `engine.records.conversations.CurvePoint`."""

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


@dataclass(frozen=True, slots=True)
class RemainingEntry:
    """What a model says is left to do; `reason` says why when `text` is empty."""

    conversation_id: int
    text: str
    reason: str | None = None


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


def register(conn: sqlite3.Connection, config: ScoreConfig) -> None:
    """Stores a configuration, before its first scores; a noise measured later replaces None."""
    conn.execute(
        "INSERT INTO score_config (config_hash, mode, model, adapter, noise, test)"
        " VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (config_hash) DO UPDATE SET noise = coalesce(excluded.noise, noise)",
        (
            config.config_hash,
            config.mode,
            config.model,
            config.adapter,
            config.noise,
            None if config.test is None else to_json(asdict(config.test)),
        ),
    )


def configs(conn: sqlite3.Connection) -> list[ScoreConfig]:
    """Configurations that have scores, in the order in which they were first run."""
    rows = conn.execute(
        "SELECT g.config_hash, g.mode, g.model, g.adapter, g.noise, g.test FROM score_config AS g"
        " LEFT JOIN (SELECT config_hash, min(id) AS first FROM run GROUP BY config_hash)"
        " USING (config_hash) WHERE EXISTS (SELECT 1 FROM score WHERE config_hash = g.config_hash)"
        " ORDER BY first, config_hash"
    )
    return [_config(row) for row in rows]


def is_stored(conn: sqlite3.Connection, config_hash: str) -> bool:
    """Whether a configuration has scores."""
    row = conn.execute("SELECT 1 FROM score WHERE config_hash = ? LIMIT 1", (config_hash,))
    return row.fetchone() is not None


def config_in_force(conn: sqlite3.Connection) -> ScoreConfig | None:
    """The configuration of the scores that are shown; None before any scoring."""
    now = settings.score_config(conn)
    return None if now is None else _registered(conn, now)


def _registered(conn: sqlite3.Connection, config_hash: str) -> ScoreConfig | None:
    row = conn.execute(
        "SELECT config_hash, mode, model, adapter, noise, test FROM score_config"
        " WHERE config_hash = ?",
        (config_hash,),
    ).fetchone()
    return None if row is None else _config(row)


def sets(conn: sqlite3.Connection) -> list[ScoreSet]:
    """All sets of scores, in the order in which they were first made."""
    now = settings.score_config(conn)
    provisional = settings.get(conn, settings.PROVISIONAL)
    return [
        ScoreSet(
            number=number,
            config_hash=config.config_hash,
            mode=config.mode,
            model=config.model,
            adapter=config.adapter,
            scored=_scored(conn, config.config_hash),
            test=config.test,
            in_force=config.config_hash == now,
            provisional=config.config_hash == provisional,
        )
        for number, config in enumerate(configs(conn), 1)
    ]


def put_in_force_unless_another_is(conn: sqlite3.Connection, config_hash: str) -> None:
    """Puts a registered set in force where no other set is.

    It also replaces an older set of its kind (mode, model and adapter) once it has as many scores. Sets of another
    kind are replaced only when a person chooses: `settings.switch_score_config`.
    """
    now, new = config_in_force(conn), _registered(conn, config_hash)
    if new is None:
        return
    if (
        now is None
        or not is_stored(conn, now.config_hash)
        or (
            _kind(now) == _kind(new)
            and _scored(conn, config_hash) >= _scored(conn, now.config_hash)
        )
    ):
        settings.put_score_config(conn, config_hash)


def mark_provisional(conn: sqlite3.Connection, config_hash: str) -> None:
    """Marks a set as provisional, until `drop_provisional` or until a person puts it in force."""
    settings.put(conn, settings.PROVISIONAL, config_hash)


def drop_provisional(conn: sqlite3.Connection) -> None:
    """Deletes the set that is marked as provisional, unless it is in force or has remaining tasks; the run stays."""
    key = settings.get(conn, settings.PROVISIONAL)
    if key is None or key == settings.score_config(conn):
        return
    written = conn.execute("SELECT 1 FROM remaining WHERE score_config_hash = ? LIMIT 1", (key,))
    if written.fetchone() is None:
        drop(conn, key)
    settings.put(conn, settings.PROVISIONAL, None)


def drop(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes a set of scores and the remaining tasks written for it; the run stays."""
    conn.execute("DELETE FROM remaining WHERE score_config_hash = ?", (config_hash,))
    for table in ("boundary_score", "score", "score_config"):
        conn.execute(f"DELETE FROM {table} WHERE config_hash = ?", (config_hash,))


def _kind(config: ScoreConfig) -> tuple[str, str, str | None]:
    """Mode, model without the format that it was tuned to, adapter."""
    return config.mode, config.model.partition(" (")[0], config.adapter


def _scored(conn: sqlite3.Connection, config_hash: str) -> int:
    """Number of conversations with a score."""
    (count,) = conn.execute(
        "SELECT count(*) FROM score WHERE config_hash = ? AND p_end_normalised IS NOT NULL",
        (config_hash,),
    ).fetchone()
    return int(count)


def _config(row: tuple[Any, ...]) -> ScoreConfig:
    key, mode, model, adapter, noise, test = row
    found = None if test is None else _test(json.loads(test))
    return ScoreConfig(key, mode, model, adapter, noise, found)


def _test(value: dict[str, Any]) -> EndingTest:
    matched = value["matched"]  # a bare number in the first version of the probe
    return EndingTest(
        **{
            **value,
            "auroc": Interval(**value["auroc"]),
            "matched": Interval(**matched) if isinstance(matched, dict) else None,
        }
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
        (config_hash, settings.rule(conn, config_hash).threshold),
    )
    return array("q", (row[0] for row in rows))


def add_remaining(
    conn: sqlite3.Connection,
    config_hash: str,
    score_config_hash: str,
    run_id: int,
    entries: Sequence[RemainingEntry],
) -> None:
    """Stores remaining tasks generated under `config_hash` for scores of `score_config_hash`."""
    conn.executemany(
        "INSERT INTO remaining (conversation_id, config_hash, score_config_hash, run_id, text, reason)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (e.conversation_id, config_hash, score_config_hash, run_id, e.text, e.reason)
            for e in entries
        ],
    )


def ids_without_remaining(
    conn: sqlite3.Connection, config_hash: str, score_config_hash: str
) -> array[int]:
    """Ids of conversations below the threshold without remaining tasks under `config_hash`; in id order."""
    have = {
        row[0]
        for row in conn.execute(
            "SELECT conversation_id FROM remaining WHERE config_hash = ?", (config_hash,)
        )
    }
    return array("q", (i for i in below_threshold(conn, score_config_hash) if i not in have))


def remaining(conn: sqlite3.Connection, conversation_id: int) -> RemainingRow | None:
    """The newest remaining tasks that belong to the current score."""
    row = conn.execute(
        "SELECT config_hash, text, reason FROM remaining WHERE conversation_id = ?"
        " AND score_config_hash = ? ORDER BY run_id DESC LIMIT 1",
        (conversation_id, settings.score_config(conn)),
    ).fetchone()
    return None if row is None else RemainingRow(conversation_id, *row)


def score(conn: sqlite3.Connection, conversation_id: int) -> ScoreRow | None:
    """The current score of one conversation."""
    return current(conn, [conversation_id]).get(conversation_id)


def current(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, ScoreRow]:
    """The current scores of these conversations, by id; those without one are absent."""
    found: dict[int, ScoreRow] = {}
    with snapshot(conn):
        config = settings.score_config(conn)
        rule = settings.rule(conn)
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
) -> Iterator[ScoredId]:
    """One line for each imported id; a duplicate has its own id and the score of the conversation that is kept.

    Args:
        wanted: Ids of conversations, in the order of the result; None for all, in the order of import.
    """
    with snapshot(conn):
        for page in id_pages(conn, wanted):
            scored = current(conn, page)
            for conversation_id, external_id, source in imported_ids(conn, page):
                yield ScoredId(external_id, source, scored.get(conversation_id))


def imported_ids(conn: sqlite3.Connection, ids: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """(id, external id, source) for everything imported as these conversations, in their order, duplicates after
    the conversation that is kept.

    The same external id of one conversation is given once, whatever number of files it came from.
    """
    place = {key: nth for nth, key in enumerate(ids)}
    rows = conn.execute(
        "SELECT n.conversation_id, n.external_id, source.label FROM ("
        " SELECT id AS conversation_id, external_id, source_id, 0 AS nth FROM conversation"
        f" WHERE id IN ({placeholders(ids)}) UNION ALL"
        " SELECT conversation_id, external_id, source_id, id AS nth FROM alias"
        f" WHERE conversation_id IN ({placeholders(ids)})"
        ") AS n JOIN source ON source.id = n.source_id ORDER BY n.conversation_id, n.nth",
        (*ids, *ids),
    ).fetchall()
    seen: set[tuple[int, str]] = set()
    for conversation_id, external_id, label in sorted(rows, key=lambda row: place[row[0]]):
        if (conversation_id, external_id) not in seen:
            seen.add((conversation_id, external_id))
            yield conversation_id, external_id, label
