"""Backups of a project: whole copies of its file, beside it, named `<file>.backup-...`.

A backup is made before each upgrade (`<file>.backup-<schema>`) and by `back_up` (`<file>.backup-<UTC time>`); only
those of `back_up` are ever removed. `restore` puts a copy of a backup in the place of the project and keeps the present
file beside it. `real` is the path of a project without symbolic links.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.base.errors import NotAProject, ProjectDamaged, ProjectError
from engine.base.files import (
    APPLICATION_ID,
    SIDE_FILE_ENDINGS,
    atomic_replacement,
    refuse_side_file,
    sync,
)
from engine.project.connections import file_uri, find_damage, fold_log, translate_file_errors
from engine.project.write_lock import WriteLock, check_log

BACKUPS_KEPT = 5
"""Default number of backups of `back_up` that stay."""

_DATED_ENDING = re.compile(r"\.backup-\d{8}T\d{6}Z(-\d+)?")
"""Matches the end of the name of a backup of `back_up`: `.backup-20260701T120000Z`, and `-2` for a second one."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup of a project.

    Attributes:
        path: The file of the backup.
        made: When it was written, in UTC as ISO 8601.
        size: Length of the file in bytes.
    """

    path: str
    made: str
    size: int


def backups_of(path: str) -> list[Backup]:
    """Returns the backups beside a project, the newest first; the project itself may be missing."""
    real = os.path.realpath(path)
    backups = [
        _describe(name)
        for name in glob.glob(glob.escape(real) + ".backup-*")
        # those of an earlier version end in .partial where they were not finished
        if not name.endswith((*SIDE_FILE_ENDINGS, ".partial")) and os.path.isfile(name)
    ]
    return sorted(backups, key=lambda backup: (backup.made, backup.path), reverse=True)


def back_up(path: str, keep: int = BACKUPS_KEPT) -> tuple[str, list[str]]:
    """Copies a project beside itself, even while it is open elsewhere, and removes the oldest copies of this kind.

    Args:
        keep: Number of backups of this kind that stay, the new one included.

    Returns:
        The path of the new file, and the paths of those that were removed.

    Raises:
        ProjectError: There is no project, it is damaged, or the disk is full. No backup is removed then.
    """
    real = os.path.realpath(path)
    target = free_name(f"{real}.backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    with translate_file_errors(real, target), closing(_open_for_reading(path, real)) as conn:
        copy_whole(conn, target)
    earlier = [
        backup.path
        for backup in backups_of(path)
        if _DATED_ENDING.fullmatch(backup.path.removeprefix(real)) and backup.path != target
    ]
    removed = earlier[max(keep - 1, 0) :]
    for backup_path in removed:
        os.unlink(backup_path)
    return target, removed


def restore(path: str, backup: str) -> str | None:
    """Puts a copy of a backup in the place of a project.

    Returns:
        The new name of the file that was there; None if there was none.

    Raises:
        ProjectLocked: Somebody is writing the project.
        ProjectError: The backup is missing, damaged or no project, or the disk is full. The project is as it was.
    """
    real = os.path.realpath(path)
    with translate_file_errors(real):
        refuse_side_file(real)
        lock = WriteLock(real)
        lock.acquire()
        try:
            with atomic_replacement(Path(real)) as part:
                _copy_backup(backup, part, real)
                return _set_aside(real, lock) if os.path.exists(real) else None
        finally:
            lock.release()


def _copy_backup(backup: str, target: Path, real: str) -> None:
    """Writes a sound backup of a project to a file and waits until it is on the disk."""
    with (
        translate_file_errors(backup, real),
        closing(_open_for_reading(backup, backup)) as conn,
    ):
        _check_backup(conn, backup)
        _vacuum(conn, target)
        sync(target)


def copy_whole(conn: sqlite3.Connection, target: str) -> None:
    """Writes the database of a connection to the new file `target`, completely or not at all."""
    refuse_side_file(target)
    with atomic_replacement(Path(target)) as part:
        _vacuum(conn, part)


def back_up_before_upgrade(conn: sqlite3.Connection, real: str, schema: int) -> None:
    """Copies a file of an earlier schema to `<file>.backup-<schema>`, with a number behind the name if it is taken.

    Raises:
        ProjectError: The disk is full, or the file is damaged.
    """
    target = free_name(f"{real}.backup-{schema}")
    with translate_file_errors(real, target):
        copy_whole(conn, target)


def _vacuum(conn: sqlite3.Connection, target: Path) -> None:
    """Writes the database of a connection, without its free pages, to a file that is new or empty."""
    # as bytes: a path need not be UTF-8
    conn.execute("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(target),))


def free_name(name: str) -> str:
    """Returns `name`, with a number behind it if a file has that name."""
    candidate, count = name, 1
    while os.path.lexists(candidate):
        count += 1
        candidate = f"{name}-{count}"
    return candidate


def _set_aside(real: str, lock: WriteLock) -> str:
    """Renames a project with the files that SQLite keeps beside it; returns the new name."""
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(real)) as conn:
        fold_log(conn)
    if lock.file is not None:
        lock.file.lock_anew()
    new_name = free_name(f"{real}.before-restore")
    # the log before the file: a restored file must never meet the log of another one
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            os.rename(real + suffix, new_name + suffix)
    return new_name


def _open_for_reading(name: str, real: str) -> sqlite3.Connection:
    """Opens a file for reading, after a check that its log belongs to it; `name` is the path as the person gave it.

    Raises:
        ProjectError: There is no such file, or its log belongs to another one.
    """
    if not os.path.isfile(real):
        raise ProjectError(f"There is no file {name}.", "Check the path.")
    check_log(real)
    return sqlite3.connect(file_uri(real), uri=True)


def _check_backup(conn: sqlite3.Connection, backup: str) -> None:
    """Checks that a backup is a project and not damaged.

    Raises:
        ProjectError: It is no project, or it is damaged.
    """
    (application,) = conn.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise NotAProject(f"{backup} is not a project of this program.", "Choose another backup.")
    if (damage := find_damage(conn)) is not None:
        raise ProjectDamaged(f"{backup} is damaged ({damage}).", "Choose another backup.")


def _describe(path: str) -> Backup:
    """Returns the backup in a file, with its time and size."""
    status = os.stat(path)
    made = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
    return Backup(path, made, status.st_size)
