"""The eleventh migration: what filters ask for, and views of SQL. A released migration is never edited."""

from __future__ import annotations

import sqlite3

from engine.conversations.tables import facets
from engine.goals.tables import clusterings

_PAGE = 500

_CURRENT = (
    "coalesce((SELECT act.kind FROM verdict AS act WHERE act.target = v.id"
    " ORDER BY act.id DESC LIMIT 1), 'redo') = 'redo'"
)
_OF_THIS_TEXT = (
    "v.id > coalesce((SELECT max(e.verdict_id) FROM earlier_state AS e"
    " WHERE e.conversation_id = v.conversation_id), 0)"
)
_SHOWN = "(SELECT CAST(value AS INTEGER) FROM setting WHERE key = 'clustering')"
_SCORES = "(SELECT json_extract(value, '$') FROM setting WHERE key = 'score_config')"
_TREES = "(SELECT json_extract(value, '$') FROM setting WHERE key = 'tree_config')"
_TREE = "FROM tree AS t WHERE t.config_hash = " + _TREES + " AND t.conversation_id = c.id"
_THRESHOLD = (
    "coalesce((SELECT json_extract(value, '$.threshold') FROM setting WHERE key = 'rule'), 0.5)"
)
_BAND = "coalesce((SELECT json_extract(value, '$.band') FROM setting WHERE key = 'rule'), 0.1)"
_CLUSTER_GROUP = "CASE WHEN v.conversation_id IS NULL THEN 'c' || m.cluster ELSE v.group_id END"
_ASSIGNED_GROUP = "CASE WHEN v.conversation_id IS NULL THEN a.group_id ELSE v.group_id END"

_GOAL_LABEL = """CREATE VIEW goal_label AS
    SELECT g.clustering_id, g.group_id, coalesce(g.label, nullif(l.label, ''),
        (SELECT group_concat(value, ' · ') FROM (SELECT value FROM json_each(k.words) LIMIT 3)), '')
        AS label
    FROM goal_group AS g JOIN clustering ON clustering.id = g.clustering_id
    LEFT JOIN cluster AS k ON k.clustering_id = g.clustering_id
        AND k.number = CAST(substr(g.group_id, 2) AS INTEGER) AND substr(g.group_id, 1, 1) = 'c'
    LEFT JOIN cluster_label AS l ON l.clustering_id = k.clustering_id AND l.number = k.number
        AND l.config_hash = clustering.label_config
    WHERE g.current = g.group_id"""


def _goals(of: str = "") -> str:
    """The query (conversation_id, group_id, goal, share, main); `of` is a further condition on `conversation_id`."""
    return f"""
    SELECT r.conversation_id, r.group_id, l.label AS goal, r.share, r.main FROM (
        SELECT m.conversation_id, g.current AS group_id,
            1 - CASE WHEN other.current <> g.current THEN m.second_share ELSE 0 END AS share,
            1 AS main
        FROM membership AS m
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = m.clustering_id AND g.group_id = {_CLUSTER_GROUP}
        LEFT JOIN goal_group AS other ON other.clustering_id = m.clustering_id
            AND other.group_id = 'c' || m.second
        WHERE m.clustering_id = {_SHOWN}{of and f" AND m.{of}"}
        UNION ALL
        SELECT a.conversation_id, g.current, a.score, 1 FROM assignment AS a
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = a.clustering_id AND g.group_id = {_ASSIGNED_GROUP}
        WHERE a.clustering_id = {_SHOWN}{of and f" AND a.{of}"}
        UNION ALL
        SELECT m.conversation_id, other.current, m.second_share, 0 FROM membership AS m
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = m.clustering_id AND g.group_id = {_CLUSTER_GROUP}
        JOIN goal_group AS other ON other.clustering_id = m.clustering_id
            AND other.group_id = 'c' || m.second
        WHERE m.clustering_id = {_SHOWN} AND m.second_share >= 0.15 AND g.current <> other.current
            {of and f" AND m.{of}"}
        UNION ALL
        SELECT a.conversation_id, g.current, json_extract(o.value, '$[1]'), 0
        FROM assignment AS a JOIN json_each(a.others) AS o
        JOIN goal_group AS g ON g.clustering_id = a.clustering_id
            AND g.group_id = json_extract(o.value, '$[0]')
        WHERE a.clustering_id = {_SHOWN} AND a.others <> '[]'
            {of and f" AND a.{of}"}
    ) AS r JOIN goal_label AS l ON l.clustering_id = {_SHOWN} AND l.group_id = r.group_id"""


_OF_C = _goals("conversation_id = c.id")

_CONVERSATION_TABLE = f"""CREATE VIEW conversation_table AS
    SELECT c.id AS conversation_id, c.external_id AS id, source.label AS source,
        c.created_at AS date, c.messages, c.turns, c.chars AS length,
        (SELECT goal FROM ({_OF_C}) WHERE main = 1) AS goal,
        (SELECT share FROM ({_OF_C}) WHERE main = 1) AS goal_share,
        (SELECT json_group_array(json_object('goal', goal, 'share', share)) FROM (
            SELECT goal, share FROM ({_OF_C}) WHERE main = 0 ORDER BY share DESC)) AS other_goals,
        CASE WHEN s.p_end_normalised IS NULL THEN 'unscored'
            WHEN abs(s.p_end_normalised - {_THRESHOLD}) < {_BAND} THEN 'borderline'
            WHEN s.p_end_normalised >= {_THRESHOLD} THEN 'complete' ELSE 'incomplete' END AS state,
        s.p_end, s.p_end_normalised AS p,
        (SELECT t.p FROM taught_value AS t JOIN taught ON taught.id = t.taught_id
            WHERE taught.subject = '' AND taught.in_force = 1 AND t.conversation_id = c.id)
            AS success,
        (SELECT r.text FROM remaining AS r WHERE r.conversation_id = c.id
            AND r.score_config_hash = {_SCORES} ORDER BY r.run_id DESC LIMIT 1) AS remaining,
        (SELECT v.verdict FROM verdict AS v WHERE v.conversation_id = c.id AND v.kind = 'give'
            AND {_CURRENT} AND {_OF_THIS_TEXT} ORDER BY v.id DESC LIMIT 1) AS verdict,
        (SELECT v.note FROM verdict AS v WHERE v.conversation_id = c.id
            AND v.kind IN ('give', 'note') AND (v.kind = 'note' OR v.note <> '') AND {_CURRENT}
            ORDER BY v.id DESC LIMIT 1) AS note,
        (SELECT json_group_array(tag) FROM (SELECT v.note AS tag, v.kind AS kind, max(v.id)
            FROM verdict AS v WHERE v.conversation_id = c.id AND v.kind IN ('tag', 'untag')
            AND {_CURRENT} GROUP BY v.note) WHERE kind = 'tag') AS tags,
        (SELECT max(t.leaves) {_TREE} AND t.reason IS NULL) AS leaves,
        (SELECT min(t.max_log_prob) {_TREE} AND t.reason IS NULL) AS max_logprob,
        (SELECT max(t.entropy_high) {_TREE} AND t.reason IS NULL) AS entropy,
        (SELECT min(t.answer_log_prob / t.answer_tokens) {_TREE} AND t.answer_tokens > 0)
            AS answer_logprob,
        c.meta
    FROM conversation AS c JOIN source ON source.id = c.source_id
    LEFT JOIN score AS s ON s.conversation_id = c.id AND s.config_hash = {_SCORES}"""


def m011_one_query(conn: sqlite3.Connection) -> None:
    """Adds the index of facets, the current groups as tables, the shares of second goals, and views of SQL."""
    for statement in (
        # an index of tools, models, metadata and truth: engine/conversations/tables/facets.py
        """CREATE TABLE facet (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL COLLATE NOCASE,
            value TEXT NOT NULL COLLATE NOCASE,
            number REAL,
            UNIQUE (key, value)
        ) STRICT""",
        "CREATE INDEX facet_by_number ON facet (key, number) WHERE number IS NOT NULL",
        """CREATE TABLE conversation_facet (
            facet_id INTEGER NOT NULL REFERENCES facet (id),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            PRIMARY KEY (facet_id, conversation_id)
        ) STRICT, WITHOUT ROWID""",
        # current: of the group that it is or became; label: NULL if it is that of its cluster
        """CREATE TABLE goal_group (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            group_id TEXT NOT NULL,
            current TEXT,
            label TEXT,
            PRIMARY KEY (clustering_id, group_id)
        ) STRICT, WITHOUT ROWID""",
        # conversations whose group is not the one that their cluster became; group_id: NULL for none
        """CREATE TABLE goal_move (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            group_id TEXT,
            PRIMARY KEY (clustering_id, conversation_id)
        ) STRICT, WITHOUT ROWID""",
        "ALTER TABLE membership ADD COLUMN second_share REAL",
        "CREATE INDEX membership_by_cluster ON membership (clustering_id, cluster)",
        "CREATE INDEX membership_by_second ON membership (clustering_id, second, second_share)"
        " WHERE second_share >= 0.15",
        "CREATE INDEX tree_by_measure ON tree"
        " (config_hash, conversation_id, leaves, max_log_prob, entropy_high) WHERE reason IS NULL",
        _GOAL_LABEL,
        f"CREATE VIEW conversation_goal AS {_goals()}",
        _CONVERSATION_TABLE,
    ):
        conn.execute(statement)
    for (clustering_id,) in conn.execute("SELECT id FROM clustering").fetchall():
        clusterings.put_second_shares(conn, clustering_id)
    last = 0
    while ids := [
        row[0]
        for row in conn.execute(
            "SELECT id FROM conversation WHERE id > ? ORDER BY id LIMIT ?", (last, _PAGE)
        )
    ]:
        facets.add_stored(conn, ids)
        last = ids[-1]
