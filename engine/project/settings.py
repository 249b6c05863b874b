"""Settings of a project: JSON values by name."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from typing import Any

from engine.completeness.records.scores import DecisionRule
from engine.project.sql import to_json

RULE = "rule"
"""Setting: the decision rule of the scores in force: `threshold`, `band`, `source` (`workbench calibrate`)."""

OTHER_RULES = "rules"
"""Setting: the decision rules of sets of scores that are not in force, by config hash."""

SCORES = "score_config"
"""Setting: the config hash of the scores in force (`workbench scores`)."""

PROVISIONAL = "provisional_scores"
"""Setting: the config hash of scores that go once others replace them."""

UNFINISHED = "unfinished_scores"
"""Setting: the config hash of a set of which only some scores are stored; it is shown nowhere until it has all."""


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


def rule(conn: sqlite3.Connection, config_hash: str | None = None) -> DecisionRule:
    """The decision rule of a set of scores; None is the set in force."""
    if config_hash in (None, score_config(conn)) or score_config(conn) is None:
        return DecisionRule(**get(conn, RULE, {}))
    return DecisionRule(**get(conn, OTHER_RULES, {}).get(config_hash, {}))


def put_rule(conn: sqlite3.Connection, new: DecisionRule) -> None:
    """Changes the decision rule; states follow at once, because they are derived when read.

    Raises:
        ValueError: the threshold is outside [0, 1] or the band is negative.
    """
    if not 0 <= new.threshold <= 1 or new.band < 0:
        raise ValueError(f"not a decision rule: {new}")
    put(conn, RULE, asdict(new))


def score_config(conn: sqlite3.Connection) -> str | None:
    """The config hash of the scores that are shown; None before any scoring."""
    value: str | None = get(conn, SCORES)
    return value


def put_score_config(conn: sqlite3.Connection, config_hash: str) -> None:
    """Puts a set of scores in force, under the decision rule of the one that it replaces."""
    put(conn, SCORES, config_hash)


def switch_score_config(conn: sqlite3.Connection, config_hash: str) -> None:
    """Puts another set of scores in force, each with its own decision rule: a threshold fits one set only.

    A set that a person puts in force is no longer provisional.
    """
    if get(conn, PROVISIONAL) == config_hash:
        put(conn, PROVISIONAL, None)
    before = score_config(conn)
    if before in (None, config_hash):
        put_score_config(conn, config_hash)
        return
    rules = {**get(conn, OTHER_RULES, {}), before: asdict(rule(conn))}
    put(conn, RULE, rules.pop(config_hash, {}))
    put(conn, OTHER_RULES, rules)
    put_score_config(conn, config_hash)
