"""sqlite-utils on the connection of the writer: it never ends the transaction that it works in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlite_utils import Database
from sqlite_utils.db import TransactionError
from sqlite_utils.migrations import Migrations

from engine.project import settings
from engine.project.project import Project
from tests.engine.project.support import content


def _migrate(database: Database) -> None:
    migrations = Migrations("another set")
    migrations(name="first")(lambda db: db.execute("CREATE TABLE migrated (id INTEGER)"))
    migrations.apply(database)


CHANGES: dict[str, Callable[[Database], object]] = {
    "insert": lambda db: db.table("setting").insert({"key": "b", "value": "1"}),
    "insert_all": lambda db: db.table("setting").insert_all(
        {"key": f"b{number}", "value": "1"} for number in range(500)
    ),
    "upsert": lambda db: db.table("setting").upsert({"key": "a", "value": "2"}, pk="key"),
    "update": lambda db: db.table("setting").update("a", {"value": "2"}),
    "delete": lambda db: db.table("setting").delete("a"),
    "create_view": lambda db: db.create_view("keys", "SELECT key FROM setting"),
    "enable_fts": lambda db: db.table("source").enable_fts(["label"], create_triggers=True),
    "transform": lambda db: db.table("run").transform(rename={"message": "text"}),
    "executescript": lambda db: db.executescript("DELETE FROM setting; CREATE TABLE made (x);"),
    "atomic": lambda db: db.atomic().__enter__().execute("DELETE FROM setting"),
    "migrations": _migrate,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_belongs_to_the_transaction_of_the_writer(tmp_path: Path, name: str) -> None:
    """Whatever it changes inside a write is undone with that, so nothing of it was committed."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        project.write(lambda conn: settings.put(conn, "a", 1))
        reader = project.reader()
        before = content(path)

        def change_then_fail(conn: sqlite3.Connection) -> None:
            database = Database(conn, execute_plugins=False, recursive_triggers=False)
            CHANGES[name](database)
            assert database.conn.in_transaction
            assert settings.get(reader, "a") == 1
            raise RuntimeError("undo it")

        with pytest.raises(RuntimeError, match="undo it"):
            project.write(change_then_fail)
        assert content(path) == before
        project.write(lambda conn: settings.put(conn, "a", 3))
        assert settings.get(reader, "a") == 3


def test_autocommit_is_refused_inside_a_transaction(tmp_path: Path) -> None:
    """What would commit by itself, a change of the isolation level, raises inside a write."""

    def turn_on(conn: sqlite3.Connection) -> None:
        database = Database(conn, execute_plugins=False, recursive_triggers=False)
        with pytest.raises(TransactionError), database.ensure_autocommit_on():
            pass
        assert database.conn.in_transaction

    with Project.open(tmp_path / "p.wb", create=True) as project:
        project.write(turn_on)
