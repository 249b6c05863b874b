"""The id of a project: what lies beside the file, such as training runs, names its project by it.

It is made when the file is first opened for writing. A file that is renamed, moved or copied keeps it; a new project of
the same name has another one.
"""

from __future__ import annotations

import sqlite3
import uuid

from engine.project import settings

PROJECT_ID = "project_id"
"""Setting: the id, 32 hexadecimal digits."""


def get(conn: sqlite3.Connection) -> str | None:
    """Returns the id of the project; None for a file of an earlier version that was not written since."""
    project_id: str | None = settings.get(conn, PROJECT_ID)
    return project_id


def ensure(conn: sqlite3.Connection) -> None:
    """Gives the project an id if it has none."""
    if get(conn) is None:
        renew(conn)


def renew(conn: sqlite3.Connection) -> None:
    """Gives the project a new id."""
    settings.put(conn, PROJECT_ID, uuid.uuid4().hex)
