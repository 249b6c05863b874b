"""Verdicts, notes and tags. Rows are appended and never changed; the current state is derived; undo appends a row.

A verdict holds for the text that it was given to. Where an import replaced the text, it stays in the log and is shown,
but it is not in force; notes and tags are.

A row of a kind in `STATEMENT_KINDS` is in force unless the newest row that targets it is an `undo`. Tags of many
conversations, and verdicts that were imported, are one act: its rows are adjacent, have one time that no other act has,
and are undone and redone together.

Each row has the name of the person who gave it, empty without one. The newest verdict of the kind `give` is the one in
force, whoever gave it; those of the kind `repeat` are given without seeing it: by the same person to see how sure they
are, or by another person (`engine.questions.tables.second_verdicts`).
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.base.conversation import Verdict, without_surrogates
from engine.base.errors import UsageError
from engine.base.text import display_safe
from engine.completeness.tables import score_sets
from engine.conversations.tables.earlier_states import GIVEN_TO_THIS_TEXT, IS_IN_FORCE
from engine.project.sql import chunks, placeholders, utc_now
from engine.questions.records import EarlierActs, VerdictKind, VerdictRow


@dataclass(frozen=True, slots=True)
class Act:
    """A verdict, a note or a tag that is stored with others as one act.

    Attributes:
        text: The note, or the tag.
        annotator: Name of the person; empty without a name.
    """

    conversation_id: int
    kind: VerdictKind
    verdict: Verdict | None = None
    text: str = ""
    annotator: str = ""


_COLUMNS = "v.id, v.conversation_id, v.verdict, v.note, v.given_at, v.kind, v.annotator"
STATEMENT_KINDS = "('give', 'repeat', 'note', 'tag', 'untag')"
"""Kinds of rows that state something about a conversation and can be undone."""

CURRENT_VERDICTS = (
    "SELECT v.conversation_id AS conversation_id, v.verdict AS verdict, v.annotator AS annotator,"
    " max(v.id) AS id FROM verdict AS v"
    f" WHERE v.kind = 'give' AND {IS_IN_FORCE} AND {GIVEN_TO_THIS_TEXT} GROUP BY v.conversation_id"
)
"""(conversation_id, verdict, annotator) of every conversation that has one, as a query to select from."""

CURRENT_NOTES = (
    "SELECT conversation_id, note FROM (SELECT v.conversation_id AS conversation_id,"
    f" v.note AS note, max(v.id) FROM verdict AS v WHERE v.kind IN ('give', 'note')"
    f" AND (v.kind = 'note' OR v.note <> '') AND {IS_IN_FORCE} GROUP BY v.conversation_id)"
    " WHERE note <> ''"
)
"""(conversation_id, note) of every conversation that has one."""

CURRENT_TAGS = (
    "SELECT conversation_id, tag FROM (SELECT v.conversation_id AS conversation_id,"
    f" v.note AS tag, v.kind AS kind, max(v.id) FROM verdict AS v WHERE v.kind IN ('tag', 'untag')"
    f" AND {IS_IN_FORCE} GROUP BY v.conversation_id, v.note) WHERE kind = 'tag'"
)
"""(conversation_id, tag) of every tag in force."""


def give(
    conn: sqlite3.Connection,
    conversation_id: int,
    verdict: Verdict,
    note: str = "",
    annotator: str = "",
) -> VerdictRow:
    """Appends a verdict."""
    return _append(conn, Act(conversation_id, "give", verdict, note, annotator))


def give_all(conn: sqlite3.Connection, acts: Sequence[Act]) -> None:
    """Appends what is said of many conversations as one act.

    Raises:
        UsageError: A text cannot be stored.
    """
    for act in acts:
        _check_text(act.text)
        _check_text(act.annotator)
    time = _later_than_newest(conn)
    conn.executemany(
        "INSERT INTO verdict (conversation_id, kind, verdict, note, given_at, annotator)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            (act.conversation_id, act.kind, act.verdict, act.text, time, act.annotator)
            for act in acts
        ),
    )


def note(
    conn: sqlite3.Connection, conversation_id: int, text: str, annotator: str = ""
) -> VerdictRow:
    """Appends a note, which leaves the verdict as it is; an empty one clears the note."""
    return _append(conn, Act(conversation_id, "note", None, text, annotator))


def repeat(
    conn: sqlite3.Connection, conversation_id: int, verdict: Verdict, annotator: str = ""
) -> VerdictRow:
    """Appends a second verdict, given without seeing the first; the current verdict does not change."""
    return _append(conn, Act(conversation_id, "repeat", verdict, annotator=annotator))


def tag(
    conn: sqlite3.Connection, conversation_ids: Sequence[int], name: str, annotator: str = ""
) -> int:
    """Tags conversations in one act and returns how many of them did not have the tag.

    Raises:
        UsageError: The tag is empty.
    """
    return _tagging(conn, conversation_ids, name, "tag", annotator)


def untag(
    conn: sqlite3.Connection, conversation_ids: Sequence[int], name: str, annotator: str = ""
) -> int:
    """Takes a tag from conversations in one act and returns how many of them had it."""
    return _tagging(conn, conversation_ids, name, "untag", annotator)


def _tagging(
    conn: sqlite3.Connection,
    ids: Sequence[int],
    name: str,
    kind: Literal["tag", "untag"],
    annotator: str,
) -> int:
    """Tags or untags the conversations whose tags that changes, and returns how many they are."""
    _check_text(name)
    name = " ".join(name.split())
    if not name:
        raise UsageError("A tag needs a name.", "Write a word or two.")
    tagged_ids: set[int] = set()
    for keys in chunks(ids):
        tagged_ids.update(
            row[0]
            for row in conn.execute(
                f"SELECT conversation_id FROM ({CURRENT_TAGS}) WHERE tag = ?"
                f" AND conversation_id IN ({placeholders(keys)})",
                (name, *keys),
            )
        )
    changed_ids = [key for key in dict.fromkeys(ids) if (key in tagged_ids) == (kind == "untag")]
    give_all(conn, [Act(key, kind, None, name, annotator) for key in changed_ids])
    return len(changed_ids)


def _later_than_newest(conn: sqlite3.Connection) -> str:
    """Returns the current time, but later than the newest row: acts are distinguished by their times."""
    newest = conn.execute("SELECT given_at FROM verdict ORDER BY id DESC LIMIT 1").fetchone()
    time = utc_now()
    while newest is not None and time == newest[0]:
        time = utc_now()
    return time


def undo(conn: sqlite3.Connection) -> VerdictRow | None:
    """Undoes the newest act in force and returns it; None when nothing is left."""
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM verdict AS v WHERE v.kind IN {STATEMENT_KINDS} AND {IS_IN_FORCE}"
        " ORDER BY v.id DESC LIMIT 1"
    ).fetchone()
    return None if row is None else _undo_or_redo(conn, row, "undo")


def redo(conn: sqlite3.Connection) -> VerdictRow | None:
    """Redoes the act that the newest undo took back; None when nothing was undone since the last act."""
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM verdict AS u JOIN verdict AS v ON v.id = u.target"
        " WHERE u.kind = 'undo' AND u.id > (SELECT max(id) FROM verdict"
        f" WHERE kind IN {STATEMENT_KINDS}) AND NOT {IS_IN_FORCE} ORDER BY u.id DESC LIMIT 1"
    ).fetchone()
    return None if row is None else _undo_or_redo(conn, row, "redo")


def _undo_or_redo(
    conn: sqlite3.Connection, row: tuple[Any, ...], kind: Literal["undo", "redo"]
) -> VerdictRow:
    """Appends an undo or redo for every row of the act that `row` is of.

    Returns the newest verdict of the act, else its newest row, with the number of conversations.
    """
    newest, given_at = row[0], row[4]
    edge = "SELECT {0}(id) FROM verdict WHERE id {1} ? AND given_at <> ?"
    (before,) = conn.execute(edge.format("max", "<"), (newest, given_at)).fetchone()
    (after,) = conn.execute(edge.format("min", ">"), (newest, given_at)).fetchone()
    first = 1 if before is None else before + 1
    (end,) = conn.execute("SELECT max(id) FROM verdict").fetchone()
    last = end if after is None else after - 1
    conn.execute(
        "INSERT INTO verdict (conversation_id, kind, given_at, target)"
        " SELECT conversation_id, ?, ?, id FROM verdict WHERE id BETWEEN ? AND ? ORDER BY id",
        (kind, _later_than_newest(conn), first, last),
    )
    act = "FROM verdict AS v WHERE v.id BETWEEN ? AND ?"
    (count,) = conn.execute(
        f"SELECT count(DISTINCT v.conversation_id) {act}", (first, last)
    ).fetchone()
    row = conn.execute(
        f"SELECT {_COLUMNS} {act} ORDER BY v.kind = 'give' DESC, v.id DESC LIMIT 1", (first, last)
    ).fetchone()
    return _row(row, count)


def current(conn: sqlite3.Connection, conversation_id: int) -> VerdictRow | None:
    """Returns the newest verdict, the newest note and the tags in force, with the id and time of the newest row of
    them."""
    rows = conn.execute(
        f"SELECT {_COLUMNS} FROM verdict AS v WHERE v.conversation_id = ?"
        f" AND v.kind IN ('give', 'note', 'tag', 'untag') AND {IS_IN_FORCE} ORDER BY v.id DESC",
        (conversation_id,),
    ).fetchall()
    if not rows:
        return None
    verdict_row = next((row for row in rows if row[2] is not None), None)
    with_text = [row for row in rows if row[5] in ("give", "note")]
    text_row = next((row for row in with_text if row[3] or row[5] == "note"), None)
    newest: dict[str, Any] = {}
    for row in rows:
        if row[5] in ("tag", "untag"):
            newest.setdefault(row[3], row)
    tags = sorted(name for name, row in newest.items() if row[5] == "tag")
    note_row = text_row if text_row is not None and text_row[3] else None
    earlier = _earlier(
        conn, conversation_id, verdict_row, note_row, [newest[name] for name in tags]
    )
    if earlier is not None and earlier.verdict is not None:
        verdict_row = None
    return VerdictRow(
        rows[0][0],
        conversation_id,
        None if verdict_row is None else Verdict(verdict_row[2]),
        "" if text_row is None else text_row[3],
        rows[0][4],
        tuple(tags),
        earlier=earlier,
        annotator="" if verdict_row is None else verdict_row[6],
    )


def _earlier(
    conn: sqlite3.Connection,
    conversation_id: int,
    verdict_row: tuple[Any, ...] | None,
    note_row: tuple[Any, ...] | None,
    tag_rows: Sequence[tuple[Any, ...]],
) -> EarlierActs | None:
    """Returns those of the newest verdict, the newest note and the tags in force that were given to an earlier text."""
    states: list[tuple[int, int]] = conn.execute(
        "SELECT verdict_id, messages FROM earlier_state WHERE conversation_id = ? ORDER BY id",
        (conversation_id,),
    ).fetchall()
    last = states[-1][0] if states else 0
    earlier_rows = [
        row for row in (verdict_row, note_row, *tag_rows) if row is not None and row[0] <= last
    ]
    if not earlier_rows:
        return None
    newest = max(row[0] for row in earlier_rows)
    return EarlierActs(
        messages=next(count for verdict_id, count in states if newest <= verdict_id),
        verdict=Verdict(verdict_row[2])
        if verdict_row is not None and verdict_row in earlier_rows
        else None,
        note=note_row in earlier_rows,
        tags=tuple(row[3] for row in tag_rows if row in earlier_rows),
    )


def in_force(conn: sqlite3.Connection) -> list[tuple[int, Verdict]]:
    """Returns (conversation, verdict in force) of everything that has one, in id order."""
    rows = conn.execute(
        f"SELECT conversation_id, verdict FROM ({CURRENT_VERDICTS}) ORDER BY conversation_id"
    )
    return [(row[0], Verdict(row[1])) for row in rows]


def judged_pairs(conn: sqlite3.Connection) -> list[tuple[int, Verdict, float | None]]:
    """Returns (conversation, current verdict, current normalised score) of everything that has a verdict, in id
    order."""
    return [
        (row[0], Verdict(row[1]), row[2])
        for row in conn.execute(
            "SELECT j.conversation_id, j.verdict, s.p_end_normalised"
            f" FROM ({CURRENT_VERDICTS}) AS j LEFT JOIN score AS s"
            " ON s.conversation_id = j.conversation_id"
            " AND s.config_hash = ? ORDER BY j.conversation_id",
            (score_sets.hash_in_force(conn),),
        )
    ]


def scored_values(conn: sqlite3.Connection) -> tuple[array[int], array[float]]:
    """Returns the ids and current normalised scores of all scored conversations, by rising score."""
    ids, values = array("q"), array("d")
    cursor = conn.execute(
        "SELECT conversation_id, p_end_normalised FROM score WHERE config_hash = ?"
        " AND p_end_normalised IS NOT NULL ORDER BY p_end_normalised, conversation_id",
        (score_sets.hash_in_force(conn),),
    )
    while rows := cursor.fetchmany(10_000):
        some_ids, some_values = zip(*rows, strict=True)
        ids.extend(some_ids)
        values.extend(some_values)
    return ids, values


def tally(conn: sqlite3.Connection) -> dict[Verdict, int]:
    """Returns the number of conversations with each verdict; every verdict is a key."""
    counts = dict(
        conn.execute(
            f"SELECT verdict, count(*) FROM ({CURRENT_VERDICTS}) GROUP BY verdict"
        ).fetchall()
    )
    return {verdict: counts.get(verdict.value, 0) for verdict in Verdict}


def _check_text(text: object) -> None:
    """Raises UsageError if a note, tag or name cannot be stored."""
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no text.", "Notes, tags and names are texts (str).")
    if text != without_surrogates(text):
        raise UsageError(
            f"{display_safe(text)!r} holds bytes that are no text.",
            "Notes, tags and names are UTF-8; check the encoding of the terminal.",
        )


def _append(conn: sqlite3.Connection, act: Act) -> VerdictRow:
    """Stores an act and returns its row."""
    give_all(conn, [act])
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM verdict AS v WHERE v.id = last_insert_rowid()"
    ).fetchone()
    return _row(row, 1)


def _row(row: tuple[Any, ...], count: int) -> VerdictRow:
    """Returns a row of `_COLUMNS` as a record of `count` conversations; of an act on tags the text is the tag."""
    verdict = None if row[2] is None else Verdict(row[2])
    if row[5] in ("tag", "untag"):
        return VerdictRow(row[0], row[1], None, "", row[4], (row[3],), row[5], count)
    return VerdictRow(
        row[0], row[1], verdict, row[3], row[4], kind=row[5], count=count, annotator=row[6]
    )


def tags(conn: sqlite3.Connection) -> list[tuple[str, int]]:
    """Returns the tags in force in alphabetical order, each with its number of conversations."""
    return conn.execute(
        f"SELECT tag, count(*) FROM ({CURRENT_TAGS}) GROUP BY tag ORDER BY tag"
    ).fetchall()


def tags_of(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Returns the tags in force of these conversations, in alphabetical order; conversations without any are left
    out."""
    tags_by_id: dict[int, tuple[str, ...]] = {}
    for keys in chunks(ids):
        for key, tag in conn.execute(
            f"SELECT conversation_id, tag FROM ({CURRENT_TAGS})"
            f" WHERE conversation_id IN ({placeholders(keys)}) ORDER BY tag",
            keys,
        ):
            tags_by_id[key] = (*tags_by_id.get(key, ()), tag)
    return tags_by_id
