"""Stores simulated conversations (*plays*), each with its result, and reads the results of those that were imported.

A *setting* is what a simulation was run with; plays of one setting can be compared.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from engine.conversations.tables.conversations import truth_by_record
from engine.model.chat import Role
from engine.project.sql import to_json
from engine.simulate.play import StoredPlay
from engine.simulate.result_tables import FilledForm, ScoredPlay

_FORM_KEYS = {"form", "length", "required", "optional", "turns", "repetitions"}
"""A truth that has all of these keys is that of a filled form."""


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
    """Returns the filled forms of a setting; without one those of all settings, then those that were imported, whose
    result is the truth of their record.

    Args:
        config_hash: Key of a setting; None for all, and what was imported.
    """
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
            if conversation_id not in played_conversations and truth.keys() >= _FORM_KEYS
        ]
    return forms


def scores(conn: sqlite3.Connection, config_hash: str | None = None) -> list[ScoredPlay]:
    """Returns the scores of the plays of a setting, or those in the truth of all records. A score of null, where no
    answer was attempted, counts as 0.

    Args:
        config_hash: Key of a setting; None for the truth of all records.
    """
    if config_hash is None:
        results = [truth for _, truth in truth_by_record(conn)]
    else:
        ended = (play for play in plays(conn, config_hash).values() if play.reason is None)
        results = [dict(play.result) for play in ended]
    scored: list[ScoredPlay] = []
    for result in results:
        if "score" not in result or result.get("task_id") is None:
            continue
        if isinstance(score := result["score"], int | float | None):
            label_names = ("task", "condition", "assistant_model")
            task, condition, model = (str(result.get(name, "unknown")) for name in label_names)
            instruction = str(result["task_id"])
            scored.append(ScoredPlay(task, condition, model, instruction, float(score or 0)))
    return scored
