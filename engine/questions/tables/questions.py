"""The questions of a project, and who has answered them."""

from __future__ import annotations

import sqlite3

from engine.questions.question import Question, parse_question, read_built_in, tag_question


def names(conn: sqlite3.Connection) -> list[str]:
    """Returns the names of all questions that can be asked or were answered, in alphabetical order."""
    # an answer that undoes another has no question; a probe fitted to answers has its question as `subject`
    rows = conn.execute(
        "SELECT name FROM question UNION SELECT DISTINCT question FROM answer WHERE question <> ''"
        " UNION SELECT question FROM answerer UNION SELECT subject FROM taught"
    )
    return sorted({*read_built_in(), *(name for (name,) in rows)})


def answered(conn: sqlite3.Connection) -> list[str]:
    """Returns the names of the questions that people or machines answered, in alphabetical order."""
    rows = conn.execute(
        "SELECT DISTINCT question FROM answer WHERE question <> '' UNION SELECT question FROM answerer"
    )
    return sorted(name for (name,) in rows)


def get(conn: sqlite3.Connection, name: str) -> Question:
    """Returns the question of one of `names`: the project's own, else that of the program, else a tag."""
    if (text := definition(conn, name)) is not None:
        return parse_question(name, text)
    return read_built_in().get(name) or tag_question(name)


def definition(conn: sqlite3.Connection, name: str) -> str | None:
    """Returns the file of a question of the project; None where it has none of this name."""
    row = conn.execute("SELECT definition FROM question WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def put(conn: sqlite3.Connection, name: str, definition: str) -> None:
    """Stores a question as its file defines it, in place of one of its name."""
    conn.execute("INSERT OR REPLACE INTO question VALUES (?, ?)", (name, definition))


def remove(conn: sqlite3.Connection, name: str) -> bool:
    """Takes a question out of the project, and says whether it was there; its answers stay."""
    return conn.execute("DELETE FROM question WHERE name = ?", (name,)).rowcount > 0


def answerer_names(conn: sqlite3.Connection, question: str) -> list[str]:
    """Returns the names of those who answered a question, in alphabetical order: people, of whom one may have the empty
    name, then patterns, models and files."""
    rows = conn.execute(
        "SELECT DISTINCT annotator AS name, 0 AS is_machine FROM answer WHERE question = ? UNION ALL"
        " SELECT DISTINCT name, 1 FROM answerer WHERE question = ? ORDER BY is_machine, name",
        (question, question),
    )
    return [name for name, _ in rows]
