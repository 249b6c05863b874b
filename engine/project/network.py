"""Keeps a project offline by a setting of it, which is in force while the project is open."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable

from engine.base import network_guard
from engine.project import settings
from engine.project.project import Project

OFFLINE_KEY = "offline"
"""Setting: true where the project uses no network, not even for endpoints and hubs that were named
(`workbench offline`)."""


class NetworkService:
    """Keeps the `offline` setting of one project, which holds for the whole program while the project is open."""

    def __init__(self, project: Project) -> None:
        """Applies the setting as the project has it."""
        self._project = project
        self._guard = threading.Lock()
        self._switch = network_guard.Switch(
            "this project's setting `offline`",
            f"`workbench offline {shlex.quote(project.path)} off` changes it.",
        )
        self._turn_off: Callable[[], None] | None = None
        with project.reading() as conn:
            self._apply(bool(settings.get(conn, OFFLINE_KEY, False)))

    def stays_offline(self) -> bool:
        """Returns whether this project's own setting is on; quick."""
        return self._turn_off is not None

    def others(self) -> list[str]:
        """Returns the names of what else keeps this program offline, as in "… is on"; quick."""
        return [switch.name for switch in network_guard.switches() if switch != self._switch]

    def stay_offline(self, on: bool) -> None:
        """Stores the setting and applies it at once; connections that are open stay open until they end.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        self._project.write(lambda conn: settings.put(conn, OFFLINE_KEY, on))
        self._apply(on)

    def close(self) -> None:
        """Ends the effect of the setting, which lasts as long as the project is open."""
        self._apply(False)

    def _apply(self, on: bool) -> None:
        """Applies the setting, or ends its effect."""
        with self._guard:
            if on and self._turn_off is None:
                self._turn_off = network_guard.turn_on(self._switch)
            elif not on and self._turn_off is not None:
                self._turn_off()
                self._turn_off = None
