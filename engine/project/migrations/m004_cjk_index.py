"""The fourth migration: search in Chinese and Japanese. A released migration is never edited."""

from __future__ import annotations

import sqlite3

from engine.project import cjk_index


def m004_signs(conn: sqlite3.Connection) -> None:
    """The full-text index of Chinese and Japanese characters, filled from the messages that are there."""
    cjk_index.create(conn)
    cjk_index.fill(conn)
