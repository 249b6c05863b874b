"""The sources of imports: where each was read from, the report of what was read, and its *quarantine*, the records that
could not be read."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Sequence

from engine.conversations.records import QuarantineRow
from engine.formats.records import Rejected
from engine.project.sql import rows_in


def put_source(conn: sqlite3.Connection, place: str, label: str, format: str, why: str) -> int:
    """Returns the id of the source at a place, which is stored if it is new.

    Args:
        place: Absolute path of a file, or the label of what is no file.
        label: What the source is called.
        format: Name of the format in which it is read.
        why: Why this format was detected, in words.
    """
    conn.execute(
        "INSERT INTO source (place, label, format, why) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (place) DO NOTHING",
        (place, label, format, why),
    )
    row = conn.execute("SELECT id FROM source WHERE place = ?", (place,)).fetchone()
    return int(row[0])


def ids_at(conn: sqlite3.Connection, places: Sequence[str]) -> set[int]:
    """Returns the ids of the sources at these places; places from which nothing was imported have none."""
    return {row[0] for row in rows_in(conn, "SELECT id FROM source WHERE place IN", places)}


def report_of(conn: sqlite3.Connection, source_id: int, digest: bytes) -> str | None:
    """Returns the report of a source that was read to its end with this digest, as JSON; None if it was not."""
    row = conn.execute(
        "SELECT report FROM source_read WHERE source_id = ? AND digest = ?", (source_id, digest)
    ).fetchone()
    return None if row is None else str(row[0])


def reports(conn: sqlite3.Connection) -> list[str]:
    """Returns the reports of all sources that were read to their end, as JSON, in the order of the first imports."""
    return [row[0] for row in conn.execute("SELECT report FROM source_read ORDER BY source_id")]


def put_report(conn: sqlite3.Connection, source_id: int, digest: bytes, report: str) -> None:
    """Stores the report, as JSON, of a source that was read to its end with this digest."""
    conn.execute(
        "INSERT OR REPLACE INTO source_read (source_id, digest, report) VALUES (?, ?, ?)",
        (source_id, digest, report),
    )


def labels(conn: sqlite3.Connection) -> list[str]:
    """Returns the labels of the sources, each once, in the order of the first imports."""
    return list(
        dict.fromkeys(row[0] for row in conn.execute("SELECT label FROM source ORDER BY id"))
    )


def put_rejected(conn: sqlite3.Connection, source_id: int, records: Sequence[Rejected]) -> None:
    """Stores those of the records that could not be read which are not stored yet."""
    conn.executemany(
        "INSERT INTO quarantine (digest, source_id, line, reason, raw) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (digest) DO UPDATE SET reason = excluded.reason",
        [
            (rejected_digest(source_id, record), source_id, record.line, record.reason, record.raw)
            for record in records
        ],
    )


def rejected_digest(source_id: int, record: Rejected) -> bytes:
    """Returns what stands for a record in the quarantine: the SHA-256 of its source, its line and its bytes."""
    return hashlib.sha256(f"{source_id}:{record.line}:".encode() + record.raw).digest()


def keep_rejected(conn: sqlite3.Connection, source_id: int, digests: Collection[bytes]) -> None:
    """Takes from the quarantine the records of a source that was read to its end but those with these digests, since
    the others were read now, or are not in the source any more."""
    stored = conn.execute("SELECT digest FROM quarantine WHERE source_id = ?", (source_id,))
    conn.executemany(
        "DELETE FROM quarantine WHERE digest = ?",
        [(digest,) for (digest,) in stored.fetchall() if digest not in digests],
    )


def quarantine_rows(conn: sqlite3.Connection, limit: int) -> list[QuarantineRow]:
    """Returns the first `limit` records of the quarantine, in id order."""
    return [
        QuarantineRow(source, line, reason, bytes(raw))
        for source, line, reason, raw in conn.execute(
            "SELECT source.label, line, reason, raw FROM quarantine"
            " JOIN source ON source.id = source_id ORDER BY quarantine.id LIMIT ?",
            (limit,),
        )
    ]


def count_quarantined(conn: sqlite3.Connection) -> int:
    """Returns the number of records in the quarantine."""
    return int(conn.execute("SELECT count(*) FROM quarantine").fetchone()[0])
