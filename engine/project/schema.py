"""The schema of a project file, as version 1.0 has it, with its views, and how a file gets it.

A later schema is one more migration with the next number: a function of a connection in `MIGRATIONS`. Each migration
runs in one transaction together with its record and with `user_version`. `executescript` is not used, because it
commits first. Foreign keys are not enforced meanwhile, because a table that others refer to may be made anew.

The views are for other programs; their names and columns stay. A *cluster* comes from the algorithm; merges, and moves
by people, make *groups* of clusters, and `goal_group.current` names the group to which a cluster or group belongs now.
A conversation is a *member* of the clustering, or was *assigned* to it later. In all statements a letter stands for a
row: `c` of conversation, `m` of membership, `a` of assignment, `v` of a move or an answer, `g` of a group, `q` of the
goal of a conversation, `t` of a tree, `s` of a score, `r` of remaining tasks or of the group of a conversation, `l` of
a label, `k` of a cluster.

The file may come from a stranger. An object of the schema is *foreign* if no file of this program has it; reading or
writing a foreign trigger, view or computed column would run SQL of the stranger.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from engine.base.errors import NotAProject, ProjectTooNew, ProjectTooOld
from engine.base.files import APPLICATION_ID
from engine.project.sql import not_undone

if TYPE_CHECKING:
    from sqlite_utils import Database

FIRST_SCHEMA = 22
"""The number of the schema of version 1.0. Files of earlier numbers were never released."""

LAST_COMMIT_FOR_EARLIER_SCHEMAS = "08c0f4f4"
"""The last commit of this program whose `workbench` opens files of an earlier number."""

NOT_OURS_HINT = "It was not written by this program. Logs are read with `workbench open FILE` or `workbench import`."
"""What to do about a file that is no project."""

_LIBRARY_OBJECTS = re.compile(r"message_fts(_signs)?_[a-z]+|(idx_)?_sqlite_migrations(_[a-z_]+)?")
"""Matches names of tables and indexes that SQLite's full-text search or sqlite_utils makes, in any version of these:
`message_fts_data`, `_sqlite_migrations`."""

_COMPUTING_SQL = re.compile(r"as\(|check\(|default\(|^create(unique)?index[^(]*\([^()]*\(")
"""Matches the part of a statement that computes something: a computed column, a check, a default, an index on an
expression, such as `as(lower(name))`. The statement is one of `_normalized`; those of libraries compute nothing."""

_WRITTEN_DIFFERENTLY = re.compile(r"[\s\"'`]+")
"""Matches blanks and quotes, which versions of SQLite write differently in the same statement."""

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


# Making and migrating the schema


def create(conn: sqlite3.Connection) -> None:
    """Makes the tables, indexes and views of version 1.0 in an empty file."""
    conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    text = resources.files("engine.project").joinpath("schema.sql").read_text("utf-8")
    statement = ""
    for line in text.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            conn.execute(statement)
            statement = ""
    for view in VIEWS:
        conn.execute(view)


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    FIRST_SCHEMA: create,
}
"""The function that makes the schema of each number out of the one before; the first one starts from an empty file."""

SCHEMA = max(MIGRATIONS)
"""Number of the schema that this program writes; the number of a file is its `user_version`."""


class SchemaObject(NamedTuple):
    """A table, view, index or trigger.

    Attributes:
        kind: `table`, `view`, `index` or `trigger`.
        name: Name of the object.
        sql: The statement that made the object.
    """

    kind: str
    name: str
    sql: str


@cache
def objects(schema: int) -> Mapping[str, SchemaObject]:
    """Returns the objects of a project of a schema number by name, without those that libraries add."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        for number, change in MIGRATIONS.items():
            if number <= schema:
                change(conn)
        return MappingProxyType({item.name: item for item in objects_of(conn)})


def foreign_object(conn: sqlite3.Connection, schema: int) -> SchemaObject | None:
    """Returns a foreign object in a file that would run SQL of its maker; None if there is none.

    Foreign tables with names that we do not use are ignored, because nothing reads them.
    """
    our_names = objects(schema)
    for item in objects_of(conn):
        is_read = item.name in our_names or _LIBRARY_OBJECTS.fullmatch(item.name)
        if is_foreign(item, schema) and (item.kind != "table" or is_read):
            return item
    return None


def is_foreign(item: SchemaObject, schema: int) -> bool:
    """Returns whether no project of a schema number has this object.

    The object is foreign by its name, or by its statement, such as that of a view in the place of a table, or of a
    table with a computed column.
    """
    sql = _normalized(item.sql)
    if _LIBRARY_OBJECTS.fullmatch(item.name):
        return item.kind not in ("table", "index") or _COMPUTING_SQL.search(sql) is not None
    ours = objects(schema).get(item.name)
    return ours is None or (ours.kind, _normalized(ours.sql)) != (item.kind, sql)


def objects_of(conn: sqlite3.Connection) -> list[SchemaObject]:
    """Returns the tables, views, indexes and triggers of a file, without those that SQLite adds by itself."""
    rows = conn.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return [
        SchemaObject(kind, name, sql) for kind, name, sql in rows if not name.startswith("sqlite_")
    ]


def _normalized(sql: str) -> str:
    """Returns a statement without what versions of SQLite write differently: blanks, quotes, and upper case."""
    return _WRITTEN_DIFFERENTLY.sub("", sql).lower()


def check_schema(name: str, conn: sqlite3.Connection, *, allow_empty: bool) -> int:
    """Returns the number of the schema of a file, 0 for an empty file.

    Args:
        name: The path of the file, as the person gave it.
        allow_empty: Whether a file without tables counts as a new project.

    Raises:
        ProjectError: The file is no project, has a foreign object, or is of a version that this one cannot open.
    """
    # the list of migrations is made before the first of them: a kill or a full disk between them leaves only it
    tables, triggers = conn.execute(
        "SELECT count(*), count(CASE type WHEN 'trigger' THEN 1 END) FROM sqlite_master"
        " WHERE tbl_name <> '_sqlite_migrations' OR type = 'trigger'"
    ).fetchone()
    (application,) = conn.execute("PRAGMA application_id").fetchone()
    (schema,) = conn.execute("PRAGMA user_version").fetchone()
    if not tables and not schema and application in (0, APPLICATION_ID):
        if allow_empty:
            return 0
        raise NotAProject(f"{name} is empty.", "Import conversations into it first.")
    if application != APPLICATION_ID:
        raise NotAProject(f"{name} is a database of another program.", NOT_OURS_HINT)
    if triggers:
        raise NotAProject(
            f"{name} has triggers, which would change what is written; no project of this program has any.",
            "Do not trust the file; `workbench repair` saves what it holds without them.",
        )
    if schema > SCHEMA:
        raise ProjectTooNew(
            f"{name} was written by a newer version of this program"
            f" (schema {schema}, this one knows {SCHEMA}).",
            "Update the program.",
        )
    if schema < FIRST_SCHEMA:
        raise ProjectTooOld(
            f"{name} is of a version before 1.0 (schema {schema}), which this one cannot open.",
            f"Import the logs again. The program of commit {LAST_COMMIT_FOR_EARLIER_SCHEMAS} opens it and exports"
            " what people said.",
        )
    if (foreign := foreign_object(conn, schema)) is not None:
        raise NotAProject(
            f"{name} has a {foreign.kind} `{foreign.name}` that this version does not make: an earlier development"
            " version made it, or somebody else, whose SQL would run.",
            "If it is yours, import the logs again, or open it with the commit that made it. If not, do not trust it:"
            " `workbench repair` saves what it holds without it.",
        )
    return int(schema)


def migrate(conn: sqlite3.Connection, schema: int) -> None:
    """Migrates the file from the number of its schema (0: empty) to `SCHEMA`; each step happens entirely or not."""
    # imported here because a file that is up to date, the usual case, does not need it
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("workbench")
    for number, change in MIGRATIONS.items():
        if number > schema:
            migrations(name=f"schema_{number}")(_numbered(number, change))
    migrations.apply(Database(conn, execute_plugins=False))


def _numbered(
    number: int, change: Callable[[sqlite3.Connection], None]
) -> Callable[[Database], None]:
    """Returns a migration that makes a change and gives the file its number."""

    def migrate_to_number(database: Database) -> None:
        """Runs in one transaction, which sqlite_utils opens."""
        change(database.conn)
        database.conn.execute(f"PRAGMA user_version = {number}")

    return migrate_to_number
