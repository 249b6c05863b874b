"""Stores clusterings: their clusters with labels and members, and the conversations that were assigned later.

The *open* clustering is the one that the goals screen shows. One of goals is also that of the project, to which filters
and results refer."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from engine.base.errors import NotYet
from engine.goals.records import Clustering, ClusterName, Support, subject_of_reasons
from engine.goals.tables.texts import TextSource
from engine.project import settings
from engine.project.sql import IdSet, read_ids, snapshot, to_json, utc_now

_GOALS_CLUSTERING = "clustering"
"""Setting: the id of the clustering of goals."""
_OPEN = "open_clustering"
"""Setting: the id of the clustering of reasons that the goals screen shows; none where it shows the goals."""
OUTLIER = -1
"""The cluster number of outliers in arrays."""
PHRASES = "phrases"
"""The label configuration of phrases of the members, which are there before any model writes labels."""
LABEL_WORDS = 3
"""Number of distinctive words in the name of a cluster without a label."""

_CLUSTERING = (
    "SELECT g.id, g.config_hash, g.run_id, g.created_at, v.text, v.embedder, g.k, g.seed,"
    " g.conversations, g.outliers, g.no_text, g.paper, v.config_hash, v.goal_config, g.pair_config"
    " FROM clustering AS g JOIN vector_config AS v ON v.id = g.vector_config"
)
"""SQL for clusterings; its columns have the order of the fields of `Clustering`."""


Member = tuple[int, int | None, float]
"""The id of a conversation, the number of its cluster, None for an outlier, and its cosine distance to the nearest
center."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster with its label; one that is not stored yet has none.

    Attributes:
        number: Number from 0; it never changes, so that `c12` stays the same cluster.
        size: Number of members.
        words: Words that distinguish it from the other clusters, most distinctive first.
        center: The mean of its members' unit vectors as little-endian float32, not scaled to length 1, so that the mean
            of several clusters follows from theirs; column `centre`.
        label, description: Short name and one sentence, of the label configuration that is shown; may be empty.
        by_model: Whether a model wrote the label.
        support: Of the label; None where it was not counted.
    """

    number: int
    size: int
    words: tuple[str, ...]
    center: bytes
    label: str = ""
    description: str = ""
    by_model: bool = False
    support: Support | None = None

    @property
    def name(self) -> str:
        """Its label, or its first words where it has none."""
        return self.label or " · ".join(self.words[:LABEL_WORDS])


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of a conversation that was imported after the clustering.

    Attributes:
        conversation_id: The conversation.
        group: Id of its group; None for a novel conversation.
        distance: Cosine distance to the nearest center.
        newest_decision: Id of the newest decision when it was assigned; 0 before the first.
    """

    conversation_id: int
    group: str | None
    distance: float
    newest_decision: int


def add(
    conn: sqlite3.Connection,
    *,
    config_hash: str,
    run_id: int,
    vector_config: str,
    k: int,
    seed: int,
    clusters: Sequence[Cluster],
    members: Iterable[Member],
    labels: Mapping[int, ClusterName] | None = None,
    paper: bool = False,
) -> int:
    """Stores a clustering with its clusters and members, opens it and returns its id.

    Args:
        vector_config: Hash of a stored configuration of vectors.
        labels: Names of the clusters, by number, that are phrases of their members; shown until a model writes others.
        paper: See `Clustering`.
    """
    (vector_id,) = conn.execute(
        "SELECT id FROM vector_config WHERE config_hash = ?", (vector_config,)
    ).fetchone()
    (no_text,) = conn.execute(
        "SELECT count(*) FROM no_vector WHERE config_id = ?", (vector_id,)
    ).fetchone()
    cursor = conn.execute(
        "INSERT INTO clustering (config_hash, run_id, vector_config, created_at, k, seed,"
        " conversations, outliers, no_text, paper) VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?)",
        (config_hash, run_id, vector_id, utc_now(), k, seed, no_text, paper),
    )
    clustering_id = int(cursor.lastrowid or 0)
    conn.executemany(
        "INSERT INTO cluster (clustering_id, number, size, words, centre) VALUES (?, ?, ?, ?, ?)",
        ((clustering_id, c.number, c.size, to_json(list(c.words)), c.center) for c in clusters),
    )
    conn.executemany(
        "INSERT INTO membership (clustering_id, conversation_id, cluster, distance) VALUES (?, ?, ?, ?)",
        ((clustering_id, *member) for member in members),
    )
    conn.execute(
        "UPDATE clustering SET (conversations, outliers) = (SELECT count(*), count(*) - count(cluster)"
        " FROM membership WHERE clustering_id = ?1) WHERE id = ?1",
        (clustering_id,),
    )
    if labels:
        show_labels(conn, clustering_id, PHRASES)
        add_labels(conn, clustering_id, PHRASES, run_id, labels)
    open_clustering(conn, clustering_id)
    return clustering_id


def every(conn: sqlite3.Connection) -> list[Clustering]:
    """Returns all clusterings, oldest first."""
    return [_from_row(row) for row in conn.execute(f"{_CLUSTERING} ORDER BY g.id")]


def find(conn: sqlite3.Connection, clustering_id: int) -> Clustering | None:
    """Returns one clustering; None if there is none of this id."""
    row = conn.execute(f"{_CLUSTERING} WHERE g.id = ?", (clustering_id,)).fetchone()
    return None if row is None else _from_row(row)


def _from_row(row: tuple[Any, ...]) -> Clustering:
    """Returns the clustering of a row of `_CLUSTERING`; `paper` is stored as 0 or 1."""
    clustering = Clustering(*row)
    return replace(clustering, paper=bool(clustering.paper))


def newest_id(conn: sqlite3.Connection, config_hash: str) -> int | None:
    """Returns the id of the newest clustering of a configuration; None before it was made."""
    row = conn.execute(
        "SELECT max(id) FROM clustering WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    return None if row[0] is None else int(row[0])


def goals_clustering_id(conn: sqlite3.Connection) -> int | None:
    """Returns the id of the clustering of goals, which filters, views of SQL and results speak of; None before any was
    made."""
    value: int | None = settings.get(conn, _GOALS_CLUSTERING)
    return value


def open_id(conn: sqlite3.Connection) -> int | None:
    """Returns the id of the clustering that the goals screen shows and decisions are about: one of reasons where it was
    chosen, else that of goals; None before any was made."""
    value: int | None = settings.get(conn, _OPEN)
    return goals_clustering_id(conn) if value is None else value


def predecessor(
    conn: sqlite3.Connection, clustering_id: int, current: Sequence[int | None]
) -> int | None:
    """Returns the id of the clustering whose decisions this one takes over; None without one.

    It is the first of `current` with the same subject (the goals, or the reasons for one thing), else the newest other
    clustering with it.

    Args:
        current: Ids of the clusterings that are open and of goals before this one is shown; it may be among them, and
            None stands for none.
    """
    subjects = {row.id: subject_of_reasons(row.text) for row in every(conn)}
    ids_with_subject = {
        other_id for other_id, subject in subjects.items() if subject == subjects[clustering_id]
    }
    newest_other = max(ids_with_subject - {clustering_id}, default=None)
    return next((other_id for other_id in current if other_id in ids_with_subject), newest_other)


def stored_clustering(conn: sqlite3.Connection, clustering_id: int | None) -> Clustering:
    """Returns the clustering of an id, such as `goals_clustering_id` or `open_id`.

    Raises:
        NotYet: There is no such clustering.
    """
    stored = None if clustering_id is None else find(conn, clustering_id)
    if stored is None:
        raise NotYet("Nothing was clustered yet.", "Run `workbench run cluster PROJECT` first.")
    return stored


def source_of(stored: Clustering) -> TextSource:
    """Returns the source of the texts of a clustering."""
    return TextSource(stored.text, stored.goal_config)


def open_clustering(conn: sqlite3.Connection, clustering_id: int) -> None:
    """Opens a clustering, as `open_id` says; one of goals also becomes that of the project."""
    of_goals = not subject_of_reasons(stored_clustering(conn, clustering_id).text)
    if of_goals:
        settings.put(conn, _GOALS_CLUSTERING, clustering_id)
    settings.put(conn, _OPEN, None if of_goals else clustering_id)


def clusters(conn: sqlite3.Connection, clustering_id: int) -> list[Cluster]:
    """Returns the clusters of a clustering by number, with the labels of the configuration that is shown."""
    rows = conn.execute(
        "SELECT c.number, c.size, c.words, c.centre, coalesce(l.label, ''),"
        " coalesce(l.description, ''), coalesce(l.config_hash, ?2) <> ?2, l.supported, l.read FROM cluster AS c"
        " JOIN clustering AS g ON g.id = c.clustering_id LEFT JOIN cluster_label AS l"
        " ON l.clustering_id = c.clustering_id AND l.number = c.number"
        " AND l.config_hash = g.label_config WHERE c.clustering_id = ?1 ORDER BY c.number",
        (clustering_id, PHRASES),
    )
    return [
        Cluster(
            number,
            size,
            tuple(json.loads(words)),
            center,
            label,
            description,
            bool(by_model),
            None if read is None else Support(supported, read),
        )
        for number, size, words, center, label, description, by_model, supported, read in rows
    ]


def phrase_labels(conn: sqlite3.Connection, clustering_id: int) -> dict[int, ClusterName]:
    """Returns the name of each cluster by phrases of its members, by number; without those that have none."""
    rows = conn.execute(
        "SELECT number, label, description, supported, read FROM cluster_label"
        " WHERE clustering_id = ? AND config_hash = ?",
        (clustering_id, PHRASES),
    )
    return {
        number: ClusterName(
            label, description, support=None if read is None else Support(supported, read)
        )
        for number, label, description, supported, read in rows
    }


def labels_version(conn: sqlite3.Connection, clustering_id: int) -> tuple[str | None, int, int]:
    """Returns the configuration of the labels that are shown, their number, and the newest run that wrote any; they
    change whenever the labels change."""
    row = conn.execute(
        "SELECT g.label_config, count(l.number), coalesce(max(l.run_id), 0) FROM clustering AS g"
        " LEFT JOIN cluster_label AS l ON l.clustering_id = g.id AND l.config_hash = g.label_config"
        " WHERE g.id = ?",
        (clustering_id,),
    ).fetchone()
    return row[0], int(row[1]), int(row[2])


def show_labels(conn: sqlite3.Connection, clustering_id: int, config_hash: str) -> bool:
    """Makes the labels of a configuration those that are shown; returns whether others were shown before. Called before
    its first ones are stored."""
    changed = conn.execute(
        "UPDATE clustering SET label_config = ?1 WHERE id = ?2 AND label_config IS NOT ?1",
        (config_hash, clustering_id),
    )
    return changed.rowcount > 0


def clusters_without_label(
    conn: sqlite3.Connection, clustering_id: int, config_hash: str
) -> array[int]:
    """Returns the numbers of the clusters that have neither a label nor a reason for none under a configuration."""
    return read_ids(
        conn,
        "SELECT number FROM cluster AS c WHERE clustering_id = ?1 AND NOT EXISTS (SELECT 1 FROM"
        " cluster_label AS l WHERE l.clustering_id = ?1 AND l.number = c.number"
        " AND l.config_hash = ?2) ORDER BY number",
        (clustering_id, config_hash),
    )


def forget_failures(conn: sqlite3.Connection, clustering_id: int, config_hash: str) -> None:
    """Deletes the labels of clusters that a model gave none under a configuration."""
    conn.execute(
        "DELETE FROM cluster_label WHERE clustering_id = ? AND config_hash = ? AND reason IS NOT NULL",
        (clustering_id, config_hash),
    )


def add_labels(
    conn: sqlite3.Connection,
    clustering_id: int,
    config_hash: str,
    run_id: int,
    names: Mapping[int, ClusterName],
) -> None:
    """Stores the names of clusters, by number, none of which is stored yet under this configuration."""
    rows = []
    for number, name in names.items():
        place = clustering_id, config_hash, run_id, number
        support = name.support or (None, None)
        rows.append((*place, name.label, name.description, name.reason or None, *support))
    conn.executemany(
        "INSERT INTO cluster_label (clustering_id, config_hash, run_id, number, label, description,"
        " reason, supported, read) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def membership(conn: sqlite3.Connection, clustering_id: int) -> tuple[array[int], array[int]]:
    """Returns the conversation ids of a clustering, ascending, and the cluster of each; `OUTLIER` for an outlier."""
    with snapshot(conn):
        where = " FROM membership WHERE clustering_id = ? ORDER BY conversation_id"
        return (
            read_ids(conn, f"SELECT conversation_id{where}", (clustering_id,)),
            read_ids(conn, f"SELECT coalesce(cluster, {OUTLIER}){where}", (clustering_id,)),
        )


def ids_without_assignment(
    conn: sqlite3.Connection, clustering_id: int, vector_config: str
) -> array[int]:
    """Returns the ids of the conversations that have a vector but are neither in this clustering nor assigned to its
    groups, in id order.

    Args:
        vector_config: Hash of the configuration of the vectors.
    """
    # Imported here: it brings numpy, which a list of conversations does not wait for.
    from engine.goals.tables import vectors

    with snapshot(conn):
        all_ids = IdSet.every(conn)
        (vector_id,) = conn.execute(
            "SELECT id FROM vector_config WHERE config_hash = ?", (vector_config,)
        ).fetchone()
        with_vector = all_ids.of(vectors.vector_ids(conn, vector_id))
        placed = all_ids.of(
            read_ids(
                conn,
                "SELECT conversation_id FROM membership WHERE clustering_id = ?1 UNION ALL"
                " SELECT conversation_id FROM assignment WHERE clustering_id = ?1",
                (clustering_id,),
            )
        )
        return (with_vector - placed).ascending()


def assign(
    conn: sqlite3.Connection, clustering_id: int, run_id: int, entries: Sequence[Assignment]
) -> None:
    """Stores the groups of conversations that came after the clustering; an earlier assignment is replaced."""
    conn.executemany(
        "INSERT OR REPLACE INTO assignment (clustering_id, run_id, conversation_id, group_id, distance,"
        " after) VALUES (?, ?, ?, ?, ?, ?)",
        [(clustering_id, run_id, *astuple(entry)) for entry in entries],
    )


def assignments(conn: sqlite3.Connection, clustering_id: int) -> list[Assignment]:
    """Returns the conversations that were assigned after the clustering, in id order."""
    return [
        Assignment(*row)
        for row in conn.execute(
            "SELECT conversation_id, group_id, distance, after FROM assignment"
            " WHERE clustering_id = ? ORDER BY conversation_id",
            (clustering_id,),
        )
    ]


def outlier_count(conn: sqlite3.Connection, clustering_id: int) -> int:
    """Returns the number of conversations of a clustering that are in no group after the moves by people."""
    sql = (
        "SELECT count(*) FROM membership AS m LEFT JOIN goal_move AS v USING (clustering_id, conversation_id)"
        " WHERE m.clustering_id = ? AND iif(v.conversation_id IS NULL, m.cluster IS NULL, v.group_id IS NULL)"
    )
    return int(conn.execute(sql, (clustering_id,)).fetchone()[0])


def assigned_version(conn: sqlite3.Connection, clustering_id: int) -> tuple[int, int, int]:
    """Returns the number of conversations assigned, of those in no group, and the newest run that assigned any; they
    change whenever the assignments change."""
    row = conn.execute(
        "SELECT count(*), count(*) - count(group_id), coalesce(max(run_id), 0) FROM assignment"
        " WHERE clustering_id = ?",
        (clustering_id,),
    ).fetchone()
    return int(row[0]), int(row[1]), int(row[2])
