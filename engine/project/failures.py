"""Translates errors of SQLite and of the system into messages that say what to do."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.base.errors import ProjectDamaged, ProjectError, ProjectReadOnly
from engine.base.files import disk_full_error, is_disk_full

_FILE_LIMIT_CODES = (
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)
"""What SQLite reports when the system refuses to make a file larger for another reason than a full disk."""

_PRIMARY_CODE_BITS = 0xFF
"""The bits of an extended error code of SQLite that are its primary code, which is the kind of the error."""


@contextmanager
def translate_sqlite_errors(path: str, written: str = "") -> Iterator[None]:
    """Turns errors of SQLite on a project into a ProjectError; other errors of the caller pass.

    So are values turned that are neither text nor JSON where they must be, or JSON nested without end.

    Args:
        path: The project.
        written: The file that is written, where that is another one.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(path, written or path, error) from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise damaged(path, error) from error


@contextmanager
def translate_file_errors(path: str, written: str = "") -> Iterator[None]:
    """Turns errors of SQLite and of the system into a ProjectError; see `translate_sqlite_errors`."""
    try:
        with translate_sqlite_errors(path, written):
            yield
    except OSError as error:
        raise _from_system(path, written or path, error) from error


def _from_sqlite(path: str, written: str, error: sqlite3.Error) -> ProjectError:
    """Returns what an error of SQLite means for a person."""
    name, written_name = os.path.basename(path), os.path.basename(written)
    code = getattr(error, "sqlite_errorcode", None) or 0
    primary = code & _PRIMARY_CODE_BITS
    folder = Path(written).parent
    if (
        primary == sqlite3.SQLITE_FULL
        or code in _FILE_LIMIT_CODES
        or (primary == sqlite3.SQLITE_IOERR and is_disk_full(error, folder))
    ):
        return disk_full_error(written_name)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ProjectError(
            f"Another program keeps {name} locked.", "Close whatever else has the file open."
        )
    if primary == sqlite3.SQLITE_READONLY:
        return ProjectReadOnly(
            f"{name} cannot be written.", "Check the permissions of the file and of its folder."
        )
    # Python's own error on bytes that are no text has no code
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or (
        not code and "decode to UTF-8" in str(error)
    ):
        return damaged(path, error)
    if primary == sqlite3.SQLITE_CANTOPEN:
        return ProjectError(
            f"{name} cannot be opened.", "Check the permissions of the file and of its folder."
        )
    if written != path:
        return ProjectError(
            f"{name} could not be read, or {written_name} not be written ({error})."
        )
    return ProjectError(f"{name} could not be read or written ({error}).")


def damaged(path: str, symptom: object) -> ProjectError:
    """Returns the error that says that the project at `path` is damaged, and by what that was noticed."""
    return ProjectDamaged(
        f"{os.path.basename(path)} is damaged ({symptom}).",
        "See `workbench restore FILE` for backups, or save what can still be read: `workbench repair FILE -o NEW`.",
    )


def _from_system(path: str, written: str, error: OSError) -> ProjectError:
    """Returns what an error of the system means for a person."""
    name = os.path.basename(path)
    if is_disk_full(error):
        return disk_full_error(os.path.basename(written))
    if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
        return ProjectError(
            f"The file system of {name} offers no locks.", "Keep projects on a local disk."
        )
    if written != path:
        return ProjectError(
            f"{os.path.basename(written)} cannot be written: {error.strerror or error}."
        )
    return ProjectError(f"{name} cannot be opened: {error.strerror or error}.")
