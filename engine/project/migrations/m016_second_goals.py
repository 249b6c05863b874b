"""The sixteenth migration: what a person said of second goals. A released migration is never edited."""

from __future__ import annotations

import sqlite3

from engine.project.migrations import m011_one_query as m011

_JUDGED = f"""(SELECT n.kind FROM second_goal AS n
            JOIN goal_group AS b ON b.clustering_id = n.clustering_id AND b.group_id = n.group_id
            WHERE n.clustering_id = {m011._SHOWN} AND n.conversation_id = q.conversation_id
            AND b.current = q.group_id AND n.kind <> 'undo'
            AND NOT EXISTS (SELECT 1 FROM second_goal AS u WHERE u.target = n.id)
            ORDER BY n.id DESC LIMIT 1)"""


def _goals(of: str = "") -> str:
    """As in the eleventh migration, without what was removed; `confirmed` is 1 where a person confirmed a second goal,
    else 0."""
    return f"""SELECT conversation_id, group_id, goal, share, main, judged IS 'confirm' AS confirmed
        FROM (SELECT q.*, CASE WHEN q.main = 0 THEN {_JUDGED} END AS judged
            FROM ({m011._goals(of)}) AS q)
        WHERE judged IS NOT 'remove'"""


_OF_C = _goals("conversation_id = c.id")


def m016_second_goals(conn: sqlite3.Connection) -> None:
    """Adds the acts on second goals, and leaves removed ones out of the views."""
    table = m011._CONVERSATION_TABLE.replace(m011._OF_C, _OF_C)
    table = table.replace(
        "json_object('goal', goal, 'share', share)",
        "json_object('goal', goal, 'share', share,"
        " 'confirmed', json(CASE confirmed WHEN 1 THEN 'true' ELSE 'false' END))",
    ).replace("SELECT goal, share FROM (", "SELECT goal, share, confirmed FROM (")
    for statement in (
        # group_id: as it was called then; target: the act that an undo takes back
        """CREATE TABLE second_goal (
            id INTEGER PRIMARY KEY,
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            group_id TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('confirm', 'remove', 'undo')),
            target INTEGER REFERENCES second_goal (id),
            annotator TEXT NOT NULL,
            given_at TEXT NOT NULL,
            CHECK ((kind = 'undo') = (target IS NOT NULL))
        ) STRICT""",
        "CREATE INDEX second_goal_by_conversation ON second_goal (clustering_id, conversation_id)",
        "CREATE INDEX second_goal_by_target ON second_goal (target) WHERE target IS NOT NULL",
        "DROP VIEW conversation_table",
        "DROP VIEW conversation_goal",
        f"CREATE VIEW conversation_goal AS {_goals()}",
        table,
    ):
        conn.execute(statement)
