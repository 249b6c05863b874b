"""Finds and stores the text that the conversations of a project share, and makes openings without it.

An *opening* is the beginning of a conversation that lists show. Shared text is found in a sample when an import ends;
messages stay as they were imported. Vectors keep the shared text that was left out when they were made, so that later
ones are made alike.
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
"""Number of conversations in which shared text is looked for."""

OPENING_CHARS = 300

_KEY = "shared_text"
"""Setting: text that the conversations share, as the last import found it; with a hash, what some vectors left out."""

_COUNT = "of"
"""Key in the setting of shared text: the number of conversations that there were when the text was found."""


def stored(conn: sqlite3.Connection) -> SharedText:
    """Returns the shared text as the last import found it."""
    return _read(conn, _KEY)


def is_current(conn: sqlite3.Connection) -> bool:
    """Returns whether shared text was looked for since the last conversation came."""
    return bool(settings.get(conn, _KEY, {}).get(_COUNT) == _count(conn))


def put(conn: sqlite3.Connection, shared: SharedText) -> None:
    """Stores the shared text of the project, with the number of conversations that there are."""
    settings.put(conn, _KEY, {**shared.as_json(), _COUNT: _count(conn)})


def of_vectors(conn: sqlite3.Connection, config_hash: str) -> SharedText:
    """Returns the shared text that was left out when the vectors of a configuration were made."""
    return _read(conn, f"{_KEY}:{config_hash}")


def put_of_vectors(conn: sqlite3.Connection, config_hash: str, left_out: SharedText) -> None:
    """Stores the shared text that is left out when the vectors of a configuration are made."""
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
    """Returns the texts of a conversation that are compared, by role, as models see them."""
    texts: dict[Role, list[str]] = {role: [] for role in ROLES}
    for role, content in conn.execute(
        "SELECT role, coalesce(model_view, content) FROM message WHERE id BETWEEN ? AND ?"
        f" AND role IN ({placeholders(ROLES)}) AND NOT hidden ORDER BY id",
        (*message_ids(conversation_id), *ROLES),
    ):
        texts[role].append(without_markup(content))
    return texts


def opening(messages: Iterable[tuple[Role, str]], shared: SharedText) -> str:
    """Returns the beginning of the first message of the user that says more than what is shared, without what is
    shared.

    If there is none, or nothing is shared, it is the beginning of the user's first message; without a user, of the
    first message.
    """
    first_of_user = first_of_others = None
    for role, content in messages:
        if role != "user":
            first_of_others = content if first_of_others is None else first_of_others
            continue
        content = without_markup(content)
        unshared = shared.without("user", content)
        if unshared.strip() or not shared:
            return unshared[:OPENING_CHARS]
        first_of_user = content if first_of_user is None else first_of_user
    if first_of_user is None:
        first_of_user = without_markup(first_of_others or "")
    return first_of_user[:OPENING_CHARS]


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
    """Returns the number of conversations."""
    return int(conn.execute("SELECT count(*) FROM conversation").fetchone()[0])


def _read(conn: sqlite3.Connection, key: str) -> SharedText:
    """Returns the shared text that is stored as a setting; `NOTHING_SHARED` where nothing is stored."""
    row = conn.execute("SELECT value FROM setting WHERE key = ?", (key,)).fetchone()
    return NOTHING_SHARED if row is None else _parsed(row[0])


@lru_cache(maxsize=8)
def _parsed(value: str) -> SharedText:
    """Returns the shared text of a stored JSON text. It is cached, because texts are read one by one, and each shared
    text makes its windows once."""
    return SharedText.from_json(json.loads(value))
