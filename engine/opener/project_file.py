"""Watches the file of an open project for what other programs do to it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.base.errors import ProjectError, ProjectMoved
from engine.base.events import DataChanged, Event, FileChanged
from engine.project.project import Project

LOOK_SECONDS = 1.0
"""Seconds between two looks at the file."""


class ProjectFileWatch:
    """Emits events when other programs write the file, move it, or end so that it can be written.

    Attributes:
        moved: What another program did to the file; None until it does.
    """

    def __init__(
        self, project: Project, emit: Callable[[Event], None], tables: frozenset[str]
    ) -> None:
        """Does not look at the file yet; `tables` are the names of the tables that another program may change."""
        self._project = project
        self._emit = emit
        self._tables = tables
        self._version: int | None = None  # counter of SQLite that grows with each change by others
        self._is_free = False  # whether the writer for which the project waits has ended
        self.moved: ProjectMoved | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts a thread that looks at the file every `LOOK_SECONDS` until `close`."""
        self._thread = threading.Thread(target=self._run, name="project-file", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the thread; may be called twice."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(LOOK_SECONDS)

    def _run(self) -> None:
        """Looks at the file every `LOOK_SECONDS` until `close`; runs on a thread of its own."""
        while not self._closing.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Looks at the file, and emits events for what has changed since the last look of the same thread."""
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
            return  # the project is closed or unreadable; whoever reads it next says so

    def _look_for_changes(self) -> None:
        """Emits events when another process has changed the data, and when it no longer writes the project."""
        with self._project.reading() as conn:
            (version,) = conn.execute("PRAGMA data_version").fetchone()
        if self._version not in (None, version):
            self._emit(DataChanged(self._tables))
        self._version = version
        is_free = self._project.waits_for_writer and not self._project.is_written()
        if is_free and not self._is_free:
            self._emit(FileChanged())
        self._is_free = is_free
