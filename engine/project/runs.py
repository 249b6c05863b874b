"""Stores the runs of a project: every execution of every stage, with everything that determined its result.

The counter of a run is how many conversations, or other units of its stage, are done and how many there are in all.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from engine.base.conversation import without_surrogates
from engine.base.folders import version
from engine.project.records import RunRow, RunState
from engine.project.sql import utc_now

Batch = TypeVar("Batch")
"""Results of a few conversations that are stored together."""

ReadBatch = Callable[[sqlite3.Connection, Sequence[int]], Batch]
"""A function that reads and returns the results for the conversations with these ids."""

PutBatch = Callable[[sqlite3.Connection, Batch], None]
"""A function that stores a batch."""

_COLUMNS = (
    "id, stage, state, config_hash, params, fingerprints, started_at, finished_at, done,"
    " total, message"
)
"""Columns of a run, in the order of the fields of `RunRow`."""


def create(
    conn: sqlite3.Connection,
    *,
    stage: str,
    config_hash: str,
    params: Mapping[str, Any],
    fingerprints: Mapping[str, Any],
) -> int:
    """Records that a run begins; returns its id."""
    cursor = conn.execute(
        "INSERT INTO run (stage, state, config_hash, params, fingerprints, code_version, started_at, pid)"
        " VALUES (?, 'running', ?, ?, ?, ?, ?, ?)",
        (
            stage,
            config_hash,
            json.dumps(dict(params), sort_keys=True),
            json.dumps(dict(fingerprints), sort_keys=True),
            version(),
            utc_now(),
            os.getpid(),
        ),
    )
    return int(cursor.lastrowid or 0)


def count(conn: sqlite3.Connection, run_id: int, done: int, total: int | None) -> None:
    """Sets the counter of a run; belongs in the transaction that stores the batch it counts."""
    conn.execute("UPDATE run SET done = ?, total = ? WHERE id = ?", (done, total, run_id))


def measure_replies(conn: sqlite3.Connection, run_id: int, tokens: float | None) -> None:
    """Stores the mean number of tokens of the replies of endpoints in a run; None changes nothing."""
    if tokens is not None:
        conn.execute("UPDATE run SET tokens_per_reply = ? WHERE id = ?", (tokens, run_id))


def tokens_per_reply(
    conn: sqlite3.Connection, stage: str, fingerprints: Mapping[str, Any]
) -> float | None:
    """Returns the mean number of tokens of the replies in the newest run of a stage with the same model; None before
    any."""
    row = conn.execute(
        "SELECT tokens_per_reply FROM run WHERE stage = ? AND fingerprints = ?"
        " AND tokens_per_reply IS NOT NULL ORDER BY id DESC LIMIT 1",
        (stage, json.dumps(dict(fingerprints), sort_keys=True)),
    ).fetchone()
    return None if row is None else float(row[0])


def put_batch(
    conn: sqlite3.Connection, put: PutBatch[Batch], batch: Batch, counter: tuple[int, int, int]
) -> None:
    """Stores a batch together with the counter of its run.

    Args:
        counter: Id of the run, number of conversations that are done, and of all of them.
    """
    put(conn, batch)
    count(conn, *counter)


def finish(conn: sqlite3.Connection, run_id: int, state: RunState, message: str) -> None:
    """Records how a run ended; the message may contain the name of a file that is no valid text."""
    conn.execute(
        "UPDATE run SET state = ?, message = ?, finished_at = ? WHERE id = ?",
        (state, without_surrogates(message), utc_now(), run_id),
    )


def interrupt_running(conn: sqlite3.Connection) -> int:
    """Marks runs that are still `running` as interrupted; returns how many.

    Only the holder of the write lock may call this: it knows that no other process runs a stage.
    """
    return conn.execute("UPDATE run SET state = 'interrupted' WHERE state = 'running'").rowcount


def all_runs(conn: sqlite3.Connection) -> list[RunRow]:
    """Returns every run, newest first."""
    return [
        _run_of_row(row) for row in conn.execute(f"SELECT {_COLUMNS} FROM run ORDER BY id DESC")
    ]


def interrupted(conn: sqlite3.Connection) -> list[RunRow]:
    """Returns the interrupted runs that no later run of the same stage and configuration resumed, newest first."""
    return [
        _run_of_row(row)
        for row in conn.execute(
            f"SELECT {_COLUMNS} FROM run WHERE state = 'interrupted' AND NOT EXISTS (SELECT 1 FROM"
            " run AS later WHERE later.id > run.id AND later.stage = run.stage"
            " AND later.config_hash = run.config_hash) ORDER BY id DESC"
        )
    ]


def _run_of_row(row: tuple[Any, ...]) -> RunRow:
    """Returns the record of a row of `_COLUMNS`."""
    run_id, stage, state, config_hash, params, fingerprints, *rest = row
    return RunRow(
        run_id, stage, state, config_hash, json.loads(params), json.loads(fingerprints), *rest
    )
