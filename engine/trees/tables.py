"""Stores response trees: their measures as columns, so that filters can ask for them, and each tree as compressed JSON.

The trees of one run configuration (`TreeConfig`) are a set, and one set is shown: the one that grew last. A row without
a tree has the reason why there is none. A frame is a tree as JSON values, see `engine.trees.tree.frame_of`."""

from __future__ import annotations

import json
import sqlite3
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from engine.conversations.filter_fields import FieldQuery, MatchTerm
from engine.conversations.filters import Term
from engine.conversations.tables.conversations import imported
from engine.conversations.tables.fields import number_condition, select_among
from engine.formats.records import Imported
from engine.project import settings
from engine.project.sql import IdSet, snapshot, to_json
from engine.trees.records import TreeConfig, TreeRow

_KEY = "tree_config"
"""Setting: the hash of the trees that are shown."""

_OF_CONFIG = ("alpha", "mode", "place", "model", "adapter")
"""The last fields of `TreeRow`, which the table `tree_config` holds."""

_OF_TREE = tuple(field.name for field in fields(TreeRow) if field.name not in _OF_CONFIG)
"""The other fields of `TreeRow`, which the table `tree` holds."""

_COLUMNS = ", ".join([*(f"t.{name}" for name in _OF_TREE), *(f"c.{name}" for name in _OF_CONFIG)])
"""The fields of `TreeRow` in their order, as columns of a query."""

_FROM = " FROM tree AS t JOIN tree_config AS c ON c.config_hash = t.config_hash"
"""The tables that `_COLUMNS` names: trees as `t`, configurations as `c`."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One tree to store: its row, whose config columns are ignored, and its frame; None when there is no tree."""

    row: TreeRow
    frame: dict[str, Any] | None


def register(conn: sqlite3.Connection, config: TreeConfig) -> None:
    """Stores a configuration, before its first trees, and makes it the one that is shown."""
    conn.execute(
        "INSERT INTO tree_config (config_hash, alpha, mode, place, model, adapter) VALUES"
        " (:config_hash, :alpha, :mode, :place, :model, :adapter) ON CONFLICT (config_hash) DO NOTHING",
        asdict(config),
    )
    settings.put(conn, _KEY, config.config_hash)


def chosen(conn: sqlite3.Connection) -> str | None:
    """Returns the config hash of the trees that are shown; None before any was grown."""
    value: str | None = settings.get(conn, _KEY)
    return value


def configs(conn: sqlite3.Connection) -> list[TreeConfig]:
    """Returns the configurations that have trees, oldest first."""
    rows = conn.execute(
        f"SELECT c.config_hash, c.alpha, c.mode, c.place, c.model, c.adapter{_FROM}"
        " WHERE t.packed IS NOT NULL GROUP BY c.config_hash ORDER BY min(t.id)"
    )
    return [TreeConfig(*row) for row in rows]


def ids_without_tree(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations that have neither a tree nor a reason for none under a configuration; in id
    order."""
    rows = conn.execute(
        "SELECT c.id FROM conversation AS c WHERE NOT EXISTS (SELECT 1 FROM tree AS t"
        " WHERE t.conversation_id = c.id AND t.config_hash = ?) ORDER BY c.id",
        (config_hash,),
    )
    return array("q", (row[0] for row in rows))


def add(conn: sqlite3.Connection, config_hash: str, entries: Sequence[TreeEntry]) -> None:
    """Stores trees of a registered configuration; one that exists is replaced."""
    conn.executemany(
        f"INSERT OR REPLACE INTO tree ({', '.join(_OF_TREE)}, packed)"
        f" VALUES ({', '.join(f':{name}' for name in _OF_TREE)}, :packed)",
        [
            {**asdict(entry.row), "config_hash": config_hash, "packed": _pack(entry.frame)}
            for entry in entries
        ],
    )


def _pack(frame: dict[str, Any] | None) -> bytes | None:
    """Returns a tree as compressed JSON, as the column `packed` holds it; None without a tree."""
    return None if frame is None else zlib.compress(to_json(frame).encode("ascii"))


def trees(
    conn: sqlite3.Connection, conversation_id: int, config_hash: str | None = None
) -> list[TreeRow]:
    """Returns the trees of one conversation under a configuration, by default the one that is shown, by step."""
    rows = conn.execute(
        f"SELECT {_COLUMNS}{_FROM} WHERE t.conversation_id = ? AND t.config_hash = ? ORDER BY t.step",
        (conversation_id, config_hash or chosen(conn)),
    )
    return [TreeRow(*row) for row in rows]


def frame(
    conn: sqlite3.Connection, conversation_id: int, step: int, config_hash: str | None = None
) -> dict[str, Any] | None:
    """Returns the frame of the tree at a step under a configuration, by default the one that is shown; None where there
    is no tree."""
    row = conn.execute(
        "SELECT packed FROM tree WHERE conversation_id = ? AND config_hash = ? AND step = ?",
        (conversation_id, config_hash or chosen(conn), step),
    ).fetchone()
    if row is None or row[0] is None:
        return None
    unpacked: dict[str, Any] = json.loads(zlib.decompress(row[0]))
    return unpacked


def export_trees(
    conn: sqlite3.Connection, ids: Sequence[int] | None = None
) -> Iterator[tuple[Imported, TreeRow, dict[str, Any] | None]]:
    """Yields the conversation, the row and the frame of every tree that is shown.

    The frame is None where there is a reason in place of a tree.

    Args:
        ids: Ids of the conversations, in the order of the result; None for all, in id order.
    """
    with snapshot(conn):
        config = chosen(conn)
        if ids is None:
            ids = [
                row[0]
                for row in conn.execute(
                    "SELECT DISTINCT conversation_id FROM tree WHERE config_hash = ?"
                    " ORDER BY conversation_id",
                    (config,),
                )
            ]
        for conversation in imported(conn, ids):
            for row in trees(conn, conversation.conversation_id):
                yield conversation, row, frame(conn, conversation.conversation_id, row.step)


def rows(conn: sqlite3.Connection, config_hash: str | None = None) -> list[TreeRow]:
    """Returns the rows of all trees under a configuration, by default the one that is shown, by conversation and
    step."""
    cursor = conn.execute(
        f"SELECT {_COLUMNS}{_FROM} WHERE t.config_hash = ? ORDER BY t.conversation_id, t.step",
        (config_hash or chosen(conn),),
    )
    return [TreeRow(*row) for row in cursor]


def seconds(conn: sqlite3.Connection, config_hash: str) -> float | None:
    """Returns the mean seconds that the trees of a conversation took under a configuration; None without any tree."""
    row = conn.execute(
        "SELECT sum(seconds) / count(DISTINCT conversation_id) FROM tree"
        " WHERE config_hash = ? AND packed IS NOT NULL",
        (config_hash,),
    ).fetchone()
    return None if row[0] is None else float(row[0])


def _measure_term(expression: str) -> MatchTerm:
    """Returns the condition on a measure of the trees of a conversation that are shown.

    Args:
        expression: The measure in SQL, over the rows of one conversation.
    """

    def condition(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
        inner = number_condition(expression, term)
        sql = (
            "SELECT conversation_id FROM tree WHERE config_hash = ? AND reason IS NULL"
            f" GROUP BY conversation_id HAVING {inner.text}"
        )
        return select_among(conn, among, sql, (chosen(conn), *inner.values))

    return condition


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "leaves": FieldQuery(_measure_term("max(leaves)")),
    "max_logprob": FieldQuery(_measure_term("min(max_log_prob)")),
    "entropy": FieldQuery(_measure_term("max(entropy)")),
}
"""Answers terms on the measures of trees, by the name of the field."""
