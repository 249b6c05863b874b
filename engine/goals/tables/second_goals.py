"""What a person said of second goals: that a conversation has one, or that it has not. A second goal is a further group
that a conversation may belong to by its vector, with a share.

Acts are appended; the state is derived from the newest act on a conversation and a current group that was not undone.
They belong to a clustering and follow its groups through merges. A clustering that is made later takes them over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from engine.base.errors import NotFound
from engine.goals.records import (
    LEAST_SHARE,
    SecondGoal,
    SecondGoalJudgement,
    SecondGoalState,
    UndoneJudgement,
)
from engine.goals.tables import clusterings
from engine.goals.tables.groups import proposed_second
from engine.project.sql import utc_now

_STATES: dict[str | None, SecondGoalState] = {
    None: "proposed",
    "confirm": "confirmed",
    "remove": "removed",
}
"""The state of a second goal by the newest act on it; None is no act."""

_IN_FORCE = "s.kind <> 'undo' AND NOT EXISTS (SELECT 1 FROM second_goal AS u WHERE u.target = s.id)"
"""SQL condition on an act `s` that was not undone."""


def of_conversation(
    conn: sqlite3.Connection, conversation_id: int, least: float = LEAST_SHARE
) -> list[SecondGoal]:
    """Returns the second goals of a conversation in the clustering that is shown, removed ones too, the largest share
    first.

    Args:
        least: Least share. Goals with less than `LEAST_SHARE` are shown nowhere else and cannot be judged.
    """
    key = clusterings.shown_id(conn)
    if key is None:
        return []
    rows = conn.execute(
        f"SELECT q.current, l.label, q.share, (SELECT s.kind FROM second_goal AS s JOIN goal_group AS b"
        " ON b.clustering_id = s.clustering_id AND b.group_id = s.group_id WHERE s.clustering_id = ?1"
        f" AND s.conversation_id = ?2 AND b.current = q.current AND {_IN_FORCE}"
        f" ORDER BY s.id DESC LIMIT 1) FROM ({proposed_second('= ?2', least)}) AS q JOIN goal_label AS l"
        " ON l.clustering_id = ?1 AND l.group_id = q.current ORDER BY q.share DESC, q.current",
        (key, conversation_id),
    )
    return [SecondGoal(group, label, share, _STATES[kind]) for group, label, share, kind in rows]


def judge(
    conn: sqlite3.Connection,
    conversation_id: int,
    group_id: str,
    judgement: SecondGoalJudgement,
    annotator: str = "",
) -> None:
    """Confirms or removes a second goal; the same again changes nothing.

    Args:
        group_id: Current group that is the goal.
        annotator: Name of the person; empty if none was given.

    Raises:
        NotFound: The conversation has no such second goal.
    """
    goals = {goal.group_id: goal for goal in of_conversation(conn, conversation_id)}
    if group_id not in goals:
        raise NotFound("The conversation has no such second goal.")
    if goals[group_id].state == _STATES[judgement]:
        return
    conn.execute(
        "INSERT INTO second_goal (clustering_id, conversation_id, group_id, kind, annotator, given_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (clusterings.shown_id(conn), conversation_id, group_id, judgement, annotator, utc_now()),
    )


def undo(conn: sqlite3.Connection, annotator: str = "") -> UndoneJudgement | None:
    """Takes back the newest act on the clustering that is shown and returns it; None if there is none."""
    key = clusterings.shown_id(conn)
    row = conn.execute(
        "SELECT s.id, s.conversation_id, s.group_id, s.kind, coalesce(l.label, s.group_id)"
        " FROM second_goal AS s LEFT JOIN goal_group AS b ON b.clustering_id = s.clustering_id"
        " AND b.group_id = s.group_id LEFT JOIN goal_label AS l ON l.clustering_id = s.clustering_id"
        f" AND l.group_id = b.current WHERE s.clustering_id = ? AND {_IN_FORCE} ORDER BY s.id DESC LIMIT 1",
        (key,),
    ).fetchone()
    if row is None:
        return None
    act, conversation_id, group_id, kind, label = row
    conn.execute(
        "INSERT INTO second_goal (clustering_id, conversation_id, group_id, kind, target, annotator,"
        " given_at) VALUES (?, ?, ?, 'undo', ?, ?, ?)",
        (key, conversation_id, group_id, act, annotator, utc_now()),
    )
    return UndoneJudgement(conversation_id, label, kind)


def judgements(
    conn: sqlite3.Connection, clustering_id: int
) -> dict[tuple[int, str], SecondGoalJudgement]:
    """Returns what was said of the second goals of a clustering, by conversation and current group."""
    return {
        (conversation_id, group): kind
        for conversation_id, group, kind, _ in conn.execute(
            "SELECT s.conversation_id, b.current, s.kind, max(s.id) FROM second_goal AS s"
            " JOIN goal_group AS b ON b.clustering_id = s.clustering_id AND b.group_id = s.group_id"
            f" WHERE s.clustering_id = ? AND b.current IS NOT NULL AND {_IN_FORCE} GROUP BY 1, 2",
            (clustering_id,),
        )
    }


def carry_over(
    conn: sqlite3.Connection, before: int, clustering_id: int, places: Mapping[str, Sequence[str]]
) -> None:
    """Says in another clustering what was said in the one before, with who said it and when.

    It is said of the second goal that the other clustering proposes for the conversation, if that is one of the places
    of the group; otherwise of the first place, so that it counts where merges or a later clustering bring it back.

    Args:
        before: Id of the clustering where it was said.
        clustering_id: Id of the other one.
        places: The groups of the other clustering where the members of a current group of the one before are now, the
            one that matters most first; what was said of a group without any stays where it was said.
    """
    known_judgements = judgements(conn, clustering_id)
    proposed = {
        (conversation_id, group)
        for conversation_id, group, _ in conn.execute(
            proposed_second("IN (SELECT conversation_id FROM second_goal)"), (clustering_id,)
        )
    }
    rows = conn.execute(
        "SELECT s.conversation_id, b.current, s.kind, s.annotator, s.given_at, max(s.id)"
        " FROM second_goal AS s JOIN goal_group AS b ON b.clustering_id = s.clustering_id"
        " AND b.group_id = s.group_id WHERE s.clustering_id = ? AND b.current IS NOT NULL"
        f" AND {_IN_FORCE} GROUP BY 1, 2 ORDER BY max(s.id)",
        (before,),
    ).fetchall()
    # `max(s.id)` makes SQLite take the other columns from the newest act of each conversation and group
    for conversation_id, group, kind, annotator, given_at, _ in rows:
        candidates = places.get(group) or ()
        target = next((key for key in candidates if (conversation_id, key) in proposed), None)
        target = target or next(iter(candidates), None)
        if target is None or known_judgements.get((conversation_id, target)) == kind:
            continue
        conn.execute(
            "INSERT INTO second_goal (clustering_id, conversation_id, group_id, kind, annotator, given_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (clustering_id, conversation_id, target, kind, annotator, given_at),
        )
