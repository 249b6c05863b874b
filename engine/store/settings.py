"""Settings of a project: JSON values by name."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from typing import Any

from engine.records.scores import DecisionRule
from engine.store.sql import to_json


def get(conn: sqlite3.Connection, key: str, default: Any = None) -> Any:
    """The value stored under `key`, or `default`."""
    row = conn.execute("SELECT value FROM setting WHERE key = ?", (key,)).fetchone()
    return default if row is None else json.loads(row[0])


def put(conn: sqlite3.Connection, key: str, value: Any) -> None:
    """Stores a JSON value."""
    conn.execute(
        "INSERT INTO setting (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, to_json(value)),
    )


def rule(conn: sqlite3.Connection) -> DecisionRule:
    """The current decision rule."""
    return DecisionRule(**get(conn, "rule", {}))


def put_rule(conn: sqlite3.Connection, new: DecisionRule) -> None:
    """Changes the decision rule; states follow at once, because they are derived when read.

    Raises:
        ValueError: the threshold is outside [0, 1] or the band is negative.
    """
    if not 0 <= new.threshold <= 1 or new.band < 0:
        raise ValueError(f"not a decision rule: {new}")
    put(conn, "rule", asdict(new))


def score_config(conn: sqlite3.Connection) -> str | None:
    """The config hash of the scores that are shown; None before any scoring."""
    value: str | None = get(conn, "score_config")
    return value


def put_score_config(conn: sqlite3.Connection, config_hash: str) -> None:
    """Chooses which set of scores is shown."""
    put(conn, "score_config", config_hash)
