"""What was looked for in each conversation after its import: language, personal data, near duplicates.

What was found is in the index of facets, under the keys below. `conversation_check` says which conversations were
looked at, and keeps what near duplicates are found by.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.conversations.check_counts import CheckCounts
from engine.conversations.personal_data import Kind
from engine.conversations.tables import facets
from engine.project.idset import IdSet, read_ids
from engine.project.sql import message_ids, placeholders

_CLEARED = (facets.LANGUAGE, facets.PERSONAL, facets.COPIES)


@dataclass(frozen=True, slots=True)
class CheckEntry:
    """What was found in one conversation.

    Attributes:
        language: Code of its language; None where it is not clear.
        signature: MinHash of its text, as it is stored.
    """

    conversation_id: int
    language: str | None
    personal: frozenset[Kind]
    signature: bytes


def unchecked(conn: sqlite3.Connection) -> array[int]:
    """Ids of the conversations that were not looked at in their present text, ascending."""
    return read_ids(
        conn,
        "SELECT id FROM conversation WHERE id NOT IN"
        " (SELECT conversation_id FROM conversation_check) ORDER BY id",
    )


def texts(conn: sqlite3.Connection, conversation_id: int) -> list[tuple[str, str, str]]:
    """(role, content, calls as JSON) of every message of a conversation, in order."""
    return conn.execute(
        "SELECT role, content, coalesce(tool_calls, '') FROM message WHERE id BETWEEN ? AND ? ORDER BY id",
        message_ids(conversation_id),
    ).fetchall()


def put(conn: sqlite3.Connection, entries: Sequence[CheckEntry]) -> None:
    """Stores what was found in conversations that were not looked at yet."""
    conn.executemany(
        "INSERT INTO conversation_check (conversation_id, signature) VALUES (?, ?)",
        [(one.conversation_id, one.signature) for one in entries],
    )
    facets.add(
        conn,
        [
            (
                one.conversation_id,
                [
                    *((facets.PERSONAL, kind) for kind in sorted(one.personal)),
                    *([(facets.LANGUAGE, one.language)] if one.language else ()),
                ],
            )
            for one in entries
        ],
    )


def signatures(conn: sqlite3.Connection) -> tuple[array[int], bytes]:
    """Ids of the conversations with a signature, ascending, and their signatures one after another."""
    rows = conn.execute(
        "SELECT conversation_id, signature FROM conversation_check WHERE signature <> x'' ORDER BY 1"
    )
    ids, joined = array("q"), bytearray()
    for key, signature in rows:
        ids.append(key)
        joined += signature
    return ids, bytes(joined)


def put_copies(conn: sqlite3.Connection, groups: Iterable[Sequence[int]]) -> None:
    """Stores the groups of near duplicates in the place of those before; a group is named by its lowest id."""
    _delete(conn, (facets.COPIES,))
    for group in groups:
        facets.add(conn, [(key, [(facets.COPIES, str(min(group)))]) for key in group])


def forget(conn: sqlite3.Connection, conversation_id: int) -> None:
    """Forgets what was found in a conversation, whose text is about to change."""
    _delete(conn, _CLEARED, conversation_id)
    conn.execute("DELETE FROM conversation_check WHERE conversation_id = ?", (conversation_id,))


def counts(conn: sqlite3.Connection, key: str) -> list[tuple[str, int]]:
    """The values of a key of a check with the number of conversations that have it, the most frequent first."""
    return facets.values(conn, key, IdSet.every(conn), -1)


def checked(conn: sqlite3.Connection) -> int:
    """How many conversations were looked at."""
    return int(conn.execute("SELECT count(*) FROM conversation_check").fetchone()[0])


def found(conn: sqlite3.Connection) -> CheckCounts | None:
    """What all checks found together; None if no conversation was looked at."""
    looked_at = checked(conn)
    if not looked_at:
        return None
    languages = dict(counts(conn, facets.LANGUAGE))
    copies = [count for _, count in counts(conn, facets.COPIES)]
    unclear = looked_at - sum(languages.values())
    return CheckCounts(
        languages | ({"": unclear} if unclear > 0 else {}),
        dict(counts(conn, facets.PERSONAL)),
        sum(copies),
        len(copies),
    )


def _delete(
    conn: sqlite3.Connection, keys: Sequence[str], conversation_id: int | None = None
) -> None:
    of_one = "" if conversation_id is None else " AND conversation_id = ?"
    conn.execute(
        "DELETE FROM conversation_facet WHERE facet_id IN"
        f" (SELECT id FROM facet WHERE key IN ({placeholders(keys)})){of_one}",
        (*keys, *(() if conversation_id is None else (conversation_id,))),
    )
