"""Joins project files that shared one job on several machines into one new file.

The new file is a copy of the first project. What the first one lacks is added from each further one: conversations are
told by the hash of their messages, results by conversation and configuration. Nothing that is there is replaced; where
two files say different things, the first one's stays and the difference is counted. The given files are only read.

Not covered: clusterings with their vectors and decisions, probes of answers, and settings other than saved
filters. Those of the first project stay; of the others it is said what was left out. A hash is believed: a project file
made by someone who lies about it can give a conversation wrong results, as it could without being merged.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ProjectDamaged, ProjectError
from engine.base.files import atomic_replacement
from engine.base.number_format import counted
from engine.completeness.tables import score_sets
from engine.conversations.records import Conflict, MergeReport
from engine.conversations.tables.merging import (
    MAX_EXAMPLES,
    add_conversations,
    add_records,
    count_added,
    match_conversations,
    match_sources,
    note_conflict,
)
from engine.project import settings
from engine.project.connections import file_uri
from engine.project.failures import translate_file_errors
from engine.project.project import Project
from engine.questions.tables.merging import add_answers, count_differing_verdicts

_CONFIGURATION_TABLES = (
    "score_config",
    "state_config",
    "goal_config",
    "tree_config",
    "play_config",
    "answerer",
)
"""Tables with a row for each configuration of results, by its hash."""


@dataclass(frozen=True, slots=True)
class _ResultTable:
    """A table of results, which are joined by key.

    Attributes:
        name: Its name.
        key: Columns that say which result a row is of. All rows of a key are taken, or none.
        compared: Columns by which two results of one key are told to differ; none where no comparison is needed.
        title: What the rows are, for the report; empty for tables that belong to the one before.
    """

    name: str
    key: tuple[str, ...]
    compared: tuple[str, ...]
    title: str


_RESULT_TABLES = (
    _ResultTable(
        "hidden_state", ("config_hash", "conversation_id"), ("states", "reason"), "readings"
    ),
    _ResultTable(
        "score", ("conversation_id", "config_hash"), ("p_end_normalised", "reason"), "scores"
    ),
    _ResultTable("boundary_score", ("conversation_id", "config_hash"), (), ""),
    _ResultTable("generated_end", ("conversation_id", "config_hash"), (), ""),
    _ResultTable("remaining", ("conversation_id", "config_hash"), ("text",), "remaining tasks"),
    _ResultTable("goal_text", ("config_hash", "conversation_id"), ("text",), "summaries"),
    _ResultTable(
        "tree",
        ("conversation_id", "config_hash", "step"),
        ("leaves", "max_log_prob", "reason"),
        "trees",
    ),
    _ResultTable(
        "machine_answer",
        ("config_hash", "conversation_id"),
        ("value",),
        "answers of patterns, models and files",
    ),
    _ResultTable("play", ("config_hash", "key"), ("result",), "plays"),
    _ResultTable("watched", ("conversation_id",), (), ""),
    _ResultTable("request_found", ("conversation_id",), (), ""),
    _ResultTable("call_reply", ("key",), (), ""),
)
"""The tables of results, in the order in which they are joined."""


def merge(paths: Sequence[str], target: str) -> list[MergeReport]:
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
        first, *further = paths
        _copy(first, made)
        with closing(sqlite3.connect(made, isolation_level=None, uri=True)) as conn:
            settings.renew_project_id(conn)
            score_sets.drop_unfinished(conn)
            reports = [_add_project(conn, path) for path in further]
    return reports


def _copy(path: str, made: Path) -> None:
    """Copies a project, which may be open elsewhere, to a file that is new or empty."""
    with (
        closing(sqlite3.connect(file_uri(path), uri=True)) as source,
        closing(sqlite3.connect(made)) as copy,
    ):
        source.backup(copy)


def _add_project(conn: sqlite3.Connection, path: str) -> MergeReport:
    """Adds what a project has beyond the new file, in one transaction."""
    report = MergeReport(path)
    conn.execute("ATTACH ? AS other", (file_uri(path),))
    try:
        conn.execute("BEGIN IMMEDIATE")
        match_sources(conn)
        _match_runs(conn)
        match_conversations(conn, report)
        add_conversations(conn, report)
        add_records(conn, report)
        for name in _CONFIGURATION_TABLES:
            conn.execute(f"INSERT OR IGNORE INTO main.{name} SELECT * FROM other.{name}")
        _leave_probes_out(conn, report)
        for table in _RESULT_TABLES:
            _add_results(conn, table, report)
        with closing(sqlite3.connect(file_uri(path), uri=True)) as theirs:
            count_differing_verdicts(conn, theirs, report)
            _add_filters(conn, theirs, report)
        add_answers(conn, report)
        _add_request_marks(conn)
        _report_left_out(conn, report)
        if conn.execute("PRAGMA main.foreign_key_check").fetchone():
            raise ProjectDamaged(
                f"{path} has rows that refer to missing ones.", "Run `workbench repair` on it."
            )
        for name in ("source_match", "run_match", "match", "probe_set"):
            conn.execute(f"DROP TABLE temp.{name}")
        conn.execute("COMMIT")
    except BaseException:
        conn.execute("ROLLBACK")
        raise
    conn.execute("DETACH other")
    return report


def _match_runs(conn: sqlite3.Connection) -> None:
    """Makes `run_match (old, new)`, and adds the runs that the new file does not have.

    One that still runs there is interrupted here.
    """
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


def _leave_probes_out(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Makes `probe_set (config_hash)`, the sets of scores whose rows are not taken.

    They are those of a probe of which both files have scores, and the one that the other file has not finished.

    Their configuration names conversations by id, so that two sets of one name may come from probes fitted to different
    conversations. They are not mixed.
    """
    conn.execute(
        "CREATE TEMP TABLE probe_set AS SELECT config_hash FROM main.score_config AS c WHERE mode IN ('words', 'probe')"
        " AND EXISTS (SELECT 1 FROM main.score AS s WHERE s.config_hash = c.config_hash)"
        " AND EXISTS (SELECT 1 FROM other.score AS s WHERE s.config_hash = c.config_hash)"
    )
    (number,) = conn.execute(
        "SELECT count(*) FROM other.score AS o JOIN match AS m ON m.old = o.conversation_id WHERE"
        " config_hash IN (SELECT config_hash FROM probe_set) AND NOT EXISTS (SELECT 1 FROM main.score AS s"
        " WHERE s.conversation_id = m.new AND s.config_hash = o.config_hash)"
    ).fetchone()
    if number:
        report.left_out.append(
            f"{counted(number, 'score')} of a probe that was fitted to other conversations:"
            " `run complete` fits one to all, from what was read."
        )
    # The scores of a fit that did not finish are no set.
    conn.execute(
        "INSERT INTO probe_set SELECT json_extract(value, '$') FROM other.setting WHERE key = ? AND value <> 'null'",
        (score_sets.UNFINISHED_SETTING,),
    )


def _add_results(conn: sqlite3.Connection, table: _ResultTable, report: MergeReport) -> None:
    """Adds the results whose key the new file does not have, and counts those that differ from the ones it has."""
    table_info = conn.execute(f"PRAGMA main.table_info({table.name})")
    columns = [name for _, name, *_ in table_info if name != "id"]
    new_ids = {"conversation_id": "m.new", "run_id": "r.new"}
    values = ", ".join(new_ids.get(column, f"o.{column}") for column in columns)
    joined = f"other.{table.name} AS o"
    if "conversation_id" in columns:
        # a play may have no conversation
        kind = "LEFT JOIN" if "conversation_id" not in table.key else "JOIN"
        joined += f" {kind} match AS m ON m.old = o.conversation_id"
    if "run_id" in columns:
        joined += " JOIN run_match AS r ON r.old = o.run_id"
    same = " AND ".join(f"x.{key} = {new_ids.get(key, f'o.{key}')}" for key in table.key)
    if table.compared:
        differs = " OR ".join(f"x.{column} IS NOT o.{column}" for column in table.compared)
        note_conflict(
            conn,
            report,
            table.title,
            "SELECT (SELECT external_id FROM main.conversation WHERE id = x.conversation_id)"
            f" FROM {joined} JOIN main.{table.name} AS x ON {same} WHERE {differs}",
        )
    is_new = f"NOT EXISTS (SELECT 1 FROM main.{table.name} AS x WHERE {same})"
    if "config_hash" in columns:
        is_new += " AND o.config_hash NOT IN (SELECT config_hash FROM probe_set)"
    order = " ORDER BY m.new" if "conversation_id" in columns else ""
    sql = (
        f"INSERT INTO main.{table.name} ({', '.join(columns)})"
        f" SELECT {values} FROM {joined} WHERE {is_new}{order}"
    )
    if table.title:
        count_added(conn, report, table.title, sql)
    else:
        conn.execute(sql)


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


def _add_filters(conn: sqlite3.Connection, theirs: sqlite3.Connection, report: MergeReport) -> None:
    """Adds saved filters under new names; puts scores and trees in force where none are."""
    ours, others = settings.get(conn, "filters", {}), settings.get(theirs, "filters", {})
    differing = sorted(name for name in others if ours.get(name, others[name]) != others[name])
    if differing:
        report.conflicts["saved filters"] = Conflict(len(differing), differing[:MAX_EXAMPLES])
    new = {name: text for name, text in others.items() if name not in ours}
    if new:
        settings.put(conn, "filters", {**ours, **new})
        report.added["saved filters"] = len(new)
    for key in ("score_config", "tree_config"):
        config_hash = settings.get(theirs, key)
        if config_hash is not None and settings.get(conn, key) is None:
            settings.put(conn, key, config_hash)


def _report_left_out(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Counts the clusterings and the probes of the other project that the new file does not have."""
    clusterings, decisions = conn.execute(
        "SELECT count(*), coalesce(sum((SELECT count(*) FROM other.decision WHERE clustering_id = o.id)), 0)"
        " FROM other.clustering AS o WHERE NOT EXISTS (SELECT 1 FROM main.clustering AS c"
        " WHERE c.config_hash = o.config_hash AND c.created_at = o.created_at)"
    ).fetchone()
    if clusterings:
        report.left_out.append(
            f"{counted(clusterings, 'clustering')} with {counted(decisions, 'decision')}: name this project first to"
            " keep its clusterings, or cluster the merged one and take the decisions with `goals import`."
        )
    (probes,) = conn.execute(
        "SELECT count(*) FROM other.taught AS o WHERE NOT EXISTS (SELECT 1 FROM main.taught AS t"
        " WHERE t.subject = o.subject AND t.figures IS o.figures AND t.marks = o.marks)"
    ).fetchone()
    if probes:
        report.left_out.append(
            f"{counted(probes, 'probe')} of answers: `ask --by examples` fits them"
            " to the verdicts of all."
        )
