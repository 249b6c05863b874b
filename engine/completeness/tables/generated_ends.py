"""Decisions by what is generated, as Soroka et al. take them: whether the most probable text at a boundary is the end
tag. They stand beside the probabilities of `scores`, by the same config hash."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from engine.project.sql import chunks, placeholders


def add(conn: sqlite3.Connection, config_hash: str, rows: Iterable[tuple[int, int, bool]]) -> None:
    """Stores (conversation id, index of the boundary's message, whether the end tag is generated) of scored
    boundaries."""
    conn.executemany(
        "INSERT INTO generated_end (conversation_id, config_hash, message, ends) VALUES (?, ?, ?, ?)",
        [(key, config_hash, message, int(ends)) for key, message, ends in rows],
    )


def values(
    conn: sqlite3.Connection, config_hash: str, wanted: Sequence[int]
) -> dict[int, dict[int, float | None]]:
    """Decisions by conversation id and index of the boundary's message: 1 where the end tag is generated, else 0;
    conversations without decisions are left out."""
    found: dict[int, dict[int, float | None]] = {}
    for keys in chunks(wanted):
        for key, message, ends in conn.execute(
            "SELECT conversation_id, message, ends FROM generated_end"
            f" WHERE config_hash = ? AND conversation_id IN ({placeholders(keys)})"
            " ORDER BY conversation_id, message",
            (config_hash, *keys),
        ):
            found.setdefault(key, {})[message] = float(ends)
    return found


_LAST = (
    "SELECT conversation_id, ends FROM generated_end AS e WHERE config_hash = ?1 AND message ="
    " (SELECT max(message) FROM generated_end WHERE config_hash = ?1"
    " AND conversation_id = e.conversation_id) ORDER BY conversation_id"
)


def counts(conn: sqlite3.Connection, config_hash: str) -> tuple[int, int]:
    """Number of conversations at whose end the end tag is generated, and is not."""
    ends = [ends for _, ends in conn.execute(_LAST, (config_hash,))]
    return sum(ends), len(ends) - sum(ends)


def at_end(conn: sqlite3.Connection, config_hash: str, wanted: Sequence[int]) -> dict[int, bool]:
    """Whether the end tag is generated at the end of these conversations; those where it is not known are absent."""
    found = values(conn, config_hash, wanted)
    return {key: bool(curve[max(curve)]) for key, curve in found.items()}


def goes_on(
    conn: sqlite3.Connection, config_hash: str, *, without_remaining: str | None = None
) -> list[int]:
    """Ids of the conversations at whose end something else than the end tag is generated, in order.

    Args:
        without_remaining: Config hash of remaining tasks; conversations that have some under it are left out.
    """
    have = {
        key
        for (key,) in conn.execute(
            "SELECT conversation_id FROM remaining WHERE config_hash = ?", (without_remaining,)
        )
    }
    ended = conn.execute(_LAST, (config_hash,))
    return [key for key, ends in ended if not ends and key not in have]
