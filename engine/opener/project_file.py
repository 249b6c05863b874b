"""Watches what other programs do to the file of a project while its screens are open."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.base.errors import ProjectError, ProjectMoved
from engine.base.events import DataChanged, Event, FileChanged
from engine.project.project import Project

LOOK_SECONDS = 1.0
"""Time between two looks at the file."""


class ProjectFileService:
    """Tells the screens what other programs wrote, and when the file was moved or can be written; saves a copy.

    Attributes:
        moved: What became of the file; None while it is what it was.
    """

    def __init__(
        self, project: Project, emit: Callable[[Event], None], tables: frozenset[str]
    ) -> None:
        """`tables` are those that another program may have changed."""
        self._project = project
        self._emit = emit
        self._tables = tables
        self._version: int | None = None
        self._is_free = False
        self.moved: ProjectMoved | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Looks at the file every second from now on, until `close`."""
        self._thread = threading.Thread(target=self._run, name="project-file", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Looks no more. May be called twice."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(LOOK_SECONDS)

    def _run(self) -> None:
        """Looks every `LOOK_SECONDS` until it is closed, on a thread of its own."""
        while not self._closing.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Looks at the file, and emits what has changed since the last look of the same thread."""
        if self.moved is not None:
            return
        try:
            self._project.check()
            if self._project.read_only is not None:
                self._look_for_changes()
        except ProjectMoved as moved:
            self.moved = moved
            self._emit(FileChanged())
        except ProjectError:
            return  # closed, or what it cannot read, which whoever needs it says

    def _look_for_changes(self) -> None:
        """Emits what another writer has changed, and that it no longer writes."""
        with self._project.reading() as conn:
            (version,) = conn.execute("PRAGMA data_version").fetchone()
        if self._version not in (None, version):
            self._emit(DataChanged(self._tables))
        self._version = version
        is_free = self._project.waits_for_writer and not self._project.is_written()
        if is_free and not self._is_free:
            self._emit(FileChanged())
        self._is_free = is_free

    def save_copy(self, path: str) -> None:
        """Writes all that is in the project to a new file; raises as `Project.save_copy`."""
        self._project.save_copy(path)
