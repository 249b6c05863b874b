"""Views of the project file for other programs; their names and columns stay.

A *cluster* comes from the algorithm; merges, and moves by people, make *groups* of clusters, and `goal_group.current`
names the group to which a cluster or group belongs now. A conversation is a *member* of the clustering, or was
*assigned* to it later. In all statements a letter stands for a row: `c` of conversation, `m` of membership, `a` of
assignment, `v` of a move or an answer, `g` of a group, `q` of the goal of a conversation, `t` of a tree, `s` of a
score, `r` of remaining tasks or of the group of a conversation, `l` of a label, `k` of a cluster.
"""

from __future__ import annotations

from engine.project.sql import not_undone

_CLUSTERING = "(SELECT CAST(value AS INTEGER) FROM setting WHERE key = 'clustering')"
"""SQL expression for the id of the clustering that is shown; NULL before the first one."""

SCORES_IN_FORCE = "(SELECT json_extract(value, '$') FROM setting WHERE key = 'score_config')"
"""SQL expression for the config hash of the scores that are shown; NULL before the first scoring."""

_TREES = "(SELECT json_extract(value, '$') FROM setting WHERE key = 'tree_config')"
"""SQL expression for the config hash of the trees that are shown; NULL before the first ones."""

_THRESHOLD = (
    "coalesce((SELECT json_extract(value, '$.threshold') FROM setting WHERE key = 'rule'), 0.5)"
)
"""SQL expression for the score from which a conversation counts as complete."""

_BAND = "coalesce((SELECT json_extract(value, '$.band') FROM setting WHERE key = 'rule'), 0.1)"
"""SQL expression for the distance from the threshold within which a score is borderline."""

_TREE = f"FROM tree AS t WHERE t.config_hash = {_TREES} AND t.conversation_id = c.id"
"""The part from FROM on of a query over the trees of the conversation `c`."""

NOT_UNDONE = not_undone("answer", "v.id")
"""SQL condition that the answer `v` was not undone, or was redone after it was undone."""

OF_THIS_TEXT = (
    "v.id > coalesce((SELECT max(e.answer_id) FROM earlier_state AS e"
    " WHERE e.conversation_id = v.conversation_id), 0)"
)
"""SQL condition that the answer `v` was given to the present text: after the last change of the text."""

_CLUSTER_GROUP = "CASE WHEN v.conversation_id IS NULL THEN 'c' || m.cluster ELSE v.group_id END"
"""SQL expression for the group of a member `m`: the one of its cluster, or of the move `v` if there is one."""

_ASSIGNED_GROUP = "CASE WHEN v.conversation_id IS NULL THEN a.group_id ELSE v.group_id END"
"""SQL expression for the group of an assigned conversation `a`: the assigned one, or of the move `v` if there is
one."""

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
"""The statement that makes the view of the label of each current group: the label of a person, else that of a model or
of phrases of the members, else the first three words."""

_GOAL = f"""SELECT r.conversation_id, r.group_id, l.label AS goal FROM (
        SELECT m.conversation_id, g.current AS group_id FROM membership AS m
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = m.clustering_id AND g.group_id = {_CLUSTER_GROUP}
        WHERE m.clustering_id = {_CLUSTERING}
        UNION ALL
        SELECT a.conversation_id, g.current FROM assignment AS a
        LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)
        JOIN goal_group AS g ON g.clustering_id = a.clustering_id AND g.group_id = {_ASSIGNED_GROUP}
        WHERE a.clustering_id = {_CLUSTERING}
    ) AS r JOIN goal_label AS l ON l.clustering_id = {_CLUSTERING} AND l.group_id = r.group_id"""
"""The query for the group, and for its label, the goal, of each conversation that is a member or was assigned."""

_CONVERSATION_TABLE = f"""CREATE VIEW conversation_table AS
    SELECT c.id AS conversation_id, c.external_id AS id, source.label AS source,
        c.created_at AS date, c.messages, c.turns, c.chars AS length,
        (SELECT goal FROM conversation_goal AS q WHERE q.conversation_id = c.id) AS goal,
        CASE WHEN s.p_end_normalised IS NULL THEN 'unscored'
            WHEN abs(s.p_end_normalised - {_THRESHOLD}) < {_BAND} THEN 'borderline'
            WHEN s.p_end_normalised >= {_THRESHOLD} THEN 'complete' ELSE 'incomplete' END AS state,
        s.p_end, s.p_end_normalised AS p,
        (SELECT t.p FROM taught_value AS t JOIN taught ON taught.id = t.taught_id
            WHERE taught.subject = 'succeeded' AND coalesce(json_extract(taught.figures, '$.auroc.low') > 0.5, TRUE)
            AND t.conversation_id = c.id)
            AS success,
        (SELECT r.text FROM remaining AS r WHERE r.conversation_id = c.id
            AND r.score_config_hash = {SCORES_IN_FORCE} ORDER BY r.run_id DESC LIMIT 1) AS remaining,
        (SELECT v.value FROM answer AS v WHERE v.conversation_id = c.id AND v.kind = 'give'
            AND v.question = 'succeeded' AND {NOT_UNDONE} AND {OF_THIS_TEXT}
            ORDER BY v.id DESC LIMIT 1) AS succeeded,
        (SELECT v.value FROM answer AS v WHERE v.conversation_id = c.id AND v.kind = 'give'
            AND v.question = 'note' AND {NOT_UNDONE} ORDER BY v.id DESC LIMIT 1) AS note,
        (SELECT json_group_array(question) FROM (SELECT v.question, v.value, max(v.id)
            FROM answer AS v WHERE v.conversation_id = c.id AND v.kind = 'give'
            AND v.question NOT IN ('succeeded', 'note')
            AND {NOT_UNDONE} GROUP BY v.question) WHERE value = 'yes') AS tags,
        (SELECT max(t.leaves) {_TREE} AND t.reason IS NULL) AS leaves,
        (SELECT min(t.max_log_prob) {_TREE} AND t.reason IS NULL) AS max_logprob,
        (SELECT max(t.entropy) {_TREE} AND t.reason IS NULL) AS entropy,
        (SELECT min(t.answer_log_prob / t.answer_tokens) {_TREE} AND t.answer_tokens > 0)
            AS answer_logprob,
        c.meta
    FROM conversation AS c JOIN source ON source.id = c.source_id
    LEFT JOIN score AS s ON s.conversation_id = c.id AND s.config_hash = {SCORES_IN_FORCE}"""
"""The statement that makes the view with a row for each conversation, with all that is known of it."""

VIEWS = (_GOAL_LABEL, f"CREATE VIEW conversation_goal AS {_GOAL}", _CONVERSATION_TABLE)
"""The statements that make the views."""
