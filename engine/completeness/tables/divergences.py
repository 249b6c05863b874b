"""KL(base || fine-tuned), in bits, at every boundary of conversations."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Sequence

from engine.completeness.records.divergences import Divergence
from engine.project import settings
from engine.project.sql import chunks, placeholders, to_json

_KEY = "divergence_config"
"""Setting: the hash of the divergences that are shown."""


def register(conn: sqlite3.Connection, config_hash: str, model: str, adapter: str) -> None:
    """Stores a configuration, before its first rows, and puts it in force: filters, orders and lists show it."""
    conn.execute(
        "INSERT OR IGNORE INTO divergence_config (config_hash, model, adapter) VALUES (?, ?, ?)",
        (config_hash, model, adapter),
    )
    settings.put(conn, _KEY, config_hash)


def in_force(conn: sqlite3.Connection) -> str | None:
    """The config hash of the latest run; None before any."""
    found: str | None = settings.get(conn, _KEY)
    return found


def add(
    conn: sqlite3.Connection,
    config_hash: str,
    run_id: int,
    entries: Sequence[tuple[int, Divergence]],
) -> None:
    """Stores divergences by conversation under a registered configuration, none of which is stored yet."""
    conn.executemany(
        "INSERT INTO divergence (config_hash, conversation_id, run_id, mean, curve, reason)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (config_hash, key, run_id, one.mean, to_json(one.curve), one.reason)
            for key, one in entries
        ],
    )


def ids_without(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Ids of the conversations without a row under a configuration, in order."""
    rows = conn.execute(
        "SELECT id FROM conversation WHERE NOT EXISTS (SELECT 1 FROM divergence"
        " WHERE config_hash = ? AND conversation_id = conversation.id) ORDER BY id",
        (config_hash,),
    )
    return array("q", (row[0] for row in rows))


def means(
    conn: sqlite3.Connection, wanted: Sequence[int], config_hash: str | None = None
) -> dict[int, float]:
    """Mean divergence in bits by conversation, under a configuration, by default the one in force; those without one
    are absent."""
    found: dict[int, float] = {}
    config = config_hash or in_force(conn)
    for keys in chunks(wanted) if config is not None else ():
        found.update(
            conn.execute(
                "SELECT conversation_id, mean FROM divergence WHERE config_hash = ? AND mean IS NOT NULL"
                f" AND conversation_id IN ({placeholders(keys)})",
                (config, *keys),
            )
        )
    return found


def ends(
    conn: sqlite3.Connection, wanted: Sequence[int], config_hash: str
) -> list[tuple[float, float | None]]:
    """For each of these conversations that has a curve the divergence at its last boundary, and the mean at the earlier
    ones; None where there is no earlier one."""
    found = []
    for keys in chunks(wanted):
        rows = conn.execute(
            "SELECT (SELECT value ->> 1 FROM json_each(curve) ORDER BY key DESC LIMIT 1),"
            " mean, json_array_length(curve) FROM divergence WHERE config_hash = ? AND mean IS NOT NULL"
            f" AND conversation_id IN ({placeholders(keys)})",
            (config_hash, *keys),
        )
        found += [
            (last, (mean * count - last) / (count - 1) if count > 1 else None)
            for last, mean, count in rows
        ]
    return found
