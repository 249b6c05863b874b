"""The terminal app: modes, themes, and what concerns every screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen

import screens
from engine.errors import WorkbenchError
from engine.events import JobEnded, Listener
from engine.text import one_line
from screens.background import all_written
from screens.base import MODES
from screens.bridge import EngineFeed, EngineMessage
from screens.control_guard import ControlGuard
from screens.conversations import ConversationsScreen
from screens.dialogs import ErrorDialog
from screens.help import HelpScreen
from screens.overview import OverviewScreen
from screens.ports import Services
from screens.themes import DARK, DARK_TONES, LIGHT, LIGHT_TONES
from screens.triage import TriageScreen

Subscribe = Callable[[Listener], Callable[[], None]]
"""Adds a listener to the engine's events and returns what takes it off again."""

QUIT_SECONDS = 2.0
"""How long quitting waits for verdicts that are being written; jobs are never waited for."""


class WorkbenchApp(App[None]):
    """The screens over one project. Closing the services after the app has quit is the caller's."""

    TITLE = "Conversation Workbench"
    CSS_PATH = Path(screens.__file__).parent / "common.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *[
            Binding(key, f"switch_mode('{name}')", title, show=False, tooltip=f"Go to {title}")
            for name, key, title in MODES
        ],
        Binding("x", "cancel_job", "Cancel the job that runs", show=False),
        Binding("T", "toggle_theme", "Dark or light", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit", show=False),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        services: Services,
        subscribe: Subscribe,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self._services = services
        self._subscribe = subscribe
        self._unsubscribe: Callable[[], None] | None = None
        self._feed = EngineFeed(self)
        self.add_mode("overview", lambda: OverviewScreen(services, self._feed, clock))
        self.add_mode("conversations", lambda: ConversationsScreen(services, self._feed))
        self.add_mode("triage", lambda: TriageScreen(services, self._feed, clock))
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The tones, for themes that do not define them."""
        return DARK_TONES if self.current_theme.dark else LIGHT_TONES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own filters and the net against control bytes."""
        return [*super().get_line_filters(), ControlGuard()]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Textual's commands and the app's own."""
        yield from super().get_system_commands(screen)
        for name, _, title in MODES:
            yield SystemCommand(f"Go to {title}", "Change the mode", self._switcher(name))
        yield SystemCommand("Dark or light", "Change the theme", self.action_toggle_theme)
        yield SystemCommand("Cancel job", "Stop the job that runs", self.action_cancel_job)

    def _switcher(self, mode: str) -> Callable[[], object]:
        return lambda: self.switch_mode(mode)

    async def on_mount(self) -> None:
        """Listens to the engine and shows the first mode."""
        self._unsubscribe = self._subscribe(self._feed.receive)
        await self.switch_mode("overview")

    def on_unmount(self) -> None:
        """Listens no longer."""
        if self._unsubscribe is not None:
            self._unsubscribe()

    def on_engine_message(self, message: EngineMessage) -> None:
        """Passes an event on, and tells how a job ended."""
        event = message.event
        self._feed.publish(event)
        if isinstance(event, JobEnded):
            if event.outcome == "failed":
                error = WorkbenchError(event.message, event.hint)
                self.push_screen(ErrorDialog(error, f"{event.title} failed"))
            else:
                self.notify(one_line(event.message), title=one_line(event.title), markup=False)

    def action_cancel_job(self) -> None:
        """Asks the job that runs to stop."""
        active = self._services.jobs.active()
        if active:
            self._services.jobs.cancel(active[0].job_id)
        else:
            self.notify("No job is running.", markup=False)

    def action_toggle_theme(self) -> None:
        """Changes between the dark and the light theme."""
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def action_help(self) -> None:
        """Shows the keys that work here."""
        self.push_screen(HelpScreen(self.screen))

    async def action_quit(self) -> None:
        """Quits without waiting for jobs; a verdict just given is written first."""
        await all_written(QUIT_SECONDS)
        self.exit()
