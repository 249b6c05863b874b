"""Simulated conversations (plays), each with its result, and the results of those that were imported."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from engine.conversations.tables.conversations import truth_by_record
from engine.model.chat import Role
from engine.project.sql import to_json
from engine.simulate.play import StoredPlay
from engine.simulate.result_tables import FilledForm, ScoredPlay

_COUNTS = {"form", "length", "required", "optional", "turns", "repetitions"}
"""Keys by which truth is known to be of a filled form."""


def register(
    conn: sqlite3.Connection, config_hash: str, kind: str, models: Mapping[Role, str]
) -> None:
    """Records a setting before its first play, with the label of the model of each role."""
    conn.execute(
        "INSERT INTO play_config (config_hash, kind, models) VALUES (?, ?, ?)"
        " ON CONFLICT (config_hash) DO NOTHING",
        (config_hash, kind, to_json(models)),
    )


def add(conn: sqlite3.Connection, config_hash: str, run_id: int, play: StoredPlay) -> None:
    """Stores a play; one of the same setting and key that broke off is replaced."""
    conn.execute(
        "INSERT INTO play (config_hash, run_id, key, conversation_id, reason, result)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (config_hash, key) DO UPDATE SET"
        " run_id = excluded.run_id, conversation_id = excluded.conversation_id,"
        " reason = excluded.reason, result = excluded.result",
        (config_hash, run_id, play.key, play.conversation_id, play.reason, to_json(play.result)),
    )


def plays(conn: sqlite3.Connection, config_hash: str) -> dict[str, StoredPlay]:
    """Returns the plays of a setting by their keys."""
    rows = conn.execute(
        "SELECT key, conversation_id, reason, result FROM play WHERE config_hash = ?",
        (config_hash,),
    )
    return {
        key: StoredPlay(key, conversation_id, reason, json.loads(result))
        for key, conversation_id, reason, result in rows
    }


def filled_forms(conn: sqlite3.Connection, config_hash: str | None = None) -> list[FilledForm]:
    """Returns every form that was filled: those that were played, then those that were imported, whose result is their
    truth; or those of one setting."""
    rows = conn.execute(
        "SELECT conversation_id, models, result FROM play JOIN play_config USING (config_hash)"
        " WHERE kind = 'forms' AND reason IS NULL AND config_hash = coalesce(?, config_hash)"
        " ORDER BY play.id",
        (config_hash,),
    ).fetchall()
    forms = [
        FilledForm(json.loads(models)["assistant"], json.loads(result))
        for _, models, result in rows
    ]
    if config_hash is None:
        played_conversations = {conversation_id for conversation_id, *_ in rows}
        forms += [
            FilledForm(str(truth.get("assistant_model", "unknown")), truth)
            for conversation_id, truth in truth_by_record(conn)
            if conversation_id not in played_conversations and truth.keys() >= _COUNTS
        ]
    return forms


def scores(conn: sqlite3.Connection, config_hash: str | None = None) -> list[ScoredPlay]:
    """Returns the scores in the truth of all records, or of the plays of one setting: 0 where there is null, because no
    answer was attempted."""
    if config_hash is None:
        results = [truth for _, truth in truth_by_record(conn)]
    else:
        ended = (play for play in plays(conn, config_hash).values() if play.reason is None)
        results = [dict(play.result) for play in ended]
    runs: list[ScoredPlay] = []
    for result in results:
        score, instruction = result.get("score", ...), result.get("task_id")
        if instruction is not None and isinstance(score, int | float | None):
            names_of_run = ("task", "condition", "assistant_model")
            task, condition, model = (str(result.get(name, "unknown")) for name in names_of_run)
            runs.append(ScoredPlay(task, condition, model, str(instruction), float(score or 0)))
    return runs
