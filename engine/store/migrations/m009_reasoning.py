"""The ninth migration: the reasoning of a message. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m009_reasoning(conn: sqlite3.Connection) -> None:
    """Adds what a model thought before it wrote a message, which no other model reads; NULL where there is none."""
    conn.execute("ALTER TABLE message ADD COLUMN reasoning TEXT")
