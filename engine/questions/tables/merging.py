"""The part of people's answers in a merge of two projects; see `engine.conversations.tables.merging`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from heapq import merge as merge_sorted
from typing import Any

from engine.conversations.records import MergeReport
from engine.conversations.tables.merging import note_conflict
from engine.questions.tables import answers

_ACT_COLUMNS = "id, conversation_id, question, kind, value, given_at, annotator, target"
"""Columns of an act; `target` is the id of the act that it takes back, or none."""

_TIME = 5
"""Place of `given_at` among them."""

_ActKey = tuple[str, int]
"""Which file an act is of, `ours` or `theirs`, and its id there."""


def count_differing_verdicts(
    conn: sqlite3.Connection, theirs: sqlite3.Connection, report: MergeReport
) -> None:
    """Counts the conversations whose verdict in force differs."""
    new_ids = dict(conn.execute("SELECT old, new FROM match WHERE known"))
    ours = dict(answers.in_force(conn))
    for key, verdict in answers.in_force(theirs):
        if key in new_ids and ours.get(new_ids[key], verdict) is not verdict:
            name = "SELECT external_id FROM main.conversation WHERE id = ?"
            note_conflict(conn, report, "verdicts", name, (new_ids[key],))


def add_answers(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Adds answers in the order in which they were given, and the earlier texts that some are of.

    Each is an *act*, and an undo is one whose target is the act that it takes back. An act that both files have, with
    the same target, is one. The newest act is the one in force, so all acts are numbered anew.
    """
    new_ids = dict(conn.execute("SELECT old, new FROM match"))
    our_acts = conn.execute(f"SELECT {_ACT_COLUMNS} FROM main.answer ORDER BY id").fetchall()
    our_ids = {act[1:]: act[0] for act in our_acts}
    act_keys: dict[int, _ActKey] = {}  # by their id of the act: our act if we have it, else theirs
    added = []  # their acts that we lack: id there, the other columns, and the key of the target
    for act_id, conversation_id, *content, target in conn.execute(
        f"SELECT {_ACT_COLUMNS} FROM other.answer ORDER BY id"
    ):
        target_key = None if target is None else act_keys[target]
        row = (new_ids[conversation_id], *content)
        our_id = None
        # An act on one that we lack is not ours either.
        if target_key is None or target_key[0] == "ours":
            our_id = our_ids.get((*row, None if target_key is None else target_key[1]))
        act_keys[act_id] = ("theirs", act_id) if our_id is None else ("ours", our_id)
        if our_id is None:
            added.append((act_id, *row, target_key))
    numbers: dict[_ActKey, int] = {}  # new ids
    rows: list[tuple[Any, ...]] = []
    sides = (
        [("ours", act[:-1], None if act[-1] is None else ("ours", act[-1])) for act in our_acts],
        [("theirs", act[:-1], act[-1]) for act in added],
    )
    # Both sides stay in the order of their ids, and a target comes before the act on it, so its number is known.
    by_time = merge_sorted(*sides, key=lambda act: act[1][_TIME])
    for number, (side, act, target_key) in enumerate(by_time, start=1):
        numbers[side, act[0]] = number
        rows.append((number, *act[1:], None if target_key is None else numbers[target_key]))
    _add_earlier_states(conn, numbers, act_keys)
    if added:
        conn.execute("DELETE FROM main.answer")
        conn.executemany(
            f"INSERT INTO main.answer ({_ACT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows
        )
        report.added["answers"] = len(added)


def _add_earlier_states(
    conn: sqlite3.Connection, numbers: Mapping[_ActKey, int], act_keys: Mapping[int, _ActKey]
) -> None:
    """Adds earlier texts, each with the new number of the last act that was given before it was replaced.

    Args:
        numbers: New numbers of all acts.
        act_keys: Which acts those of the other file are, by their ids there.
    """
    acts_until = "SELECT id FROM {}.answer WHERE conversation_id = ? AND id <= ?"
    for key, conversation_id, last in conn.execute(
        "SELECT id, conversation_id, answer_id FROM main.earlier_state"
    ).fetchall():
        acts = conn.execute(acts_until.format("main"), (conversation_id, last))
        number = max((numbers["ours", act_id] for (act_id,) in acts), default=0)
        conn.execute("UPDATE main.earlier_state SET answer_id = ? WHERE id = ?", (number, key))
    columns = "hash, line, raw, truth, messages, packed, score"
    for old_id, new_id, source_id, last, replaced_at, *rest in conn.execute(
        f"SELECT m.old, m.new, s.new, answer_id, replaced_at, {columns} FROM other.earlier_state AS o"
        " JOIN match AS m ON m.old = o.conversation_id JOIN source_match AS s ON s.old = o.source_id"
        " WHERE NOT EXISTS (SELECT 1 FROM main.earlier_state AS e WHERE e.conversation_id = m.new"
        " AND e.hash = o.hash) ORDER BY o.id"
    ).fetchall():
        acts = conn.execute(acts_until.format("other"), (old_id, last))
        number = max((numbers[act_keys[act_id]] for (act_id,) in acts), default=0)
        conn.execute(
            f"INSERT INTO main.earlier_state (conversation_id, source_id, answer_id, replaced_at, {columns})"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (new_id, source_id, number, replaced_at, *rest),
        )
