"""The text that the conversations of a project share, and openings without it.

It is found in a sample when an import ends. Messages stay as they were imported; openings of conversations follow it.
Vectors keep the shared text that was left out when they were made, so that later ones are made alike.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache

from engine.base.conversation import Role
from engine.base.text import without_markup
from engine.conversations.shared_text import (
    NOTHING_SHARED,
    ROLES,
    SharedText,
    Texts,
    find_shared_text,
)
from engine.project import settings
from engine.project.sql import message_ids, placeholders

SAMPLE = 300
"""Conversations that are compared."""
OPENING_CHARS = 300
"""Characters of the opening that lists show."""

_KEY = "shared_text"
"""Setting: text that the conversations share, as the last import found it; with a hash, what some vectors left out."""
_OF = "of"


def stored(conn: sqlite3.Connection) -> SharedText:
    """Returns the shared text as the last import found it."""
    return _read(conn, _KEY)


def is_current(conn: sqlite3.Connection) -> bool:
    """Returns whether it was looked for since the last conversation came."""
    return bool(settings.get(conn, _KEY, {}).get(_OF) == _count(conn))


def put(conn: sqlite3.Connection, shared: SharedText) -> None:
    """Stores the shared text of the project, with the number of conversations that there are."""
    settings.put(conn, _KEY, {**shared.as_json(), _OF: _count(conn)})


def of_vectors(conn: sqlite3.Connection, config_hash: str) -> SharedText:
    """Returns what was left out of the texts of these vectors."""
    return _read(conn, f"{_KEY}:{config_hash}")


def put_of_vectors(conn: sqlite3.Connection, config_hash: str, left_out: SharedText) -> None:
    """Stores what is left out of the texts of these vectors."""
    settings.put(conn, f"{_KEY}:{config_hash}", left_out.as_json())


def find(conn: sqlite3.Connection) -> SharedText:
    """Looks for shared text in `SAMPLE` conversations: those with the lowest hashes, so the order of import does not
    matter."""
    keys = [
        row[0]
        for row in conn.execute("SELECT id FROM conversation ORDER BY hash LIMIT ?", (SAMPLE,))
    ]
    return find_shared_text(_texts(conn, key) for key in keys)


def _texts(conn: sqlite3.Connection, conversation_id: int) -> Texts:
    """Yields the texts of messages from which shared text is found."""
    texts: dict[Role, list[str]] = {role: [] for role in ROLES}
    for role, content in conn.execute(
        "SELECT role, coalesce(model_view, content) FROM message WHERE id BETWEEN ? AND ?"
        f" AND role IN ({placeholders(ROLES)}) AND NOT hidden ORDER BY id",
        (*message_ids(conversation_id), *ROLES),
    ):
        texts[role].append(without_markup(content))
    return texts


def opening(messages: Iterable[tuple[Role, str]], shared: SharedText) -> str:
    """Returns the beginning of the first message of the user that says more than what is shared.

    If there is none, of the user's first message; without a user, of the first message.
    """
    of_user = first_text = None
    for role, content in messages:
        if role != "user":
            first_text = content if first_text is None else first_text
            continue
        content = without_markup(content)
        if not shared:
            return content[:OPENING_CHARS]
        rest = shared.without("user", content)
        if rest.strip():
            return rest[:OPENING_CHARS]
        of_user = content if of_user is None else of_user
    return (of_user if of_user is not None else without_markup(first_text or ""))[:OPENING_CHARS]


def renew_openings(conn: sqlite3.Connection, ids: Sequence[int], shared: SharedText) -> None:
    """Computes and stores the openings of these conversations again."""
    for key in ids:
        rows = conn.execute(
            "SELECT role, content FROM message WHERE id BETWEEN ? AND ? ORDER BY id",
            message_ids(key),
        )
        text = opening(rows, shared)
        conn.execute(
            "UPDATE conversation SET opening = ?1 WHERE id = ?2 AND opening <> ?1", (text, key)
        )


def _count(conn: sqlite3.Connection) -> int:
    return int(conn.execute("SELECT count(*) FROM conversation").fetchone()[0])


def _read(conn: sqlite3.Connection, key: str) -> SharedText:
    row = conn.execute("SELECT value FROM setting WHERE key = ?", (key,)).fetchone()
    return NOTHING_SHARED if row is None else _parsed(row[0])


@lru_cache(maxsize=8)
def _parsed(value: str) -> SharedText:
    """Kept, for texts are read one by one, and the windows are made once."""
    return SharedText.from_json(json.loads(value))
