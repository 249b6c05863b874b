"""Checks the features of SQLite and the integrity of a project file."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass

from engine.project import runs
from engine.project.file.lock import is_running
from engine.project.project import Project

_FINDINGS = 5


@dataclass(frozen=True, slots=True)
class SQLiteFacts:
    """Version and features of the SQLite library that Python uses."""

    version: str
    full_text: bool
    strict: bool


@dataclass(frozen=True, slots=True)
class ProjectHealth:
    """Result of checking a project file.

    Attributes:
        problems: At most five messages of SQLite's `quick_check`; empty for a sound file.
        interrupted: Names of the stages whose runs were interrupted and not resumed.
    """

    conversations: int
    problems: tuple[str, ...]
    interrupted: tuple[str, ...]


def sqlite_facts() -> SQLiteFacts:
    """Tries the features that the project file needs in a database in memory."""
    conn = sqlite3.connect(":memory:")
    try:
        full_text = _works(conn, "CREATE VIRTUAL TABLE words USING fts5 (text)")
        strict = _works(conn, "CREATE TABLE typed (id INTEGER PRIMARY KEY) STRICT")
    finally:
        conn.close()
    return SQLiteFacts(sqlite3.sqlite_version, full_text, strict)


def examine(path: str | os.PathLike[str]) -> ProjectHealth:
    """Reads a project file through without changing it.

    Raises:
        ProjectError: The file cannot be opened as a project, or is too damaged to be read through.
    """
    with Project.open(path, read_only=True) as project, project.reading() as conn:
        found = [row[0] for row in conn.execute(f"PRAGMA quick_check({_FINDINGS})")]
        problems = tuple(line for line in found if line != "ok")
        conversations = conn.execute("SELECT count(*) FROM conversation").fetchone()[0]
        left = [row.stage for row in runs.interrupted(conn)]
        left += [
            stage
            for stage, pid in conn.execute("SELECT stage, pid FROM run WHERE state = 'running'")
            if not is_running(pid)
        ]
    return ProjectHealth(conversations, problems, tuple(left))


def _works(conn: sqlite3.Connection, statement: str) -> bool:
    try:
        conn.execute(statement)
    except sqlite3.OperationalError:
        return False
    return True
