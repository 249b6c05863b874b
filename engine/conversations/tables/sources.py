"""The files and streams that conversations came from, and what was found when each was read to its end."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from engine.project.sql import chunks, placeholders


def put(conn: sqlite3.Connection, place: str, label: str, format: str, why: str) -> int:
    """The id of the source at `place`, recorded if it is new."""
    conn.execute(
        "INSERT INTO source (place, label, format, why) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (place) DO NOTHING",
        (place, label, format, why),
    )
    row = conn.execute("SELECT id FROM source WHERE place = ?", (place,)).fetchone()
    return int(row[0])


def ids(conn: sqlite3.Connection, places: Sequence[str]) -> set[int]:
    """The ids of those of the places from which something was imported."""
    found: set[int] = set()
    for some in chunks(places):
        rows = conn.execute(f"SELECT id FROM source WHERE place IN ({placeholders(some)})", some)
        found.update(row[0] for row in rows)
    return found


def read_before(conn: sqlite3.Connection, source_id: int, digest: bytes) -> str | None:
    """The report of a source that was read to its end when it had this digest; None if it was not."""
    row = conn.execute(
        "SELECT report FROM source_read WHERE source_id = ? AND digest = ?", (source_id, digest)
    ).fetchone()
    return None if row is None else str(row[0])


def reports(conn: sqlite3.Connection) -> list[str]:
    """The reports of all sources that were read to their end, as JSON, in the order of the first imports."""
    return [row[0] for row in conn.execute("SELECT report FROM source_read ORDER BY source_id")]


def put_read(conn: sqlite3.Connection, source_id: int, digest: bytes, report: str) -> None:
    """Records that a source with this digest was read to its end."""
    conn.execute(
        "INSERT OR REPLACE INTO source_read (source_id, digest, report) VALUES (?, ?, ?)",
        (source_id, digest, report),
    )


def labels(conn: sqlite3.Connection) -> list[str]:
    """Labels of the sources, in order of import."""
    return list(
        dict.fromkeys(row[0] for row in conn.execute("SELECT label FROM source ORDER BY id"))
    )
