"""Stores decisions on groups, which are appended and never changed or deleted, and the answers of a model on pairs of
groups.

An *act* is one or more decisions that were made together; its id is that of the first one. An undo appends a row that
names the act, which is active as long as there is no such row. `reviewed` names the decision of a model that a person's
decision confirms (one of kind `agree`, which changes no group) or replaces.

A new clustering repeats the decisions on an earlier one where they can be transferred: the column `carried` names the
decision that was repeated, which is `GoalDecision.source_id`. The table `decision_kept` has those that could not be.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from engine.goals.merges.merge_state import after_reviews
from engine.goals.records import GoalDecision, PairAnswer
from engine.goals.tables.vectors import packed, unpacked
from engine.project.sql import not_undone, to_json, utc_now

_IS_ACTIVE = not_undone("decision", "d.act")
"""SQL condition that the act of a decision `d` is active."""
_COLUMNS = (
    "id, act, kind, sides, labels, names, author, model, probability, evidence, given_at, carried,"
    " reviewed"
)
"""The columns of a decision, in the order in which it is stored and read."""


def next_id(conn: sqlite3.Connection) -> int:
    """Returns the id that the next decision will have, in this transaction."""
    row = conn.execute("SELECT coalesce(max(id), 0) + 1 FROM decision").fetchone()
    return int(row[0])


def newest_row(conn: sqlite3.Connection, clustering_id: int) -> int:
    """Returns the id of the newest row of a clustering, an undo included; 0 before the first."""
    row = conn.execute(
        "SELECT coalesce(max(id), 0) FROM decision WHERE clustering_id = ?", (clustering_id,)
    ).fetchone()
    return int(row[0])


def append(conn: sqlite3.Connection, clustering_id: int, decisions: Sequence[GoalDecision]) -> None:
    """Appends decisions, which have their ids and that of their act already."""
    conn.executemany(
        f"INSERT INTO decision (clustering_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                clustering_id, d.id, d.act, d.kind, to_json(d.sides), to_json(d.labels), to_json(d.names),
                d.author, d.model, d.probability, None if d.evidence is None else to_json(d.evidence),
                d.given_at, d.source_id, d.reviewed,
            )
            for d in decisions
        ],
    )  # fmt: skip
    conn.executemany(
        "INSERT INTO decision_part (decision_id, part, ids) VALUES (?, ?, ?)",
        [(d.id, part, packed(ids)) for d in decisions for part, ids in enumerate(d.parts)],
    )


def undo(conn: sqlite3.Connection, clustering_id: int, act: int) -> None:
    """Appends a row that undoes an act; it is an act of its own, so its id stands in both columns."""
    conn.execute(
        "INSERT INTO decision (id, clustering_id, act, kind, target, sides, labels, names, author,"
        " model, given_at) VALUES (?1, ?2, ?1, 'undo', ?3, '[]', '[]', '[]', 'human', '', ?4)",
        (next_id(conn), clustering_id, act, utc_now()),
    )


def history(conn: sqlite3.Connection, clustering_id: int) -> list[GoalDecision]:
    """Returns all decisions on a clustering, oldest first, including those that are not in force."""
    parts: dict[int, list[array[int]]] = {}
    for decision, ids in conn.execute(
        "SELECT p.decision_id, p.ids FROM decision AS d JOIN decision_part AS p ON p.decision_id = d.id"
        " WHERE d.clustering_id = ? ORDER BY p.decision_id, p.part",
        (clustering_id,),
    ):
        parts.setdefault(decision, []).append(unpacked(ids))
    return after_reviews(
        _decision(row, parts)
        for row in conn.execute(
            f"SELECT {_COLUMNS}, {_IS_ACTIVE} FROM decision AS d"
            " WHERE d.clustering_id = ? AND d.target IS NULL ORDER BY d.id",
            (clustering_id,),
        )
    )


def _decision(row: tuple[Any, ...], parts: Mapping[int, Sequence[array[int]]]) -> GoalDecision:
    """Returns the decision of a row of `_COLUMNS` and `_IS_ACTIVE`; `parts` has its parts by id of the decision."""
    decision_id, act, kind, sides, labels, names, author, model, probability, *rest = row
    evidence, given_at, source_id, reviewed, active = rest
    return GoalDecision(
        kind=kind,
        sides=tuple(json.loads(sides)),
        names=tuple((label, description) for label, description in json.loads(names)),
        parts=tuple(parts.get(decision_id, ())),
        author=author,
        model=model,
        probability=probability,
        evidence=None if evidence is None else json.loads(evidence),
        source_id=source_id,
        labels=tuple(json.loads(labels)),
        id=decision_id,
        act=act,
        given_at=given_at,
        reviewed=reviewed,
        active=bool(active),
    )


def add_unplaced(conn: sqlite3.Connection, clustering_id: int, reasons: Mapping[int, str]) -> None:
    """Stores the reasons why decisions on earlier clusterings, by id, could not be transferred to this one."""
    conn.executemany(
        "INSERT INTO decision_kept (clustering_id, decision_id, reason) VALUES (?, ?, ?)",
        [(clustering_id, decision, reason) for decision, reason in reasons.items()],
    )


def unplaced(conn: sqlite3.Connection, clustering_id: int) -> list[tuple[int, int, str]]:
    """Returns (decision id, its clustering, reason) of each decision that could not be transferred here."""
    return [
        (int(row[0]), int(row[1]), str(row[2]))
        for row in conn.execute(
            "SELECT k.decision_id, d.clustering_id, k.reason FROM decision_kept AS k"
            " JOIN decision AS d ON d.id = k.decision_id WHERE k.clustering_id = ? ORDER BY 1",
            (clustering_id,),
        )
    ]


# Answers of a model on pairs


@dataclass(frozen=True, slots=True)
class AnswerEntry:
    """An answer to store.

    Attributes:
        sides: Key of the pair, see `MergeState.sides_key`.
        calls: Requests that the answer took; 0 where the model could not be asked.
        seconds: Time that it took.
    """

    sides: str
    answer: PairAnswer
    calls: int
    seconds: float


_ANSWER_COLUMNS = (
    "yes, yes_reversed, reason, label, description, model, prompt, reason_against, spoken"
)
"""The columns of an answer, in the order of `PairAnswer`."""


def show_answers(conn: sqlite3.Connection, clustering_id: int, config_hash: str) -> None:
    """Makes the answers of a configuration those that are shown for a clustering; called before its first ones."""
    conn.execute("UPDATE clustering SET pair_config = ? WHERE id = ?", (config_hash, clustering_id))


def forget_failures(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes the reasons why the model could not be asked about pairs, under a configuration."""
    conn.execute("DELETE FROM pair_answer WHERE config_hash = ? AND calls = 0", (config_hash,))


def add_answers(
    conn: sqlite3.Connection, config_hash: str, run_id: int, entries: Sequence[AnswerEntry]
) -> None:
    """Stores answers; an earlier answer on the same pair is replaced."""
    conn.executemany(
        f"INSERT OR REPLACE INTO pair_answer (config_hash, run_id, sides, {_ANSWER_COLUMNS}, calls, seconds)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (config_hash, run_id, entry.sides, *astuple(entry.answer), entry.calls, entry.seconds)
            for entry in entries
        ],
    )


def answers(conn: sqlite3.Connection, config_hash: str | None) -> dict[str, PairAnswer]:
    """Returns all answers under a configuration by key of the pair; a pair that was not asked is absent."""
    rows = conn.execute(
        f"SELECT sides, {_ANSWER_COLUMNS} FROM pair_answer WHERE config_hash = ?", (config_hash,)
    )
    return {  # SQLite has no booleans
        sides: replace(PairAnswer(*answer), spoken=bool(answer[-1])) for sides, *answer in rows
    }


def answer_count(conn: sqlite3.Connection, config_hash: str | None) -> int:
    """Returns the number of answers under a configuration, those of pairs that the model could not be asked about
    included."""
    sql = "SELECT count(*) FROM pair_answer WHERE config_hash = ?"
    return int(conn.execute(sql, (config_hash,)).fetchone()[0])


def requests_per_pair(conn: sqlite3.Connection, model: str) -> float | None:
    """Returns the mean number of requests for the answers of a model, by its label; None before any."""
    (mean,) = conn.execute(
        "SELECT avg(calls) FROM pair_answer WHERE model = ? AND calls > 0", (model,)
    ).fetchone()
    return None if mean is None else float(mean)


def answer_cost(conn: sqlite3.Connection, config_hash: str | None) -> tuple[float, float] | None:
    """Returns the mean number of requests and of seconds of a pair; None before the model was asked about any."""
    row = conn.execute(
        "SELECT avg(calls), avg(seconds) FROM pair_answer WHERE config_hash = ? AND calls > 0",
        (config_hash,),
    ).fetchone()
    return None if row[0] is None else (float(row[0]), float(row[1]))
