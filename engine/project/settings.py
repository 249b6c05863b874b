"""Reads and stores the settings of a project: JSON values by name."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from engine.project.sql import to_json


def get(conn: sqlite3.Connection, key: str, default: Any = None) -> Any:
    """Returns the value stored under `key`, or `default`."""
    row = conn.execute("SELECT value FROM setting WHERE key = ?", (key,)).fetchone()
    return default if row is None else json.loads(row[0])


def put(conn: sqlite3.Connection, key: str, value: Any) -> None:
    """Stores a JSON value under `key`, in place of the one before."""
    conn.execute(
        "INSERT INTO setting (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, to_json(value)),
    )
