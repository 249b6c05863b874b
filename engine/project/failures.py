"""Translates errors of SQLite and of the operating system into messages that say what to do."""

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
"""Error codes of SQLite where the system refuses to make a file larger for another reason than a full disk."""

_PRIMARY_CODE_BITS = 0xFF
"""The bits of an extended error code of SQLite that are its primary code."""


@contextmanager
def translate_sqlite_errors(path: str, written: str = "") -> Iterator[None]:
    """Turns errors of SQLite in the block into a ProjectError; most other errors pass.

    Errors of values that are no text or no JSON where they must be, and of JSON nested without end, also show damage
    and are turned into one.

    Args:
        path: The project.
        written: The file that is written, where that is another file.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(path, written or path, error) from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise damaged(path, error) from error


@contextmanager
def translate_file_errors(path: str, written: str = "") -> Iterator[None]:
    """Turns errors of SQLite and of the system in the block into a ProjectError; see `translate_sqlite_errors`."""
    try:
        with translate_sqlite_errors(path, written):
            yield
    except OSError as error:
        raise _from_system(path, written or path, error) from error


def _from_sqlite(path: str, written: str, error: sqlite3.Error) -> ProjectError:
    """Returns the error for a person that an error of SQLite means; arguments as in `translate_sqlite_errors`."""
    name, written_name = os.path.basename(path), os.path.basename(written)
    code, primary = _code(error), primary_code(error)
    if lacks_space(error, Path(written).parent):
        return disk_full_error(written_name)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ProjectError(
            f"Another program keeps {name} locked.", "Close whatever else has the file open."
        )
    if primary == sqlite3.SQLITE_READONLY:
        return ProjectReadOnly(
            f"{name} cannot be written.", "Check the permissions of the file and of its folder."
        )
    # the error of Python on bytes that are no text has no code
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


def lacks_space(error: sqlite3.Error, folder: Path) -> bool:
    """Returns whether an error of SQLite on a file in the folder comes from a full disk or a limit on file sizes."""
    primary = primary_code(error)
    return (
        primary == sqlite3.SQLITE_FULL
        or _code(error) in _FILE_LIMIT_CODES
        or (primary == sqlite3.SQLITE_IOERR and is_disk_full(error, folder))
    )


def primary_code(error: sqlite3.Error) -> int:
    """Returns the kind of an error of SQLite: its code without the details; 0 for an error without a code."""
    return _code(error) & _PRIMARY_CODE_BITS


def _code(error: sqlite3.Error) -> int:
    """Returns the extended code of an error of SQLite; 0 for an error of Python's own, which has none."""
    return int(getattr(error, "sqlite_errorcode", None) or 0)


def damaged(path: str, symptom: object) -> ProjectError:
    """Returns the error that says that the project at `path` is damaged, with the symptom of the damage."""
    return ProjectDamaged(
        f"{os.path.basename(path)} is damaged ({symptom}).",
        "See `workbench restore FILE` for backups, or save what can still be read: `workbench repair FILE -o NEW`.",
    )


def _from_system(path: str, written: str, error: OSError) -> ProjectError:
    """Returns the error for a person that an error of the system means; arguments as in `translate_sqlite_errors`."""
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
