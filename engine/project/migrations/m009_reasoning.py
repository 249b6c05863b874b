"""The ninth migration: reasoning and facts of a message. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m009_reasoning(conn: sqlite3.Connection) -> None:
    """Adds what a model thought before it wrote a message, and what else the source says of it."""
    # reasoning: no model reads it; facts: JSON object, such as time, model and usage; both NULL where there is none
    conn.execute("ALTER TABLE message ADD COLUMN reasoning TEXT")
    conn.execute("ALTER TABLE message ADD COLUMN facts TEXT")
