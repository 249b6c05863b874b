"""Giving decisions: applied to a desk and appended to the project as one act."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.goal_rows import DeskDecision
from engine.goals.carrying import carry
from engine.goals.desk import Desk
from engine.stages.goal_data import read_desk
from engine.store import goal_decisions
from engine.store.sql import utc_now


def give(
    conn: sqlite3.Connection, clustering_id: int, desk: Desk, decisions: Sequence[DeskDecision]
) -> list[DeskDecision]:
    """Gives decisions as one act, in the transaction of the caller.

    Args:
        desk: As it stands; changed, so a copy where the transaction may fail.

    Returns:
        The decisions with id, act, time and what their sides were called.

    Raises:
        UsageError: One cannot be done to what stands.
    """
    first = goal_decisions.next_id(conn)
    given = []
    for number, decision in enumerate(decisions, first):
        labels = tuple(desk.groups[side].label for side in decision.sides if side in desk.groups)
        made = replace(decision, id=number, act=first, labels=labels, given_at=utc_now())
        desk.apply(made)
        given.append(made)
    goal_decisions.append(conn, clustering_id, given)
    return given


def carry_over(conn: sqlite3.Connection, earlier: int, clustering_id: int) -> tuple[int, int]:
    """Takes the decisions of persons over from an earlier clustering, and those that already waited there for a later
    one; what finds no place waits on.

    Returns:
        How many decisions were taken over, and how many wait.
    """
    new = read_desk(conn, clustering_id)
    waiting: dict[int, str] = {}
    count = 0
    for source, wanted in _sources(conn, earlier).items():
        history = goal_decisions.history(conn, source)
        standing = [decision for decision, stands in history if stands]
        if wanted is not None:
            standing = [decision for decision in standing if decision.id in wanted]
        taking = carry(read_desk(conn, source), standing, new)
        while True:
            try:
                decision = next(taking)
            except StopIteration as end:
                waiting.update(end.value)
                break
            give(conn, clustering_id, new, [decision])
            count += 1
    goal_decisions.keep(conn, clustering_id, waiting)
    return count, len(waiting)


def _sources(conn: sqlite3.Connection, earlier: int) -> dict[int, set[int] | None]:
    """Clusterings whose decisions are taken over, oldest first, with which ones; None is all that stand."""
    found: dict[int, set[int] | None] = {}
    kept: Iterable[tuple[int, int, str]] = goal_decisions.kept(conn, earlier)
    for decision, source, _ in kept:
        wanted = found.setdefault(source, set())
        if wanted is not None:
            wanted.add(decision)
    found = dict(sorted(found.items()))
    found[earlier] = None
    return found
