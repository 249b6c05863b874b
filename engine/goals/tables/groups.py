"""Stores the current groups of clusterings, so that filters and views of SQL know the goal of each conversation; and
answers terms of filters on goals, reasons and themes, and on conversations that are like some words
(`FIELD_QUERIES`).

`goal_group` has the current group of every group that ever was, and `goal_move` the conversations whose group is not
that of their cluster or assignment. Both follow from the decisions; `engine.goals.views.decision_log` writes them.

A *cluster* comes from the clustering (`membership`; its group id is `c` and its number), an *assignment* is the group
of a conversation that was imported later.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from engine.base.errors import NotYet, UsageError, WorkbenchError
from engine.conversations.filter_fields import ANY_VALUE, NO_VALUE, NOVEL, CountedValues, FieldQuery
from engine.conversations.filters import Term
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import goals_clustering_id, stored_clustering
from engine.project.sql import IdSet, read_ids, rows_in

if TYPE_CHECKING:
    from engine.model.embedders.vectors import Vectors

_MOVED = "SELECT conversation_id FROM goal_move WHERE clustering_id = ?1"
"""SQL for the conversations that a decision moved."""
_GROUPS_THAT_BECAME = "SELECT group_id FROM goal_group WHERE clustering_id = ?1 AND current IN ({})"
"""SQL for all groups, former ones too, that are or became one of some current groups."""
_ORIGINAL_MEMBERS = (
    "SELECT conversation_id FROM membership WHERE clustering_id = ?1 AND cluster IN"
    " (SELECT CAST(substr(group_id, 2) AS INTEGER)"
    f" FROM ({_GROUPS_THAT_BECAME}) WHERE substr(group_id, 1, 1) = 'c')"
    " UNION ALL SELECT conversation_id FROM assignment WHERE clustering_id = ?1"
    f" AND group_id IN ({_GROUPS_THAT_BECAME})"
)
"""SQL for the conversations whose cluster or assignment is now one of some current groups, moved ones too."""
_MOVED_INTO = f"{_MOVED} AND group_id IN ({_GROUPS_THAT_BECAME})"
"""SQL for the conversations that a decision moved to one of some current groups."""

MOST_ALIKE = 50
"""Most conversations that a term on likeness matches."""
COMPARED_DECIMALS = 5
"""Decimals to which cosines and distances are rounded before conversations are ordered by them, since processors round
the last ones differently. Equal ones are in the order of ids."""


def group_count(conn: sqlite3.Connection, clustering_id: int) -> int:
    """Returns the number of current groups of a clustering."""
    sql = "SELECT count(DISTINCT current) FROM goal_group WHERE clustering_id = ?"
    return int(conn.execute(sql, (clustering_id,)).fetchone()[0])


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A current or former group.

    Attributes:
        current: Id of the group that it is or became; None if it is no more.
        label: Given by a decision; None if it has the label of its cluster.
        theme: Label of its theme; empty for none.
    """

    id: str
    current: str | None
    label: str | None
    theme: str


def replace_groups(
    conn: sqlite3.Connection,
    clustering_id: int,
    groups: Iterable[GroupEntry],
    moves: Iterable[tuple[int, str | None]] | None,
) -> None:
    """Replaces the groups of a clustering.

    Args:
        moves: (conversation, group) of those that are not in the group of their cluster or assignment; None leaves
            them as they are.
    """
    conn.execute("DELETE FROM goal_group WHERE clustering_id = ?", (clustering_id,))
    conn.executemany(
        "INSERT INTO goal_group (clustering_id, group_id, current, label, theme) VALUES (?, ?, ?, ?, ?)",
        [(clustering_id, group.id, group.current, group.label, group.theme) for group in groups],
    )
    if moves is not None:
        conn.execute("DELETE FROM goal_move WHERE clustering_id = ?", (clustering_id,))
        conn.executemany(
            "INSERT INTO goal_move (clustering_id, conversation_id, group_id) VALUES (?, ?, ?)",
            ((clustering_id, conversation_id, group_id) for conversation_id, group_id in moves),
        )


def labels_by_group(conn: sqlite3.Connection, clustering_id: int) -> dict[str, str]:
    """Returns the label of each current group, by id."""
    sql = "SELECT group_id, label FROM goal_label WHERE clustering_id = ?"
    return dict(conn.execute(sql, (clustering_id,)))


def goals_of(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Returns the labels of the goals of these conversations in the clustering of goals; those without one are
    absent."""
    query = "SELECT conversation_id, goal FROM conversation_goal WHERE conversation_id IN"
    return dict(rows_in(conn, query, ids))


# Terms of filters


def _match_goal(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set that a term on `goal` or `reason` matches. Its values are labels or parts of labels, or
    `any`, `none` or `novel`.

    A label is looked for in the clusterings in the order of `_clusterings_of`. A label that is exactly the value goes
    before labels that contain it.

    Raises:
        WorkbenchError: Nothing was clustered, or no goal has the label.
    """
    clustering_ids = _searched_clusterings(conn, term.field)
    matching = among - among  # the empty set
    for value in term.values:
        if value.lower() in (ANY_VALUE, NO_VALUE, NOVEL):
            matching |= _with_special_value(conn, clustering_ids[0], value.lower(), among)
            continue
        clustering_id, groups = _find_groups(conn, clustering_ids, value, term.field)
        matching |= _in_groups(conn, clustering_id, groups, among)
    return among & matching


def _count_goals(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
    """Returns the labels of goals, or of the reasons that are open or the newest, with the number of conversations of a
    set, the most frequent first; none before anything was clustered."""
    clustering_ids = _clusterings_of(conn, field)
    if not clustering_ids:
        return []
    clustering_id = clustering_ids[0]
    count_by_group: dict[str | None, int] = {}
    among_condition, flags = among.condition("conversation_id")
    sql = "SELECT group_id, current FROM goal_group WHERE clustering_id = ?"
    current = dict(conn.execute(sql, (clustering_id,)))
    # counted in clusters and assignments, and where decisions moved to; taken off where they moved from
    where = f"clustering_id = ? AND {among_condition}"
    where_moved = (
        "(clustering_id, conversation_id) IN"
        f" (SELECT clustering_id, conversation_id FROM goal_move WHERE {where})"
    )
    of_clusters = "SELECT 'c' || cluster, count(*) FROM membership WHERE {} GROUP BY cluster"
    of_groups = "SELECT group_id, count(*) FROM {} WHERE {} GROUP BY group_id"
    for statement, sign in (
        (of_clusters.format(where), 1),
        (of_groups.format("assignment", where), 1),
        (of_groups.format("goal_move", where), 1),
        (of_clusters.format(where_moved), -1),
        (of_groups.format("assignment", where_moved), -1),
    ):
        for group, number in conn.execute(statement, (clustering_id, *flags)):
            current_group = current.get(group)
            count_by_group[current_group] = count_by_group.get(current_group, 0) + sign * number
    group_labels = labels_by_group(conn, clustering_id)
    counted = (
        (group_labels[group], number)
        for group, number in count_by_group.items()
        if group in group_labels and number
    )
    return sorted(counted, key=lambda item: (-item[1], item[0]))[:limit]


def _clusterings_of(conn: sqlite3.Connection, field: str) -> list[int]:
    """Returns the ids of the clusterings of goals, or of reasons, by the field `goal` or `reason`.

    Of goals that of the project comes first, of reasons the one that is open; then the newest comes first.
    """
    first = goals_clustering_id(conn) if field == "goal" else clusterings.open_id(conn)
    keys = [row.id for row in clusterings.every(conn) if row.noun == field]
    return sorted(keys, key=lambda key: (key != first, -key))


def _searched_clusterings(conn: sqlite3.Connection, field: str) -> list[int]:
    """Returns the same as `_clusterings_of`; raises WorkbenchError if there is no such clustering."""
    clustering_ids = _clusterings_of(conn, field)
    if not clustering_ids:
        option = "" if field == "goal" else " --text explanation:QUESTION"
        raise WorkbenchError(
            f"No {field}s were clustered yet.",
            f"Run `workbench run cluster PROJECT{option}` first.",
        )
    return clustering_ids


def _find_groups(
    conn: sqlite3.Connection, clustering_ids: Sequence[int], value: str, field: str
) -> tuple[int, list[str]]:
    """Returns the first clustering, and its current groups, with this label or id, or else with labels that contain the
    text; raises WorkbenchError if no clustering has one."""
    text = value.lower()
    for clustering_id in clustering_ids:
        group_labels = labels_by_group(conn, clustering_id)
        exact = [key for key, label in group_labels.items() if text in (label.lower(), key)]
        groups = exact or [key for key, label in group_labels.items() if text in label.lower()]
        if groups:
            return clustering_id, groups
    raise WorkbenchError(
        f"No {field} is called “{value}”.", "`workbench goals list PROJECT` lists them."
    )


def _in_groups(
    conn: sqlite3.Connection, clustering_id: int, groups: Sequence[str], among: IdSet
) -> IdSet:
    """Returns those of a set that are in one of these current groups."""
    values = (clustering_id, *groups)
    names = ", ".join(f"?{index + 2}" for index in range(len(groups)))  # ?1 is the clustering
    moved = among.of(read_ids(conn, _MOVED, values[:1]))
    moved_into = among.of(read_ids(conn, _MOVED_INTO.format(names), values))
    original = among.of(read_ids(conn, _ORIGINAL_MEMBERS.format(names, names), values))
    return (original - moved) | moved_into


def _with_special_value(
    conn: sqlite3.Connection, clustering_id: int, value: str, among: IdSet
) -> IdSet:
    """Returns those of a set with any goal, with none, or that are novel: assigned later and in no group."""

    def with_row(table: str, column: str, state: str = "NOT NULL") -> IdSet:
        """Returns those of the set that have a row in a table in which a column is NULL, or is not."""
        sql = f"SELECT conversation_id FROM {table} WHERE clustering_id = ? AND {column} IS {state}"
        return among.of(read_ids(conn, sql, (clustering_id,)))

    moved = among.of(read_ids(conn, _MOVED, (clustering_id,)))
    if value == NOVEL:
        return with_row("assignment", "group_id", "NULL") - moved
    placed = with_row("membership", "cluster") | with_row("assignment", "group_id")
    with_goal = (placed - moved) | with_row("goal_move", "group_id")
    return with_goal if value == ANY_VALUE else among - with_goal


def _match_theme(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns those of a set with a goal under a theme, given by its label, a part of it, `any` or `none`.

    Raises:
        WorkbenchError: No theme has this label.
    """
    clustering_id = _searched_clusterings(conn, "goal")[0]
    groups_by_theme = _groups_by_theme(conn)
    matching = among - among
    for value in map(str.lower, term.values):
        exact = [label for label in groups_by_theme if label.lower() == value]
        containing = [label for label in groups_by_theme if value in label.lower()]
        themes = list(groups_by_theme) if value in (ANY_VALUE, NO_VALUE) else exact or containing
        if not themes and value not in (ANY_VALUE, NO_VALUE):
            raise WorkbenchError(
                f"No theme is called “{value}”.", "`workbench goals list PROJECT` lists them."
            )
        groups = [group for theme in themes for group in groups_by_theme[theme]]
        inside = _in_groups(conn, clustering_id, groups, among)
        matching |= among - inside if value == NO_VALUE else inside
    return matching


def _count_themes(conn: sqlite3.Connection, field: str, among: IdSet, limit: int) -> CountedValues:
    """Returns the labels of the themes with their numbers of conversations of a set, the most frequent first."""
    groups_by_theme = _groups_by_theme(conn)
    if not groups_by_theme:
        return []
    clustering_id = _searched_clusterings(conn, "goal")[0]
    counted = [
        (label, len(_in_groups(conn, clustering_id, groups, among)))
        for label, groups in groups_by_theme.items()
    ]
    return sorted(counted, key=lambda item: (-item[1], item[0]))[:limit]


def _groups_by_theme(conn: sqlite3.Connection) -> dict[str, list[str]]:
    """Returns the ids of the current groups under each theme, by its label."""
    groups: dict[str, list[str]] = {}
    for theme, group in conn.execute(
        "SELECT theme, group_id FROM goal_group WHERE clustering_id = ? AND current = group_id"
        " AND theme <> ''",
        (goals_clustering_id(conn),),
    ):
        groups.setdefault(theme, []).append(group)
    return groups


def _match_like(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations of a set that are most like the words of a term."""
    return among.of(nearest(conn, term, among))


def nearest(conn: sqlite3.Connection, term: Term, among: IdSet) -> array[int]:
    """Returns the conversations of a set whose vectors in the clustering of goals have the largest cosine with that of
    the words, at most `MOST_ALIKE`, the nearest first; only those with a cosine above 0.

    Raises:
        NotYet: Nothing was clustered yet, or no text of the project has any of the words.
        UsageError: The vectors were made by a model that a filter does not start.
    """
    # Imported here: they bring numpy, which a list of conversations does not wait for.
    import numpy as np

    from engine.goals.tables import vectors

    words = " ".join(term.values)
    config = vectors.config(conn, stored_clustering(conn, goals_clustering_id(conn)).vector_config)
    assert config is not None
    if config.state is None and config.embedder != "minilm":
        raise UsageError(
            f"The vectors are of {config.embedder}, which a filter does not start.",
            "Cluster with --embedder tfidf, minilm or mixed.",
        )
    vector = _vector_of(words, config.embedder, config.state)
    if not vector.any():
        raise NotYet(f"No conversation has any of the words “{words}”.", "Use other words.")
    ids, rows = vectors.read_vectors(conn, config.config_hash, among.ascending())
    cosines = (rows @ vector).round(COMPARED_DECIMALS)
    best = np.argsort(-cosines, kind="stable")[:MOST_ALIKE]
    return array("q", ids[best[cosines[best] > 0]].tolist())


@lru_cache(maxsize=8)
def _vector_of(words: str, embedder: str, state: bytes | None) -> Vectors:
    """Returns the vector of some words, shape (d,), by an embedder or by its fitted state."""
    from engine.model.embedders.embedder import embedder_for, embedder_from_state

    ready_embedder = (
        embedder_for(embedder) if state is None else embedder_from_state(embedder, state)
    )
    vector: Vectors = ready_embedder.embed([words])[0]
    return vector


FIELD_QUERIES: Mapping[str, FieldQuery] = {
    "goal": FieldQuery(_match_goal, count_values=_count_goals),
    "reason": FieldQuery(_match_goal, count_values=_count_goals),
    "theme": FieldQuery(_match_theme, count_values=_count_themes),
    "like": FieldQuery(_match_like, rank=nearest),
}
"""Answers terms on goals, by the name of the field."""
