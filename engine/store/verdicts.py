"""Verdicts and notes: appended, never changed. What stands is derived, and undo appends an inverse.

A `give` or `note` row stands unless the newest row that targets it is an `undo`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from engine.rows import DecisionRule, JudgedId, State, Verdict, VerdictRow
from engine.store import scores, settings
from engine.store.sql import snapshot, utc_now

_STANDS = (
    "coalesce((SELECT act.kind FROM verdict AS act WHERE act.target = v.id"
    " ORDER BY act.id DESC LIMIT 1), 'redo') = 'redo'"
)

_COLUMNS = "v.id, v.conversation_id, v.verdict, v.note, v.given_at"

STANDING_VERDICTS = (
    "SELECT v.conversation_id AS conversation_id, v.verdict AS verdict, max(v.id) FROM verdict AS v"
    f" WHERE v.kind = 'give' AND {_STANDS} GROUP BY v.conversation_id"
)
"""(conversation_id, verdict) of every conversation that has one, as a query to select from."""

STANDING_NOTES = (
    "SELECT conversation_id, note FROM (SELECT v.conversation_id AS conversation_id,"
    f" v.note AS note, max(v.id) FROM verdict AS v WHERE v.kind IN ('give', 'note')"
    f" AND (v.kind = 'note' OR v.note <> '') AND {_STANDS} GROUP BY v.conversation_id)"
    " WHERE note <> ''"
)
"""(conversation_id, note) of every conversation that has one."""

STANDING_TAGS = (
    "SELECT conversation_id, tag FROM (SELECT v.conversation_id AS conversation_id,"
    f" v.note AS tag, v.kind AS kind, max(v.id) FROM verdict AS v WHERE v.kind IN ('tag', 'untag')"
    f" AND {_STANDS} GROUP BY v.conversation_id, v.note) WHERE kind = 'tag'"
)
"""(conversation_id, tag) of every tag that stands."""


def verdict_sql(conversation: str) -> str:
    """The standing verdict of the conversation whose id `conversation` names, as an SQL expression."""
    return (
        f"(SELECT v.verdict FROM verdict AS v WHERE v.conversation_id = {conversation}"
        f" AND v.kind = 'give' AND {_STANDS} ORDER BY v.id DESC LIMIT 1)"
    )


def give(
    conn: sqlite3.Connection, conversation_id: int, verdict: Verdict, note: str = ""
) -> VerdictRow:
    """Appends a verdict."""
    return _append(conn, conversation_id, "give", verdict, note, None)


def note(conn: sqlite3.Connection, conversation_id: int, text: str) -> VerdictRow:
    """Appends a note, which leaves the verdict as it is; an empty one clears the note."""
    return _append(conn, conversation_id, "note", None, text, None)


def undo(conn: sqlite3.Connection) -> VerdictRow | None:
    """Takes back the newest verdict or note that stands and returns it; None when nothing is left."""
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM verdict AS v WHERE v.kind IN ('give', 'note') AND {_STANDS}"
        " ORDER BY v.id DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    _append(conn, row[1], "undo", None, "", row[0])
    return _row(row)


def redo(conn: sqlite3.Connection) -> VerdictRow | None:
    """Makes stand again what the newest undo took back; None when nothing was undone since the last verdict."""
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM verdict AS u JOIN verdict AS v ON v.id = u.target"
        " WHERE u.kind = 'undo' AND u.id > (SELECT max(id) FROM verdict"
        f" WHERE kind IN ('give', 'note')) AND NOT {_STANDS} ORDER BY u.id DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    _append(conn, row[1], "redo", None, "", row[0])
    return _row(row)


def current(conn: sqlite3.Connection, conversation_id: int) -> VerdictRow | None:
    """What stands: the newest verdict with the newest note, under the id and time of the newer of the two."""
    rows = conn.execute(
        f"SELECT {_COLUMNS}, v.kind FROM verdict AS v WHERE v.conversation_id = ?"
        f" AND v.kind IN ('give', 'note') AND {_STANDS} ORDER BY v.id DESC",
        (conversation_id,),
    ).fetchall()
    if not rows:
        return None
    verdict = next((Verdict(row[2]) for row in rows if row[2] is not None), None)
    text = next((row[3] for row in rows if row[3] or row[5] == "note"), "")
    return VerdictRow(rows[0][0], conversation_id, verdict, text, rows[0][4])


def tally(conn: sqlite3.Connection) -> dict[Verdict, int]:
    """How many conversations stand under each verdict; every verdict is a key."""
    expression = verdict_sql("judged.conversation_id")
    found = dict(
        conn.execute(
            f"SELECT {expression} AS verdict, count(*) FROM (SELECT DISTINCT conversation_id"
            " FROM verdict) AS judged GROUP BY verdict"
        ).fetchall()
    )
    return {verdict: found.get(verdict.value, 0) for verdict in Verdict}


def export_verdicts(conn: sqlite3.Connection) -> Iterator[JudgedId]:
    """A line for each imported id whose conversation has a verdict or a note, in the order of import."""
    with snapshot(conn):
        ids = [
            row[0]
            for row in conn.execute(
                "SELECT DISTINCT conversation_id FROM verdict ORDER BY conversation_id"
            )
        ]
        for conversation_id in ids:
            stands = current(conn, conversation_id)
            if stands is None:
                continue
            for _, external_id, source in scores.imported_ids(conn, [conversation_id]):
                yield JudgedId(external_id, source, stands)


def queue(conn: sqlite3.Connection) -> list[tuple[int, float | None, State, str | None]]:
    """(id, normalised score, state, reason) of what waits for a verdict, what is worth most first.

    Borderline ones nearest the threshold, then incomplete ones by falling score, then unscored ones; complete
    ones are left out.
    """
    with snapshot(conn):
        rule = settings.rule(conn)
        rows = conn.execute(
            "SELECT c.id, s.p_end_normalised, s.reason FROM conversation AS c LEFT JOIN score AS s"
            " ON s.conversation_id = c.id AND s.config_hash = ?"
            f" WHERE {verdict_sql('c.id')} IS NULL",
            (settings.score_config(conn),),
        ).fetchall()
    waiting = [(row[0], row[1], rule.state(row[1]), row[2]) for row in rows]
    waiting = [item for item in waiting if item[2] is not State.COMPLETE]
    waiting.sort(key=lambda item: _worth(rule, item[0], item[1], item[2]))
    return waiting


def _worth(
    rule: DecisionRule, conversation_id: int, score: float | None, state: State
) -> tuple[int, float, int]:
    if score is None:
        return (2, 0.0, conversation_id)
    if state is State.BORDERLINE:
        return (0, abs(score - rule.threshold), conversation_id)
    return (1, -score, conversation_id)


def _append(
    conn: sqlite3.Connection,
    conversation_id: int,
    kind: str,
    verdict: Verdict | None,
    text: str,
    target: int | None,
) -> VerdictRow:
    now = utc_now()
    cursor = conn.execute(
        "INSERT INTO verdict (conversation_id, kind, verdict, note, given_at, target)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (conversation_id, kind, verdict, text, now, target),
    )
    return VerdictRow(int(cursor.lastrowid or 0), conversation_id, verdict, text, now)


def _row(row: tuple[Any, ...]) -> VerdictRow:
    verdict = None if row[2] is None else Verdict(row[2])
    return VerdictRow(row[0], row[1], verdict, row[3], row[4])
