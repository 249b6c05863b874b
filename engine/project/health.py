"""Checks the features of SQLite and the integrity of a project file."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass

from engine.project import runs
from engine.project.project import Project
from engine.project.write_lock import is_running

_MAX_PROBLEMS = 5
"""Number of problems at which SQLite stops looking for more."""


@dataclass(frozen=True, slots=True)
class SQLiteFacts:
    """The SQLite library that Python uses.

    Attributes:
        version: Its version.
        full_text: Whether it has full-text search (FTS5).
        strict: Whether it has strict tables.
    """

    version: str
    full_text: bool
    strict: bool


@dataclass(frozen=True, slots=True)
class ProjectHealth:
    """Result of checking a project file.

    Attributes:
        conversations: Number of conversations.
        problems: At most `_MAX_PROBLEMS` messages of SQLite's `quick_check`; empty for a sound file.
        interrupted: Names of the stages whose runs were interrupted and not resumed.
    """

    conversations: int
    problems: tuple[str, ...]
    interrupted: tuple[str, ...]


def sqlite_facts() -> SQLiteFacts:
    """Returns the features of SQLite that a project file needs; tries them in a database in memory."""
    conn = sqlite3.connect(":memory:")
    try:
        full_text = _works(conn, "CREATE VIRTUAL TABLE words USING fts5 (text)")
        strict = _works(conn, "CREATE TABLE typed (id INTEGER PRIMARY KEY) STRICT")
    finally:
        conn.close()
    return SQLiteFacts(sqlite3.sqlite_version, full_text, strict)


def examine(path: str | os.PathLike[str]) -> ProjectHealth:
    """Returns what reading a whole project file finds; the file is not changed.

    Raises:
        ProjectError: The file cannot be opened as a project, or is too damaged to be read through.
    """
    with Project.open(path, read_only=True) as project, project.reading() as conn:
        messages = [message for (message,) in conn.execute(f"PRAGMA quick_check({_MAX_PROBLEMS})")]
        problems = tuple(message for message in messages if message != "ok")
        (conversations,) = conn.execute("SELECT count(*) FROM conversation").fetchone()
        interrupted = [row.stage for row in runs.interrupted(conn)]
        # A run that is marked as running, but whose process is gone, was interrupted too.
        interrupted += [
            stage
            for stage, pid in conn.execute("SELECT stage, pid FROM run WHERE state = 'running'")
            if not is_running(pid)
        ]
    return ProjectHealth(conversations, problems, tuple(interrupted))


def _works(conn: sqlite3.Connection, statement: str) -> bool:
    """Returns whether SQLite can run a statement."""
    try:
        conn.execute(statement)
    except sqlite3.OperationalError:
        return False
    return True
