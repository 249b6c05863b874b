"""Writes and loads the samples of released schemas, SQL text that can be read and compared.

`python -m tests.engine.store.released.dump` writes the sample of the present schema. It is run once for each
schema, before its release, and its output is never edited or written again.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from engine.rows import Verdict
from engine.store import imports
from engine.store.migrations import SCHEMA
from engine.store.project import Project
from engine.store.triage import TriageStore
from tests.engine.store.support import Bad, fill, give_scores, talk, with_tools

INDEX = "message_fts"


def load(sample: Path, path: Path) -> None:
    """Makes a project file out of a sample."""
    conn = sqlite3.connect(path)
    conn.executescript(sample.read_text(encoding="utf-8"))
    conn.close()


def dump(path: Path) -> str:
    """A project file as SQL: marks, tables, rows, and the search index by its content."""
    conn = sqlite3.connect(path)
    lines = [
        f"PRAGMA application_id = {conn.execute('PRAGMA application_id').fetchone()[0]};",
        f"PRAGMA user_version = {conn.execute('PRAGMA user_version').fetchone()[0]};",
    ]
    objects = conn.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        f" AND name NOT LIKE '{INDEX}_%' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    lines += [f"{sql};" for _, _, sql in objects]
    for kind, name, _ in objects:
        if kind != "table" or name == INDEX:
            continue
        columns = [row[1] for row in conn.execute(f"PRAGMA table_info({name})")]
        quoted = " || ', ' || ".join(f"quote({column})" for column in columns)
        rows = conn.execute(f"SELECT {quoted} FROM {name} ORDER BY 1").fetchall()
        lines += [f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({row[0]});" for row in rows]
    lines.append(f"INSERT INTO {INDEX} ({INDEX}) VALUES ('rebuild');")
    conn.close()
    return "\n".join(lines) + "\n"


def sample_project(path: Path) -> None:
    """A small project with something in every table."""
    with Project.open(path, create=True) as project:
        fill(project, [talk("a", "I want a red bicycle", "Sold!", truth={"goal": "buy"})])
        fill(project, [with_tools("t"), talk("b", "Where is it?"), talk("a2", "Where is it?")], "b")
        project.write(lambda conn: imports.quarantine(conn, 2, [Bad(4, b"{\xff", "not JSON")]))
        give_scores(project, {1: 0.9, 2: None, 3: 0.2})
        triage = TriageStore(project)
        triage.give(1, Verdict.COMPLETE)
        triage.give(3, Verdict.INCOMPLETE, "no answer")
        triage.note(1, "taken back")
        triage.undo()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "p.wb"
        sample_project(made)
        target = Path(__file__).parent / f"schema_{SCHEMA}.sql"
        target.write_text(dump(made), encoding="utf-8", newline="\n")
