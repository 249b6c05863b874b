"""Joins project files that shared one job on several machines into one new file.

The new file is a copy of the first project. What the first one lacks is added from each further one: conversations are
told by the hash of their messages, results by conversation and configuration. Nothing that is there is replaced; where
two files say different things, the first one's stays and the difference is counted. The given files are only read.

Not covered: clusterings with their vectors and decisions, probes of verdicts and tags, and settings other than saved
filters. Those of the first project stay; of the others it is said what was left out. A hash is believed: a project file
made by someone who lies about it can give a conversation wrong results, as it could without being merged.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from heapq import merge as in_order
from pathlib import Path
from typing import Any

from engine.base.errors import ProjectDamaged, ProjectError
from engine.base.files import atomic_replacement
from engine.base.number_format import counted
from engine.completeness.tables import score_sets
from engine.conversations.tables import facets
from engine.project import cjk_index, settings
from engine.project.connections import file_uri
from engine.project.failures import translate_file_errors
from engine.project.project import Project
from engine.project.sql import MESSAGE_BITS
from engine.questions.tables import verdicts

MOST_EXAMPLES = 10
_PAGE = 5_000

_CONFIGURATIONS = (
    "score_config",
    "state_config",
    "goal_config",
    "tree_config",
    "play_config",
)


@dataclass(frozen=True, slots=True)
class _Results:
    """A table of results.

    Attributes:
        key: Columns that say which result a row is of. All rows of a key are taken, or none.
        compared: Columns by which two results of one key are told to differ; none where no comparison is needed.
        title: What the rows are, for the report; empty for tables that belong to the one before.
    """

    table: str
    key: tuple[str, ...]
    compared: tuple[str, ...]
    title: str


_RESULTS = (
    _Results("hidden_state", ("config_hash", "conversation_id"), ("states", "reason"), "readings"),
    _Results("score", ("conversation_id", "config_hash"), ("p_end_normalised", "reason"), "scores"),
    _Results("boundary_score", ("conversation_id", "config_hash"), (), ""),
    _Results("generated_end", ("conversation_id", "config_hash"), (), ""),
    _Results("remaining", ("conversation_id", "config_hash"), ("text",), "remaining tasks"),
    _Results("goal_text", ("config_hash", "conversation_id"), ("text",), "summaries"),
    _Results(
        "tree",
        ("conversation_id", "config_hash", "step"),
        ("leaves", "max_log_prob", "reason"),
        "trees",
    ),
    _Results("play", ("config_hash", "key"), ("result",), "plays"),
    _Results("watched", ("conversation_id",), (), ""),
    _Results("request_found", ("conversation_id",), (), ""),
    _Results("call_reply", ("key",), (), ""),
)


@dataclass(slots=True)
class Conflict:
    """Things of which two files say something different; `examples` are ids of conversations, or names."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Taken:
    """What was taken over from one project.

    Attributes:
        path: As it was given.
        known: Number of its conversations that were there already.
        added: Number of things that were added, by what they are.
        conflicts: By what they are about; of each the file that was named earlier is kept.
        left_out: Sentences on what was not taken over.
    """

    path: str
    known: int = 0
    added: dict[str, int] = field(default_factory=dict)
    conflicts: dict[str, Conflict] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def merge(paths: Sequence[str], target: str) -> list[Taken]:
    """Joins two or more projects in a new file `target`; returns what was taken from all but the first.

    Raises:
        ProjectError: `target` is there, a file is no project of this version, or the disk is full. Nothing is left of
            `target` then.
    """
    if os.path.exists(target):
        raise ProjectError(
            f"{target} is there already.", "Choose another name; nothing was written."
        )
    for path in paths:
        # says what is wrong with a file, and refuses one of another version
        Project.open(path, read_only=True).close()
    with translate_file_errors(target), atomic_replacement(Path(target)) as made:
        _copy(paths[0], made)
        with closing(sqlite3.connect(made, isolation_level=None, uri=True)) as conn:
            settings.renew_project_id(conn)
            score_sets.drop_unfinished(conn)
            found = [_take(conn, path) for path in paths[1:]]
    return found


def _copy(path: str, made: Path) -> None:
    with (
        closing(sqlite3.connect(file_uri(path), uri=True)) as source,
        closing(sqlite3.connect(made)) as copy,
    ):
        source.backup(copy)


def _take(conn: sqlite3.Connection, path: str) -> Taken:
    """Adds what a project has beyond the new file, in one transaction."""
    taken = Taken(path)
    conn.execute("ATTACH ? AS other", (file_uri(path),))
    try:
        conn.execute("BEGIN IMMEDIATE")
        _match_sources(conn)
        _match_runs(conn)
        _match_conversations(conn, taken)
        _add_conversations(conn, taken)
        _add_records(conn, taken)
        for table in _CONFIGURATIONS:
            conn.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM other.{table}")
        _leave_probes_out(conn, taken)
        for results in _RESULTS:
            _add_results(conn, results, taken)
        with closing(sqlite3.connect(file_uri(path), uri=True)) as theirs:
            _count_verdicts(conn, theirs, taken)
            _add_filters(conn, theirs, taken)
        _add_verdicts(conn, taken)
        _add_request_marks(conn)
        _say_what_is_left_out(conn, taken)
        if conn.execute("PRAGMA main.foreign_key_check").fetchone():
            raise ProjectDamaged(
                f"{path} has rows that refer to missing ones.", "Run `workbench repair` on it."
            )
        for table in ("source_match", "run_match", "match", "probe_set"):
            conn.execute(f"DROP TABLE temp.{table}")
        conn.execute("COMMIT")
    except BaseException:
        conn.execute("ROLLBACK")
        raise
    conn.execute("DETACH other")
    return taken


def _count(conn: sqlite3.Connection, taken: Taken, title: str, sql: str) -> None:
    """Runs an INSERT and counts its rows under a title."""
    if number := conn.execute(sql).rowcount:
        taken.added[title] = taken.added.get(title, 0) + number


def _note_conflict(
    conn: sqlite3.Connection, taken: Taken, title: str, sql: str, values: Sequence[Any] = ()
) -> None:
    """Counts the rows of a query whose only column has the ids of conversations that differ."""
    names = [str(name) for (name,) in conn.execute(sql, values)]
    if names:
        conflict = taken.conflicts.setdefault(title, Conflict())
        conflict.count += len(names)
        conflict.examples.extend(names[: MOST_EXAMPLES - len(conflict.examples)])


def _match_sources(conn: sqlite3.Connection) -> None:
    """Makes `source_match (old, new)`; adds sources whose place is new, with what was found when they were read."""
    conn.execute(
        "INSERT OR IGNORE INTO main.source (place, label, format, why)"
        " SELECT place, label, format, why FROM other.source ORDER BY id"
    )
    conn.execute(
        "CREATE TEMP TABLE source_match AS SELECT o.id AS old, s.id AS new"
        " FROM other.source AS o JOIN main.source AS s USING (place)"
    )
    conn.execute("CREATE UNIQUE INDEX temp.source_match_by_old ON source_match (old)")
    conn.execute(
        "INSERT OR IGNORE INTO main.source_read (source_id, digest, report)"
        " SELECT new, digest, report FROM other.source_read JOIN source_match ON old = source_id"
    )


def _match_runs(conn: sqlite3.Connection) -> None:
    """Makes `run_match (old, new)`; adds runs that the new file does not have. One that still runs there is
    interrupted here."""
    columns = (
        "stage, state, config_hash, params, fingerprints, code_version, started_at, finished_at,"
        " done, total, message, pid"
    )
    same = "stage = o.stage AND config_hash = o.config_hash AND started_at = o.started_at AND pid = o.pid"
    conn.execute(
        f"INSERT INTO main.run ({columns}) SELECT {columns} FROM other.run AS o"
        f" WHERE NOT EXISTS (SELECT 1 FROM main.run WHERE {same}) ORDER BY id"
    )
    conn.execute("UPDATE main.run SET state = 'interrupted' WHERE state = 'running'")
    conn.execute(
        "CREATE TEMP TABLE run_match AS SELECT o.id AS old,"
        f" (SELECT max(id) FROM main.run WHERE {same}) AS new FROM other.run AS o"
    )
    conn.execute("CREATE UNIQUE INDEX temp.run_match_by_old ON run_match (old)")


def _match_conversations(conn: sqlite3.Connection, taken: Taken) -> None:
    """Makes `match (old, new, known)`: ids there and here, and whether the conversation was here before."""
    conn.execute(
        "CREATE TEMP TABLE match (old INTEGER PRIMARY KEY, new INTEGER NOT NULL UNIQUE, known INTEGER NOT NULL)"
    )
    conn.execute(
        "INSERT INTO match SELECT o.id, coalesce(c.id, (SELECT coalesce(max(id), 0) FROM main.conversation)"
        " + row_number() OVER (PARTITION BY c.id IS NULL ORDER BY o.id)), c.id IS NOT NULL"
        " FROM other.conversation AS o LEFT JOIN main.conversation AS c ON c.hash = o.hash"
    )
    (taken.known,) = conn.execute("SELECT count(*) FROM match WHERE known").fetchone()
    _note_conflict(
        conn,
        taken,
        "texts under one id",
        "SELECT o.external_id FROM other.conversation AS o JOIN match ON old = o.id AND NOT known"
        " JOIN other.source AS s ON s.id = o.source_id WHERE EXISTS (SELECT 1 FROM"
        " main.conversation AS c JOIN main.source AS mine ON mine.id = c.source_id"
        " WHERE c.external_id = o.external_id AND mine.label = s.label) ORDER BY o.id",
    )


def _add_conversations(conn: sqlite3.Connection, taken: Taken) -> None:
    """Adds the conversations that are new, with their messages, originals, truth, leaks and earlier states."""
    _count(
        conn,
        taken,
        "conversations",
        "INSERT INTO main.conversation SELECT m.new, s.new, external_id, hash, opening, messages, turns, chars,"
        " created_at, meta, line FROM match AS m JOIN other.conversation AS o ON o.id = m.old"
        " JOIN source_match AS s ON s.old = o.source_id WHERE NOT known ORDER BY m.new",
    )
    columns = (
        "idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts"
    )
    conn.execute(
        f"INSERT INTO main.message (id, conversation_id, {columns})"
        f" SELECT (m.new << {MESSAGE_BITS}) + idx, m.new, {columns} FROM match AS m"
        f" JOIN other.message AS o ON o.id BETWEEN m.old << {MESSAGE_BITS} AND ((m.old + 1) << {MESSAGE_BITS}) - 1"
        " WHERE NOT known ORDER BY m.new, idx"
    )
    for table, columns in (
        ("original", "raw"),
        ("truth", "truth"),
        ("leak", "message, rule, found"),
    ):
        conn.execute(
            f"INSERT INTO main.{table} (conversation_id, {columns}) SELECT m.new, {columns}"
            f" FROM match AS m JOIN other.{table} AS o ON o.conversation_id = m.old"
            " WHERE NOT known ORDER BY m.new"
        )
    new = "FROM main.message WHERE id >= (SELECT min(new) FROM match WHERE NOT known) << ?"
    conn.execute(
        f"INSERT INTO main.message_fts (rowid, content, tool_calls) SELECT id, content, tool_calls {new}",
        (MESSAGE_BITS,),
    )
    texts = conn.cursor().execute(f"SELECT id, content, tool_calls {new}", (MESSAGE_BITS,))
    while page := texts.fetchmany(_PAGE):
        cjk_index.add(conn, page)
    for page in _pages(conn.execute("SELECT new FROM match WHERE NOT known ORDER BY new")):
        facets.add_stored(conn, page)


def _pages(rows: Iterable[tuple[int]]) -> list[list[int]]:
    ids = [key for (key,) in rows]
    return [ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE)]


def _add_records(conn: sqlite3.Connection, taken: Taken) -> None:
    """Adds records of conversations that were here before under another id or with other bytes, as duplicates; what is
    known of them only there; and the quarantine."""
    conn.execute("CREATE INDEX temp.match_known ON match (known)")
    there = (
        "NOT EXISTS (SELECT 1 FROM main.conversation AS c JOIN main.original AS r ON r.conversation_id = c.id"
        " WHERE c.id = m.new AND c.external_id = o.external_id AND r.raw = {raw})"
        " AND NOT EXISTS (SELECT 1 FROM main.alias AS a WHERE a.conversation_id = m.new"
        " AND a.external_id = o.external_id AND a.raw = {raw})"
    )
    alias = "INSERT INTO main.alias (conversation_id, source_id, external_id, line, raw, truth)"
    _count(
        conn,
        taken,
        "duplicates",
        f"{alias} SELECT m.new, s.new, o.external_id, o.line, r.raw, t.truth FROM match AS m"
        " JOIN other.conversation AS o ON o.id = m.old JOIN source_match AS s ON s.old = o.source_id"
        " JOIN other.original AS r ON r.conversation_id = o.id"
        f" LEFT JOIN other.truth AS t ON t.conversation_id = o.id WHERE known AND {there.format(raw='r.raw')}",
    )
    _count(
        conn,
        taken,
        "duplicates",
        f"{alias} SELECT m.new, s.new, o.external_id, o.line, o.raw, o.truth FROM match AS m"
        " JOIN other.alias AS o ON o.conversation_id = m.old JOIN source_match AS s ON s.old = o.source_id"
        f" WHERE {there.format(raw='o.raw')}",
    )
    _note_conflict(
        conn,
        taken,
        "truth",
        "SELECT c.external_id FROM match AS m JOIN other.truth AS o ON o.conversation_id = m.old"
        " JOIN main.truth AS t ON t.conversation_id = m.new JOIN main.conversation AS c ON c.id = m.new"
        " WHERE o.truth <> t.truth ORDER BY m.new",
    )
    conn.execute(
        "INSERT OR IGNORE INTO main.truth (conversation_id, truth) SELECT m.new, o.truth"
        " FROM match AS m JOIN other.truth AS o ON o.conversation_id = m.old WHERE known"
    )
    rejected = conn.execute(
        "SELECT s.new, line, reason, raw FROM other.quarantine JOIN source_match AS s ON s.old = source_id"
        " ORDER BY id"
    ).fetchall()
    before = conn.total_changes
    conn.executemany(
        "INSERT OR IGNORE INTO main.quarantine (digest, source_id, line, reason, raw) VALUES (?, ?, ?, ?, ?)",
        (
            (
                hashlib.sha256(f"{source_id}:{line}:".encode() + raw).digest(),
                source_id,
                line,
                *rest,
                raw,
            )
            for source_id, line, *rest, raw in rejected
        ),
    )
    if conn.total_changes > before:
        taken.added["quarantined records"] = conn.total_changes - before


def _leave_probes_out(conn: sqlite3.Connection, taken: Taken) -> None:
    """Makes `probe_set (config_hash)`: sets of a probe of which both files have scores, and the one that the other file
    has not finished.

    Their configuration names conversations by id, so that two sets of one name may come from probes fitted to different
    conversations. They are not mixed.
    """
    conn.execute(
        "CREATE TEMP TABLE probe_set AS SELECT config_hash FROM main.score_config AS c WHERE mode = 'probe'"
        " AND EXISTS (SELECT 1 FROM main.score AS s WHERE s.config_hash = c.config_hash)"
        " AND EXISTS (SELECT 1 FROM other.score AS s WHERE s.config_hash = c.config_hash)"
    )
    (number,) = conn.execute(
        "SELECT count(*) FROM other.score AS o JOIN match AS m ON m.old = o.conversation_id WHERE"
        " config_hash IN (SELECT config_hash FROM probe_set) AND NOT EXISTS (SELECT 1 FROM main.score AS s"
        " WHERE s.conversation_id = m.new AND s.config_hash = o.config_hash)"
    ).fetchone()
    if number:
        taken.left_out.append(
            f"{counted(number, 'score')} of a probe that was fitted to other conversations:"
            " `run complete` fits one to all, from what was read."
        )
    # The scores of a fit that did not finish are no set.
    conn.execute(
        "INSERT INTO probe_set SELECT json_extract(value, '$') FROM other.setting WHERE key = ? AND value <> 'null'",
        (score_sets.UNFINISHED,),
    )


def _add_results(conn: sqlite3.Connection, results: _Results, taken: Taken) -> None:
    """Adds the results whose key the new file does not have, and counts those that differ from the ones it has."""
    columns = [
        row[1] for row in conn.execute(f"PRAGMA main.table_info({results.table})") if row[1] != "id"
    ]
    read = {"conversation_id": "m.new", "run_id": "r.new"}
    values = ", ".join(read.get(column, f"o.{column}") for column in columns)
    joined = f"other.{results.table} AS o"
    if "conversation_id" in columns:
        # a play may have no conversation
        kind = "LEFT JOIN" if "conversation_id" not in results.key else "JOIN"
        joined += f" {kind} match AS m ON m.old = o.conversation_id"
    if "run_id" in columns:
        joined += " JOIN run_match AS r ON r.old = o.run_id"
    same = " AND ".join(f"x.{key} = {read.get(key, f'o.{key}')}" for key in results.key)
    if results.compared:
        differs = " OR ".join(f"x.{column} IS NOT o.{column}" for column in results.compared)
        _note_conflict(
            conn,
            taken,
            results.title,
            "SELECT (SELECT external_id FROM main.conversation WHERE id = x.conversation_id)"
            f" FROM {joined} JOIN main.{results.table} AS x ON {same} WHERE {differs}",
        )
    wanted = f"NOT EXISTS (SELECT 1 FROM main.{results.table} AS x WHERE {same})"
    if "config_hash" in columns:
        wanted += " AND o.config_hash NOT IN (SELECT config_hash FROM probe_set)"
    order = " ORDER BY m.new" if "conversation_id" in columns else ""
    sql = (
        f"INSERT INTO main.{results.table} ({', '.join(columns)})"
        f" SELECT {values} FROM {joined} WHERE {wanted}{order}"
    )
    if results.title:
        _count(conn, taken, results.title, sql)
    else:
        conn.execute(sql)


def _count_verdicts(conn: sqlite3.Connection, theirs: sqlite3.Connection, taken: Taken) -> None:
    """Counts the conversations whose verdict in force differs."""
    ids = dict(conn.execute("SELECT old, new FROM match WHERE known"))
    mine = dict(verdicts.in_force(conn))
    differ = [
        ids[key]
        for key, verdict in verdicts.in_force(theirs)
        if key in ids and mine.get(ids[key], verdict) is not verdict
    ]
    for key in differ:
        _note_conflict(
            conn,
            taken,
            "verdicts",
            "SELECT external_id FROM main.conversation WHERE id = ?",
            (key,),
        )


_ACT = "id, conversation_id, kind, verdict, note, given_at, annotator, target"


def _add_verdicts(conn: sqlite3.Connection, taken: Taken) -> None:
    """Adds verdicts, notes and tags in the order in which they were given, and the earlier texts that some are of.

    The newest act is the one in force, so all acts are numbered anew.
    """
    ids = dict(conn.execute("SELECT old, new FROM match"))
    mine = conn.execute(f"SELECT {_ACT} FROM main.verdict ORDER BY id").fetchall()
    known = {row[1:]: row[0] for row in mine}
    acts: dict[int, tuple[str, int]] = {}
    added = []
    for key, conversation_id, *said, target in conn.execute(
        f"SELECT {_ACT} FROM other.verdict ORDER BY id"
    ):
        ours = None if target is None else acts[target]
        row = (ids[conversation_id], *said)
        twin = None
        if ours is None or ours[0] == "mine":
            twin = known.get((*row, None if ours is None else ours[1]))
        acts[key] = ("theirs", key) if twin is None else ("mine", twin)
        if twin is None:
            added.append((key, *row, ours))
    numbers: dict[tuple[str, int], int] = {}
    rows: list[tuple[Any, ...]] = []
    sides = (
        [("mine", row[:-1], None if row[-1] is None else ("mine", row[-1])) for row in mine],
        [("theirs", row[:-1], row[-1]) for row in added],
    )
    for number, (side, row, aim) in enumerate(in_order(*sides, key=lambda act: act[1][5]), start=1):
        numbers[side, row[0]] = number
        rows.append((number, *row[1:], None if aim is None else numbers[aim]))
    _add_earlier_states(conn, numbers, acts)
    if added:
        conn.execute("DELETE FROM main.verdict")
        conn.executemany(f"INSERT INTO main.verdict ({_ACT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        taken.added["verdicts, notes and tags"] = len(added)


def _add_request_marks(conn: sqlite3.Connection) -> None:
    """Adds the marks of requests that were not undone, for conversations that have no marks here."""
    conn.execute(
        "INSERT INTO main.request_mark (conversation_id, message, kind, annotator, given_at)"
        " SELECT m.new, message, kind, annotator, given_at FROM other.request_mark AS o"
        " JOIN match AS m ON m.old = o.conversation_id WHERE kind <> 'undo'"
        " AND NOT EXISTS (SELECT 1 FROM other.request_mark AS u WHERE u.target = o.id)"
        " AND NOT EXISTS (SELECT 1 FROM main.request_mark AS x WHERE x.conversation_id = m.new)"
        " ORDER BY o.id"
    )


def _add_earlier_states(
    conn: sqlite3.Connection,
    numbers: dict[tuple[str, int], int],
    acts: dict[int, tuple[str, int]],
) -> None:
    """Adds earlier texts, each with the new number of the last act that was given before it was replaced."""

    def newest(found: list[int]) -> int:
        return max(found, default=0)

    for key, conversation_id, last in conn.execute(
        "SELECT id, conversation_id, verdict_id FROM main.earlier_state"
    ).fetchall():
        before = conn.execute(
            "SELECT id FROM main.verdict WHERE conversation_id = ? AND id <= ?",
            (conversation_id, last),
        )
        number = newest([numbers["mine", act] for (act,) in before])
        conn.execute("UPDATE main.earlier_state SET verdict_id = ? WHERE id = ?", (number, key))
    columns = "hash, line, raw, truth, messages, packed, score"
    for old, new, source_id, last, replaced_at, *rest in conn.execute(
        f"SELECT m.old, m.new, s.new, verdict_id, replaced_at, {columns} FROM other.earlier_state AS o"
        " JOIN match AS m ON m.old = o.conversation_id JOIN source_match AS s ON s.old = o.source_id"
        " WHERE NOT EXISTS (SELECT 1 FROM main.earlier_state AS e WHERE e.conversation_id = m.new"
        " AND e.hash = o.hash) ORDER BY o.id"
    ).fetchall():
        before = conn.execute(
            "SELECT id FROM other.verdict WHERE conversation_id = ? AND id <= ?", (old, last)
        )
        number = newest([numbers[acts[act]] for (act,) in before])
        conn.execute(
            f"INSERT INTO main.earlier_state (conversation_id, source_id, verdict_id, replaced_at, {columns})"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (new, source_id, number, replaced_at, *rest),
        )


def _add_filters(conn: sqlite3.Connection, theirs: sqlite3.Connection, taken: Taken) -> None:
    """Adds saved filters under new names; puts scores and trees in force where none are."""
    mine, other = settings.get(conn, "filters", {}), settings.get(theirs, "filters", {})
    differ = sorted(name for name in other if mine.get(name, other[name]) != other[name])
    if differ:
        taken.conflicts["saved filters"] = Conflict(len(differ), differ[:MOST_EXAMPLES])
    new = {name: text for name, text in other.items() if name not in mine}
    if new:
        settings.put(conn, "filters", {**mine, **new})
        taken.added["saved filters"] = len(new)
    for key in ("score_config", "tree_config"):
        chosen = settings.get(theirs, key)
        if chosen is not None and settings.get(conn, key) is None:
            settings.put(conn, key, chosen)


def _say_what_is_left_out(conn: sqlite3.Connection, taken: Taken) -> None:
    clusterings, decisions = conn.execute(
        "SELECT count(*), coalesce(sum((SELECT count(*) FROM other.decision WHERE clustering_id = o.id)), 0)"
        " FROM other.clustering AS o WHERE NOT EXISTS (SELECT 1 FROM main.clustering AS c"
        " WHERE c.config_hash = o.config_hash AND c.created_at = o.created_at)"
    ).fetchone()
    if clusterings:
        taken.left_out.append(
            f"{counted(clusterings, 'clustering')} with {counted(decisions, 'decision')}: name this project first to"
            " keep its clusterings, or cluster the merged one and take the decisions with `goals import`."
        )
    (probes,) = conn.execute(
        "SELECT count(*) FROM other.taught AS o WHERE NOT EXISTS (SELECT 1 FROM main.taught AS t"
        " WHERE t.subject = o.subject AND t.figures IS o.figures AND t.marks = o.marks)"
    ).fetchone()
    if probes:
        taken.left_out.append(
            f"{counted(probes, 'probe')} of verdicts and tags: `run success` and `run tag` fit them"
            " to the verdicts of all."
        )
