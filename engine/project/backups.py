"""Backups of a project: whole copies of its file, beside it, named `<file>.backup-...`.

One is made before each upgrade (`<file>.backup-<schema>`) and by `back_up` (`<file>.backup-<UTC time>`); only those of
`back_up` are ever removed. `restore` puts a copy of one in the project's place and keeps the present file beside it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sqlite3
import urllib.parse
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.base.errors import NotAProject, ProjectDamaged, ProjectError
from engine.base.files import atomic_replacement
from engine.project.failures import translate_file_errors
from engine.project.schema import APPLICATION_ID, SCHEMA, foreign_object
from engine.project.write_lock import WriteLock, check_log

KEEP = 5
"""How many backups of `back_up` stay, when nothing else is said."""

_OWN = re.compile(r"\.backup-\d{8}T\d{6}Z(-\d+)?")


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup of a project.

    Attributes:
        path: Its file.
        made: When it was written, as UTC in ISO 8601.
        size: Bytes.
        schema: Number of its schema; None where it cannot be read.
        conversations: How many it has; None where it cannot be read.
    """

    path: str
    made: str
    size: int
    schema: int | None
    conversations: int | None


def backups_of(path: str) -> list[Backup]:
    """The backups beside a project, the newest first; the project itself need not be there."""
    real = os.path.realpath(path)
    found = [
        name
        for name in glob.glob(glob.escape(real) + ".backup-*")
        if not name.endswith(_NO_BACKUPS) and os.path.isfile(name)
    ]
    return sorted(map(_described, found), key=lambda one: (one.made, one.path), reverse=True)


def back_up(path: str, keep: int = KEEP) -> tuple[str, list[str]]:
    """Copies a project beside itself, also while it is open elsewhere, and removes the oldest copies of this kind.

    Returns:
        The new file, and those that were removed.

    Raises:
        ProjectError: There is no project, it is damaged, or the disk is full. No backup is removed then.
    """
    real = os.path.realpath(path)
    target = free_name(f"{real}.backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    with translate_file_errors(real, target), closing(_opened(path, real)) as conn:
        copy_whole(conn, target)
    own = [
        one.path
        for one in backups_of(path)
        if _OWN.fullmatch(one.path.removeprefix(real)) and one.path != target
    ]
    removed = own[max(keep - 1, 0) :]
    for old in removed:
        os.unlink(old)
    return target, removed


def restore(path: str, backup: str) -> str | None:
    """Puts a copy of a backup in the place of a project.

    Returns:
        Where the file that was there is now; None if there was none.

    Raises:
        ProjectLocked: Somebody is writing the project.
        ProjectError: The backup is missing, damaged or no project, or the disk is full. The project is as it was.
    """
    real = os.path.realpath(path)
    with translate_file_errors(real):
        lock = WriteLock(real)
        lock.acquire()
        try:
            with atomic_replacement(Path(real)) as made:
                with (
                    translate_file_errors(backup, real),
                    closing(_opened(backup, backup)) as conn,
                ):
                    _check(conn, backup)
                    _vacuum(conn, made)
                    with made.open("rb") as file:  # before the project makes room for it
                        os.fsync(file.fileno())
                kept = _set_aside(real, lock) if os.path.exists(real) else None
        finally:
            lock.release()
    return kept


def copy_whole(conn: sqlite3.Connection, target: str) -> None:
    """Writes the database of a connection to the new file `target`, which is there whole or not at all."""
    with atomic_replacement(Path(target)) as part:
        _vacuum(conn, part)


def _vacuum(conn: sqlite3.Connection, target: Path) -> None:
    # as bytes: a path need not be UTF-8
    conn.execute("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(target),))


_NO_BACKUPS = ("-wal", "-shm", "-journal", ".lock", ".partial")
"""Endings of what lies beside a backup, and of one that an earlier version did not finish."""


def free_name(name: str) -> str:
    """`name`, or with a number behind it where that is taken."""
    taken, count = name, 1
    while os.path.lexists(taken):
        count += 1
        taken = f"{name}-{count}"
    return taken


def _set_aside(real: str, lock: WriteLock) -> str:
    """Renames a project, with what SQLite keeps beside it; returns the new name."""
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(real)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if lock.file is not None:
        lock.file.lock_anew()
    kept = free_name(f"{real}.before-restore")
    # the log before the file: a file that is restored must never meet the log of another
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            os.rename(real + suffix, kept + suffix)
    return kept


def _opened(given: str, real: str) -> sqlite3.Connection:
    if not os.path.isfile(real):
        raise ProjectError(f"There is no file {given}.", "Check the path.")
    check_log(real)
    return sqlite3.connect(
        f"file:{urllib.parse.quote(os.fsencode(os.path.abspath(real)))}?mode=ro", uri=True
    )


def _check(conn: sqlite3.Connection, backup: str) -> None:
    if conn.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise NotAProject(f"{backup} is not a project of this program.", "Choose another backup.")
    said = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
    if said != "ok":
        raise ProjectDamaged(f"{backup} is damaged ({said}).", "Choose another backup.")


def _described(path: str) -> Backup:
    status = os.stat(path)
    schema = conversations = None
    # of one that cannot be read only the name is told: the others are of use
    with (
        contextlib.suppress(sqlite3.Error, OSError, ProjectError),
        closing(_opened(path, path)) as conn,
    ):
        (schema,) = conn.execute("PRAGMA user_version").fetchone()
        if schema > SCHEMA or foreign_object(conn, schema) is not None:
            raise sqlite3.DatabaseError("its own SQL is not run")
        (conversations,) = conn.execute("SELECT count(*) FROM conversation").fetchone()
    made = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
    return Backup(path, made, status.st_size, schema, conversations)
