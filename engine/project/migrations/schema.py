"""The schema as a sequence of migrations. Append only: a released migration is never edited.

Each migration runs in one transaction together with its record and with `user_version`, the number of
migrations applied. `executescript` is not used, because it commits first. Foreign keys are not watched meanwhile, for a
table that others refer to may be made anew.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from engine.project.migrations.m001_conversations import m001_conversations_scores_verdicts
from engine.project.migrations.m002_scale import m002_scale_tags_trees
from engine.project.migrations.m003_goals import m003_goals
from engine.project.migrations.m004_cjk_index import m004_signs
from engine.project.migrations.m005_plays import m005_plays
from engine.project.migrations.m006_both_sides import m006_both_sides
from engine.project.migrations.m007_probes import m007_probes
from engine.project.migrations.m008_taught import m008_taught
from engine.project.migrations.m009_reasoning import m009_reasoning
from engine.project.migrations.m010_earlier_states import m010_earlier_states
from engine.project.migrations.m011_one_query import m011_one_query
from engine.project.migrations.m012_checks import m012_checks
from engine.project.migrations.m013_watch import m013_watch
from engine.project.migrations.m014_annotators import m014_annotators
from engine.project.migrations.m015_generated import m015_generated
from engine.project.migrations.m016_second_goals import m016_second_goals
from engine.project.migrations.m017_own_group import m017_own_group
from engine.project.migrations.m018_divergences import m018_divergences
from engine.project.migrations.m019_requests import m019_requests
from engine.project.migrations.m020_request_goals import m020_request_goals

MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    m001_conversations_scores_verdicts,
    m002_scale_tags_trees,
    m003_goals,
    m004_signs,
    m005_plays,
    m006_both_sides,
    m007_probes,
    m008_taught,
    m009_reasoning,
    m010_earlier_states,
    m011_one_query,
    m012_checks,
    m013_watch,
    m014_annotators,
    m015_generated,
    m016_second_goals,
    m017_own_group,
    m018_divergences,
    m019_requests,
    m020_request_goals,
)

SCHEMA = len(MIGRATIONS)
"""The schema this program writes; a file's own number is its `user_version`."""

_OF_LIBRARIES = re.compile(r"message_fts(_signs)?_[a-z]+|(idx_)?_sqlite_migrations(_[a-z_]+)?")
"""Names of tables and an index whose statement is that of SQLite's full-text search or of sqlite_utils, in any version
of them."""


_COMPUTES = re.compile(r"as\(|check\(|default\(|^create(unique)?index[^(]*\([^()]*\(")
"""What is in a statement that computes something; those of libraries have none of it."""


class SchemaObject(NamedTuple):
    """A table, view, index or trigger, and the statement that makes it."""

    kind: str
    name: str
    sql: str


@cache
def objects(schema: int) -> Mapping[str, SchemaObject]:
    """What a project of a schema number has, by name, without what libraries add."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        for function in MIGRATIONS[:schema]:
            function(conn)
        found = {one.name: one for one in objects_of(conn)}
    return MappingProxyType(found)


def foreign_object(conn: sqlite3.Connection, schema: int) -> SchemaObject | None:
    """Something in a file that would run SQL of whoever made it; None if there is nothing.

    Tables of other names are not looked at, for nothing reads them.
    """
    names = objects(schema)
    return next(
        (
            one
            for one in objects_of(conn)
            if is_foreign(one, schema)
            and (one.kind != "table" or one.name in names or _OF_LIBRARIES.fullmatch(one.name))
        ),
        None,
    )


def is_foreign(found: SchemaObject, schema: int) -> bool:
    """Whether no project of a schema number has this, be it another name or another statement, such as a view in the
    place of a table, or a table with a computed column."""
    if _OF_LIBRARIES.fullmatch(found.name):
        is_usual = found.kind in ("table", "index")
        return not is_usual or _COMPUTES.search(_plain(found.sql)) is not None
    ours = objects(schema).get(found.name)
    return ours is None or (ours.kind, _plain(ours.sql)) != (found.kind, _plain(found.sql))


def objects_of(conn: sqlite3.Connection) -> list[SchemaObject]:
    """What is in a file, without what SQLite adds by itself."""
    rows = conn.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return [SchemaObject(*row) for row in rows if not row[1].startswith("sqlite_")]


def _plain(sql: str) -> str:
    """A statement without what versions of SQLite write differently: blanks, quotes, letters of either case."""
    return re.sub(r"[\s\"'`]+", "", sql).lower()


def migrate(conn: sqlite3.Connection) -> None:
    """Brings the file behind `conn` to `SCHEMA`; each migration happens entirely or not at all."""
    # imported here because a file that is up to date, the usual case, does not need it
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("workbench")
    for number, function in enumerate(MIGRATIONS, start=1):
        migrations(name=function.__name__)(_numbered(number, function))
    migrations.apply(Database(conn, execute_plugins=False))


def _numbered(
    number: int, function: Callable[[sqlite3.Connection], None]
) -> Callable[[object], None]:
    def apply(db: object) -> None:
        conn = db.conn  # type: ignore[attr-defined]
        function(conn)
        conn.execute(f"PRAGMA user_version = {number}")

    return apply
