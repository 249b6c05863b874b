"""Reads and stores the settings of a project, which are JSON values by name, and its id.

The id of a project is made when the file is first opened for writing. Files beside the project, such as training runs,
name their project by it. A project file that is renamed, moved or copied keeps its id; a new project of the same name
has another id.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from typing import Any

from engine.project.sql import to_json

PROJECT_ID = "project_id"
"""Setting: the id of the project, 32 hexadecimal digits."""


def get(conn: sqlite3.Connection, key: str, default: Any = None) -> Any:
    """Returns the value stored under `key`, or `default`."""
    row = conn.execute("SELECT value FROM setting WHERE key = ?", (key,)).fetchone()
    if row is None:
        return default
    (text,) = row
    return json.loads(text)


def put(conn: sqlite3.Connection, key: str, value: Any) -> None:
    """Stores a JSON value under `key`, in place of the one before."""
    conn.execute(
        "INSERT INTO setting (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, to_json(value)),
    )


def project_id(conn: sqlite3.Connection) -> str | None:
    """Returns the id of the project; None before the file is first opened for writing."""
    value: str | None = get(conn, PROJECT_ID)
    return value


def ensure_project_id(conn: sqlite3.Connection) -> None:
    """Gives the project an id if it has none."""
    if project_id(conn) is None:
        put(conn, PROJECT_ID, uuid.uuid4().hex)
