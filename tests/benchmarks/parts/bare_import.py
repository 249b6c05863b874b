"""The baseline of the import: `json.loads` and `executemany` into the same tables and index, and nothing else.

It has no format detection, checks, duplicates, leak guard or progress, and one transaction. This SQL is outside the
store because the store is compared with it; no other part of the program uses it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

from engine.project.sql import MESSAGE_BITS


def bare_import(project: Path, source: Path) -> tuple[int, float]:
    """Fills an empty project file from JSON Lines in the uniform form.

    Returns:
        Messages stored, and seconds from the first byte read to the end of the commit.
    """
    conn = sqlite3.connect(project, isolation_level=None)
    try:
        # the settings of engine.project.project
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        conn.execute("PRAGMA foreign_keys = ON")
        conn.execute("PRAGMA secure_delete = OFF")
        start = time.perf_counter()
        conn.execute("BEGIN IMMEDIATE")
        conn.execute(
            "INSERT INTO source (id, place, label, format, why) VALUES (1, 'bare', 'bare', 'uniform', '')"
        )
        count = _fill(conn, source)
        conn.execute("COMMIT")
        return count, time.perf_counter() - start
    finally:
        conn.close()


def _fill(conn: sqlite3.Connection, source: Path) -> int:
    conversations: list[tuple[Any, ...]] = []
    originals: list[tuple[Any, ...]] = []
    messages: list[tuple[Any, ...]] = []
    truths: list[tuple[Any, ...]] = []
    with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as file:
        for key, line in enumerate(file, start=1):
            record = json.loads(line)
            digest = hashlib.sha256(line).digest()
            found = record["messages"]
            conversations.append((key, record["id"], digest, len(found), len(line), key))
            originals.append((key, line))
            for index, message in enumerate(found):
                calls = message.get("tool_calls")
                text = message["content"]
                messages.append(
                    (
                        key << MESSAGE_BITS | index,
                        key,
                        index,
                        message["role"],
                        message.get("name"),
                        text if isinstance(text, str) else json.dumps(text),
                        json.dumps(calls) if calls else None,
                    )
                )
            if record.get("truth") is not None:
                truths.append((key, json.dumps(record["truth"])))
    conn.executemany(
        "INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars,"
        " meta, line) VALUES (?, 1, ?, ?, '', ?, 0, ?, '{}', ?)",
        conversations,
    )
    conn.executemany("INSERT INTO original (conversation_id, raw) VALUES (?, ?)", originals)
    conn.executemany(
        "INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, hidden)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
        messages,
    )
    conn.execute(
        "INSERT INTO message_fts (rowid, content, tool_calls) SELECT id, content, tool_calls FROM message"
    )
    conn.executemany("INSERT INTO truth (conversation_id, truth) VALUES (?, ?)", truths)
    return len(messages)
