"""Views of the project file for other programs; their names and columns stay. The goals are written out in each view,
with a condition on the conversation inside, since SQLite pushes none into a union with groups.

A *cluster* comes from the algorithm; merges and a person's moves make *groups* of clusters, and `goal_group.current`
has the group in which one stands now. A conversation is a *member* of the clustering, or was *assigned* to it later. It
has one main goal, and *second* goals with a share of it. Letters stand for rows everywhere: `c` conversation, `m`
membership, `a` assignment, `v` a move or an answer, `g` the group of a row, `q` a goal of a conversation.
"""

from __future__ import annotations

_CLUSTERING = "(SELECT CAST(value AS INTEGER) FROM setting WHERE key = 'clustering')"
"""SQL expression for the id of the clustering that is shown; NULL before any."""

SCORES_IN_FORCE = "(SELECT json_extract(value, '$') FROM setting WHERE key = 'score_config')"
"""SQL expression for the config hash of the scores that are shown; NULL before any scoring."""

_TREES = "(SELECT json_extract(value, '$') FROM setting WHERE key = 'tree_config')"
"""SQL expression for the config hash of the trees that are shown; NULL before any."""

_THRESHOLD = (
    "coalesce((SELECT json_extract(value, '$.threshold') FROM setting WHERE key = 'rule'), 0.5)"
)
"""SQL expression for the score from which a conversation counts as complete."""

_BAND = "coalesce((SELECT json_extract(value, '$.band') FROM setting WHERE key = 'rule'), 0.1)"
"""SQL expression for the distance from the threshold within which a score is borderline."""

_TREE = f"FROM tree AS t WHERE t.config_hash = {_TREES} AND t.conversation_id = c.id"
"""The end of a query over the trees of the conversation `c`."""

_NOT_UNDONE = (
    "coalesce((SELECT act.kind FROM answer AS act WHERE act.target = v.id"
    " ORDER BY act.id DESC LIMIT 1), 'redo') = 'redo'"
)
"""SQL condition that the answer `v` was not undone, or that its undoing was undone last."""

_OF_THIS_TEXT = (
    "v.id > coalesce((SELECT max(e.answer_id) FROM earlier_state AS e"
    " WHERE e.conversation_id = v.conversation_id), 0)"
)
"""SQL condition that the answer `v` is on the text as it is now: it came after the last change of the text."""

_CLUSTER_GROUP = "CASE WHEN v.conversation_id IS NULL THEN 'c' || m.cluster ELSE v.group_id END"
"""SQL expression for the group of a member `m`: that of its cluster, unless a move `v` took it elsewhere."""

_ASSIGNED_GROUP = "CASE WHEN v.conversation_id IS NULL THEN a.group_id ELSE v.group_id END"
"""SQL expression for the group of an assigned conversation `a`, unless a move `v` took it elsewhere."""

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
"""Makes the view of the label of each current group: a person's, else a model's, else its three first words."""

_JUDGED = f"""(SELECT n.kind FROM second_goal AS n
            JOIN goal_group AS b ON b.clustering_id = n.clustering_id AND b.group_id = n.group_id
            WHERE n.clustering_id = {_CLUSTERING} AND n.conversation_id = q.conversation_id
            AND b.current = q.group_id AND n.kind <> 'undo'
            AND NOT EXISTS (SELECT 1 FROM second_goal AS u WHERE u.target = n.id)
            ORDER BY n.id DESC LIMIT 1)"""
"""SQL expression for what a person last said of the second goal `q`: `confirm`, `remove` or NULL."""


def _goals(condition: str = "") -> str:
    """Returns the query (conversation_id, group_id, goal, share, main, confirmed) of main and second goals.

    Second goals that a person removed are left out; groups that were merged are one second goal, of the sum of their
    shares. `confirmed` is 1 where a person confirmed a second goal, else 0.

    Args:
        condition: A further condition on `conversation_id`.
    """
    of_member, of_assigned = (
        (f" AND m.{condition}", f" AND a.{condition}") if condition else ("", "")
    )
    # a union of four: main goals of members, and of assigned ones; second goals of members, and of assigned ones
    return f"""SELECT conversation_id, group_id, goal, share, main, judged IS 'confirm' AS confirmed
        FROM (SELECT q.*, CASE WHEN q.main = 0 THEN {_JUDGED} END AS judged
            FROM (
    SELECT r.conversation_id, r.group_id, l.label AS goal, r.share, r.main FROM (
        SELECT m.conversation_id, g.current AS group_id,
            1 - CASE WHEN other.current <> g.current THEN m.second_share ELSE 0 END AS share,
            1 AS main
        FROM membership AS m
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = m.clustering_id AND g.group_id = {_CLUSTER_GROUP}
        LEFT JOIN goal_group AS other ON other.clustering_id = m.clustering_id
            AND other.group_id = 'c' || m.second
        WHERE m.clustering_id = {_CLUSTERING}{of_member}
        UNION ALL
        SELECT a.conversation_id, g.current, a.score, 1 FROM assignment AS a
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = a.clustering_id AND g.group_id = {_ASSIGNED_GROUP}
        WHERE a.clustering_id = {_CLUSTERING}{of_assigned}
        UNION ALL
        SELECT m.conversation_id, other.current, m.second_share, 0 FROM membership AS m
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = m.clustering_id AND g.group_id = {_CLUSTER_GROUP}
        JOIN goal_group AS other ON other.clustering_id = m.clustering_id
            AND other.group_id = 'c' || m.second
        WHERE m.clustering_id = {_CLUSTERING} AND m.second_share >= 0.15
            AND g.current <> other.current{of_member}
        UNION ALL
        SELECT a.conversation_id, g.current, sum(json_extract(o.value, '$[1]')), 0
        FROM assignment AS a JOIN json_each(a.others) AS o
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        LEFT JOIN goal_group AS own ON own.clustering_id = a.clustering_id
            AND own.group_id = {_ASSIGNED_GROUP}
        JOIN goal_group AS g ON g.clustering_id = a.clustering_id
            AND g.group_id = json_extract(o.value, '$[0]')
        WHERE a.clustering_id = {_CLUSTERING} AND a.others <> '[]'
            AND g.current IS NOT own.current{of_assigned}
        GROUP BY a.conversation_id, g.current
    ) AS r JOIN goal_label AS l ON l.clustering_id = {_CLUSTERING} AND l.group_id = r.group_id
            ) AS q)
        WHERE judged IS NOT 'remove'"""


_OF_C = _goals("conversation_id = c.id")
"""The goals of the conversation `c`."""

_CONVERSATION_TABLE = f"""CREATE VIEW conversation_table AS
    SELECT c.id AS conversation_id, c.external_id AS id, source.label AS source,
        c.created_at AS date, c.messages, c.turns, c.chars AS length,
        (SELECT goal FROM ({_OF_C}) WHERE main = 1) AS goal,
        (SELECT share FROM ({_OF_C}) WHERE main = 1) AS goal_share,
        (SELECT json_group_array(json_object('goal', goal, 'share', share,
            'confirmed', json(CASE confirmed WHEN 1 THEN 'true' ELSE 'false' END)))
            FROM (SELECT goal, share, confirmed FROM ({_OF_C}) WHERE main = 0 ORDER BY share DESC))
            AS other_goals,
        CASE WHEN s.p_end_normalised IS NULL THEN 'unscored'
            WHEN abs(s.p_end_normalised - {_THRESHOLD}) < {_BAND} THEN 'borderline'
            WHEN s.p_end_normalised >= {_THRESHOLD} THEN 'complete' ELSE 'incomplete' END AS state,
        s.p_end, s.p_end_normalised AS p,
        (SELECT t.p FROM taught_value AS t JOIN taught ON taught.id = t.taught_id
            WHERE taught.subject = 'succeeded' AND taught.in_force = 1 AND t.conversation_id = c.id)
            AS success,
        (SELECT r.text FROM remaining AS r WHERE r.conversation_id = c.id
            AND r.score_config_hash = {SCORES_IN_FORCE} ORDER BY r.run_id DESC LIMIT 1) AS remaining,
        (SELECT v.value FROM answer AS v WHERE v.conversation_id = c.id AND v.kind = 'give'
            AND v.question = 'succeeded' AND {_NOT_UNDONE} AND {_OF_THIS_TEXT}
            ORDER BY v.id DESC LIMIT 1) AS succeeded,
        (SELECT v.value FROM answer AS v WHERE v.conversation_id = c.id AND v.kind = 'give'
            AND v.question = 'note' AND {_NOT_UNDONE} ORDER BY v.id DESC LIMIT 1) AS note,
        (SELECT json_group_array(question) FROM (SELECT v.question, v.value, max(v.id)
            FROM answer AS v WHERE v.conversation_id = c.id AND v.kind = 'give'
            AND v.question NOT IN ('succeeded', 'note')
            AND {_NOT_UNDONE} GROUP BY v.question) WHERE value = 'yes') AS tags,
        (SELECT max(t.leaves) {_TREE} AND t.reason IS NULL) AS leaves,
        (SELECT min(t.max_log_prob) {_TREE} AND t.reason IS NULL) AS max_logprob,
        (SELECT max(t.entropy_high) {_TREE} AND t.reason IS NULL) AS entropy,
        (SELECT min(t.answer_log_prob / t.answer_tokens) {_TREE} AND t.answer_tokens > 0)
            AS answer_logprob,
        c.meta
    FROM conversation AS c JOIN source ON source.id = c.source_id
    LEFT JOIN score AS s ON s.conversation_id = c.id AND s.config_hash = {SCORES_IN_FORCE}"""
"""Makes the view with a row for each conversation, and all that is known of it."""

VIEWS = (_GOAL_LABEL, f"CREATE VIEW conversation_goal AS {_goals()}", _CONVERSATION_TABLE)
"""The statements that make the views."""
