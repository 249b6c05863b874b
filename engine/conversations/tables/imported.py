"""Under which ids conversations were imported: each once, with the duplicates that it stands for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from engine.formats.records import Duplicate, Imported
from engine.project.sql import chunks, placeholders


def names(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Returns the ids in their sources of these conversations, by id; ids that are not there are left out."""
    result: dict[int, str] = {}
    for keys in chunks(ids):
        query = f"SELECT id, external_id FROM conversation WHERE id IN ({placeholders(keys)})"
        result.update(conn.execute(query, tuple(keys)).fetchall())
    return result


def imported(conn: sqlite3.Connection, ids: Sequence[int]) -> Iterator[Imported]:
    """The ids of these conversations in their sources, in their order; ids that are not there are left out."""
    for keys in chunks(ids):
        chosen, values = placeholders(keys), tuple(keys)
        names = {
            key: (external_id, label)
            for key, external_id, label in conn.execute(
                "SELECT c.id, c.external_id, source.label FROM conversation AS c"
                f" JOIN source ON source.id = c.source_id WHERE c.id IN ({chosen})",
                values,
            )
        }
        duplicates: dict[int, list[Duplicate]] = {}
        for key, external_id, label in conn.execute(
            "SELECT a.conversation_id, a.external_id, source.label FROM alias AS a"
            f" JOIN source ON source.id = a.source_id WHERE a.conversation_id IN ({chosen})"
            " ORDER BY a.id",
            values,
        ):
            duplicates.setdefault(key, []).append(Duplicate(external_id, label))
        for key in keys:
            if key in names:
                yield Imported(key, *names[key], tuple(duplicates.get(key, ())))
