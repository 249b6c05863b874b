"""The quarantine: records that could not be imported, with their bytes and the reason."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

from engine.conversations.records import QuarantineRow
from engine.formats.records import Rejected


def add(conn: sqlite3.Connection, source_id: int, records: Sequence[Rejected]) -> int:
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


def rows(conn: sqlite3.Connection, after: int = 0, limit: int = 200) -> list[QuarantineRow]:
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


def count(conn: sqlite3.Connection, label: str | None = None) -> int:
    """How many records could not be imported, of one source or of all."""
    row = conn.execute(
        "SELECT count(*) FROM quarantine WHERE ? IS NULL"
        " OR source_id IN (SELECT id FROM source WHERE label = ?)",
        (label, label),
    ).fetchone()
    return int(row[0])
