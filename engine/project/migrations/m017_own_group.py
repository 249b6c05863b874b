"""The seventeenth migration: no second goal is a conversation's own group. A released migration is never edited."""

from __future__ import annotations

import sqlite3

_VIEWS = ("conversation_goal", "conversation_table")

_CHANGES = (
    (
        "json_extract(o.value, '$[1]'), 0",
        "sum(json_extract(o.value, '$[1]')), 0",
    ),
    (
        "JOIN json_each(a.others) AS o",
        """JOIN json_each(a.others) AS o
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        LEFT JOIN goal_group AS own ON own.clustering_id = a.clustering_id AND own.group_id =
            CASE WHEN v.conversation_id IS NULL THEN a.group_id ELSE v.group_id END""",
    ),
    ("AND a.others <> '[]'", "AND a.others <> '[]' AND g.current IS NOT own.current"),
    (
        ") AS r JOIN goal_label",
        "GROUP BY a.conversation_id, g.current) AS r JOIN goal_label",
    ),
)
"""Parts of the views' text, as they are and as they become. Groups that were merged are one second goal, of the sum of
their shares."""


def m017_own_group(conn: sqlite3.Connection) -> None:
    """Leaves the group that an assigned conversation is in, by a merge or a move, out of its second goals."""
    texts = []
    for name in _VIEWS:
        (text,) = conn.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        for old, new in _CHANGES:
            text = text.replace(old, new)
        texts.append(text)
    for name in reversed(_VIEWS):
        conn.execute(f"DROP VIEW {name}")
    for text in texts:
        conn.execute(text)
