"""The files and streams that conversations came from, what was found when each was read to its end, and the quarantine:
records that could not be imported, with their bytes and the reason."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

from engine.conversations.records import QuarantineRow
from engine.formats.records import Rejected
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
    source_ids: set[int] = set()
    for some in chunks(places):
        rows = conn.execute(f"SELECT id FROM source WHERE place IN ({placeholders(some)})", some)
        source_ids.update(row[0] for row in rows)
    return source_ids


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


def quarantine(conn: sqlite3.Connection, source_id: int, records: Sequence[Rejected]) -> int:
    """Stores records that could not be read; returns how many of them are new."""
    before = conn.total_changes
    conn.executemany(
        "INSERT INTO quarantine (digest, source_id, line, reason, raw) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (digest) DO NOTHING",
        [
            (
                hashlib.sha256(f"{source_id}:{record.line}:".encode() + record.raw).digest(),
                source_id,
                record.line,
                record.reason,
                record.raw,
            )
            for record in records
        ],
    )
    return conn.total_changes - before


def quarantined(conn: sqlite3.Connection, after: int = 0, limit: int = 200) -> list[QuarantineRow]:
    """Records that could not be imported, in order, from behind the id `after` on."""
    return [
        QuarantineRow(row[0], row[1], row[2], row[3], bytes(row[4]))
        for row in conn.execute(
            "SELECT quarantine.id, source.label, line, reason, raw FROM quarantine"
            " JOIN source ON source.id = source_id WHERE quarantine.id > ?"
            " ORDER BY quarantine.id LIMIT ?",
            (after, limit),
        )
    ]


def quarantined_count(conn: sqlite3.Connection, label: str | None = None) -> int:
    """How many records could not be imported, of one source or of all."""
    row = conn.execute(
        "SELECT count(*) FROM quarantine WHERE ? IS NULL"
        " OR source_id IN (SELECT id FROM source WHERE label = ?)",
        (label, label),
    ).fetchone()
    return int(row[0])
