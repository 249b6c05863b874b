"""Simulated conversations (plays) with their settings and transcripts."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.conversations.tables.conversations import names, truth_by_record
from engine.project.sql import to_json
from engine.simulate.forms.table import FilledForm, filled_form
from engine.simulate.records import PlayRow, PlaySetting, TranscriptLine
from engine.simulate.sharded.aptitude import ScoredPlay

_ROW = (
    "SELECT play.id, config_hash, kind, key, run_id, conversation_id, reason, result FROM play"
    " JOIN play_config USING (config_hash)"
)
"""Selects plays as `_row` reads them."""


_COUNTS = {"form", "length", "required", "optional", "turns", "repetitions"}
"""Keys by which truth is known to be of a filled form."""


def register(conn: sqlite3.Connection, setting: PlaySetting) -> None:
    """Records a setting before its first play."""
    conn.execute(
        "INSERT INTO play_config (config_hash, kind, params, models) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (config_hash) DO NOTHING",
        (setting.config_hash, setting.kind, to_json(setting.params), to_json(setting.models)),
    )


def add(conn: sqlite3.Connection, play: PlayRow, transcript: Sequence[TranscriptLine]) -> None:
    """Stores a play under an id of its own; one of the same setting and key that broke off is replaced."""
    conn.execute(
        "INSERT INTO play (config_hash, key, run_id, conversation_id, reason, result, transcript)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (config_hash, key) DO UPDATE SET"
        " run_id = excluded.run_id, conversation_id = excluded.conversation_id,"
        " reason = excluded.reason, result = excluded.result, transcript = excluded.transcript",
        (
            play.config_hash,
            play.key,
            play.run_id,
            play.conversation_id,
            play.reason,
            to_json(play.result),
            zlib.compress(to_json([asdict(line) for line in transcript]).encode("ascii")),
        ),
    )


def ended_keys(conn: sqlite3.Connection, config_hash: str) -> set[str]:
    """Returns the keys of the plays of a setting that ended."""
    rows = conn.execute(
        "SELECT key FROM play WHERE config_hash = ? AND reason IS NULL", (config_hash,)
    )
    return {key for (key,) in rows}


def ended_keys_of_done_runs(conn: sqlite3.Connection, config_hash: str) -> set[str]:
    """Returns the keys of the plays of a setting that ended in a run whose state is `done`."""
    rows = conn.execute(
        "SELECT key FROM play JOIN run ON run.id = run_id"
        " WHERE play.config_hash = ? AND reason IS NULL AND state = 'done'",
        (config_hash,),
    )
    return {key for (key,) in rows}


def settings_of(conn: sqlite3.Connection, kind: str | None = None) -> list[PlaySetting]:
    """Returns the settings of one kind or of all, in the order of their first plays, with how many plays each has."""
    rows = conn.execute(
        "SELECT config_hash, kind, params, models, count(play.id), count(reason) FROM play_config"
        " LEFT JOIN play USING (config_hash) WHERE ?1 IS NULL OR kind = ?1"
        " GROUP BY config_hash ORDER BY min(play.id) IS NULL, min(play.id), config_hash",
        (kind,),
    )
    return [
        PlaySetting(
            config_hash=key,
            kind=kind,
            params=json.loads(params),
            models=json.loads(models),
            played=count - broken,
            broken=broken,
        )
        for key, kind, params, models, count, broken in rows
    ]


def rows(conn: sqlite3.Connection, config_hash: str) -> list[PlayRow]:
    """Returns the plays of a setting in the order of their keys, numbers in them by their value."""
    plays = conn.execute(f"{_ROW} WHERE config_hash = ?", (config_hash,))
    return sorted(map(_row, plays), key=lambda row: _with_numbers(row.key))


def all_plays(conn: sqlite3.Connection, kind: str | None = None) -> Iterator[PlayRow]:
    """Yields all plays of one kind or of all, in the order in which they were stored."""
    for row in conn.execute(f"{_ROW} WHERE ?1 IS NULL OR kind = ?1 ORDER BY play.id", (kind,)):
        yield _row(row)


def form_runs(conn: sqlite3.Connection) -> list[FilledForm]:
    """Returns every form that was filled: those that were played, then those that were imported, whose result is their
    truth."""
    settings = {setting.config_hash: setting for setting in settings_of(conn, "forms")}
    played = [play for play in all_plays(conn, "forms") if play.reason is None]
    played_conversations = {play.conversation_id for play in played}
    imported = [
        FilledForm(
            str(truth.get("assistant_model", "unknown")), str(truth.get("variant", "")), truth
        )
        for key, truth in truth_by_record(conn)
        if key not in played_conversations and truth.keys() >= _COUNTS
    ]
    return [*(filled_form(settings[play.config_hash], play) for play in played), *imported]


def scores(conn: sqlite3.Connection) -> list[ScoredPlay]:
    """Returns the scores in the truth of all records: 0 where the log has null, because no answer was attempted."""
    runs: list[ScoredPlay] = []
    for _, truth in truth_by_record(conn):
        score, instruction = truth.get("score", ...), truth.get("task_id")
        if instruction is not None and isinstance(score, int | float | None):
            names_of_run = ("task", "condition", "assistant_model")
            task, condition, model = (str(truth.get(name, "unknown")) for name in names_of_run)
            runs.append(ScoredPlay(task, condition, model, str(instruction), float(score or 0)))
    return runs


def plays_of_conversation(conn: sqlite3.Connection, conversation_id: int) -> list[PlayRow]:
    """Returns the plays that resulted in this conversation; several where models wrote the same text."""
    plays = conn.execute(f"{_ROW} WHERE conversation_id = ? ORDER BY play.id", (conversation_id,))
    return [_row(row) for row in plays]


def latest_run(
    conn: sqlite3.Connection, kind: str, models: Mapping[str, str]
) -> tuple[int, float] | None:
    """Returns (plays ended, seconds) of the latest finished run of a kind with these models; None without any."""
    row = conn.execute(
        "SELECT count(play.id), 86400 * (julianday(finished_at) - julianday(started_at))"
        " FROM run JOIN play ON run_id = run.id AND reason IS NULL"
        " JOIN play_config ON play_config.config_hash = play.config_hash"
        " WHERE kind = ? AND models = ? AND finished_at IS NOT NULL"
        " GROUP BY run.id ORDER BY run.id DESC LIMIT 1",
        (kind, to_json(models)),
    ).fetchone()
    return None if row is None else (row[0], row[1])


def transcript(conn: sqlite3.Connection, play_id: int) -> list[TranscriptLine]:
    """Returns the calls of a play with their replies, in order; empty where there is no such play."""
    row = conn.execute("SELECT transcript FROM play WHERE id = ?", (play_id,)).fetchone()
    if row is None:
        return []
    return [_line(frame) for frame in json.loads(zlib.decompress(row[0]))]


def transcript_lines(
    conn: sqlite3.Connection, conversation_ids: Sequence[int] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields each play with its result, and every model call of it with the reply, as JSON values.

    Args:
        conversation_ids: The plays of these conversations, in this order; None for all plays, in the order in which
            they were played.
    """
    models = {setting.config_hash: dict(setting.models) for setting in settings_of(conn)}
    if conversation_ids is None:
        # Rows are small; the transcripts are read one play at a time.
        played: Iterable[PlayRow] = list(all_plays(conn))
    else:
        played = (row for key in conversation_ids for row in plays_of_conversation(conn, key))
    for row in played:
        key = row.conversation_id
        yield {
            "key": row.key,
            "kind": row.kind,
            "config": row.config_hash,
            "models": models[row.config_hash],
            "conversation": None if key is None else names(conn, [key])[key],
            "reason": row.reason,
            "result": dict(row.result),
            "calls": [asdict(line) for line in transcript(conn, row.id)],
        }


def _row(row: tuple[Any, ...]) -> PlayRow:
    """Returns a play from a row of the database."""
    play_id, config_hash, kind, key, run_id, conversation_id, reason, result = row
    return PlayRow(
        id=play_id,
        config_hash=config_hash,
        kind=kind,
        key=key,
        run_id=run_id,
        conversation_id=conversation_id,
        reason=reason,
        result=json.loads(result),
    )


def _line(frame: dict[str, Any]) -> TranscriptLine:
    """Returns a line of a transcript from its JSON."""
    messages = tuple((speaker, content) for speaker, content in frame["messages"])
    return TranscriptLine(**{**frame, "messages": messages})


def _with_numbers(key: str) -> list[str | int]:
    """Returns a key in parts that alternate, text and number, so that 9 comes before 10."""
    parts: list[str | int] = list(re.split("([0-9]+)", key))
    parts[1::2] = [int(number) for number in parts[1::2]]
    return parts
