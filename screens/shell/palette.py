"""The palette: every action of the screen in front and of the app, the modes, themes, projects and saved filters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import unwrap
from typing import Any, Protocol, cast

from textual import work
from textual.app import App
from textual.binding import ActiveBinding
from textual.command import (
    CommandList,
    CommandPalette,
    DiscoveryHit,
    Hit,
    Hits,
    Provider,
)
from textual.content import Content
from textual.fuzzy import Matcher
from textual.markup import escape
from textual.screen import Screen
from textual.widgets import Input

from engine.base import number_format
from engine.base.errors import FilterError
from engine.base.text import one_line
from engine.conversations.filters import parse_filter
from screens.shell.late_events import IgnoresLateEvents
from screens.shell.recent_projects import Shell
from screens.shell.themes import THEMES
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import in_thread
from screens.widgets.keyed import Keyed, shown_key
from screens.widgets.line_input import MOST_TYPED


class PaletteApp(Protocol):
    """The methods of the app that the palette calls."""

    shell: Shell

    def open_project(self, path: str) -> None:
        """Leaves this project and opens another."""

    def use_theme(self, name: str) -> None:
        """Changes the theme, by the name a person uses."""

    def save_picture(self) -> None:
        """Saves the screen in front as a picture beside the project."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line of the palette; `title` and `help` are display-safe."""

    title: str
    help: str
    keys: str
    run: Callable[[], Any]


class Palette(IgnoresLateEvents, CommandPalette):
    """Textual's palette; once it is closed, a search on its way does not look up its list, which is removed."""

    def on_mount(self) -> None:
        """Bounds what is typed, as in `LineInput`."""
        self.query_one(Input).max_length = MOST_TYPED

    def _has_list(self) -> bool:
        return self.is_running and bool(self.query(CommandList))

    def _watch__list_visible(self) -> None:
        if self._has_list():
            super()._watch__list_visible()

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP)
    async def _gather_commands(self, search_value: str) -> None:
        # A key that was typed just before the palette closed starts this afterwards.
        if self._has_list():
            await unwrap(CommandPalette._gather_commands)(self, search_value)

    def _action_command_list(self, action: str) -> None:
        with suppress(KeyError):  # a page down before the list is laid out
            super()._action_command_list(action)


class WorkbenchCommands(Provider):
    """Collects the commands once, when the palette opens; typing only filters them."""

    async def startup(self) -> None:
        """Collects the commands; the files of other projects are looked at off the UI thread."""
        app = cast(PaletteApp, self.app)
        self._commands = [
            *binding_commands(self.screen),
            *[self._theme(name) for name in THEMES],
            Command("Screenshot: save this screen as a picture", "SVG", "", self._save_picture),
            *self._saved_filters(),
        ]
        here = self.screen.services.path if isinstance(self.screen, WorkbenchScreen) else ""
        for project in await in_thread(app.shell.recent):
            if project.size is not None and project.path != here:
                self._commands.append(
                    Command(
                        f"Open project {one_line(project.path, 120)}",
                        f"{number_format.amount(project.size)} bytes",
                        "",
                        partial(app.open_project, project.path),
                    )
                )

    def _theme(self, name: str) -> Command:
        app = cast(PaletteApp, self.app)
        return Command(f"Theme: {name}", "Change the colors", "", partial(app.use_theme, name))

    def _save_picture(self) -> None:
        """Saves the screen once the palette no longer covers it."""
        self.app.call_after_refresh(cast(PaletteApp, self.app).save_picture)

    def _saved_filters(self) -> list[Command]:
        if not isinstance(self.screen, WorkbenchScreen):
            return []
        found = self.screen.services.saved.filters()
        return [
            Command(
                f"Filter: {one_line(name, 60)}",
                one_line(text),
                "",
                partial(self._apply_filter, text),
            )
            for name, text in found.items()
        ]

    async def _apply_filter(self, text: str) -> None:
        try:
            wanted = parse_filter(text)
        except FilterError as error:
            self.app.notify(one_line(str(error)), severity="warning", markup=False)
            return
        await self.app.switch_mode("conversations")
        if isinstance(self.app.screen, WorkbenchScreen):
            self.app.screen.filter_by(wanted)

    async def discover(self) -> Hits:
        """All commands, before anything is typed."""
        for command in self._commands:
            yield DiscoveryHit(
                _shown(Content(command.title), command),
                command.run,
                text=command.title,
                help=escape(command.help),
            )

    async def search(self, query: str) -> Hits:
        """The commands that match."""
        matcher = self.matcher(query)
        for command in self._commands:
            score = matcher.match(command.title)
            if score > 0:
                yield Hit(
                    score,
                    _shown(_highlighted(matcher, command.title), command),
                    command.run,
                    text=command.title,
                    help=escape(command.help),
                )


def _highlighted(matcher: Matcher, title: str) -> Content:
    """The title with what matched; `Matcher.highlight` would read it as markup."""
    content = Content(title)
    for at in matcher.fuzzy_search.match(matcher.query, title)[1]:
        content = content.stylize(matcher.match_style, at, at + 1)
    return content


def _shown(title: Content, command: Command) -> Content:
    return Content.assemble(title, (f"  {command.keys}", "$tone-accent")) if command.keys else title


def binding_commands(screen: Screen[Any]) -> list[Command]:
    """The actions with a key that works now, each once with all its keys: those of the screen, then those of the app,
    then those that move the focus."""
    found: dict[tuple[int, str], tuple[str, list[str], Callable[[], Any]]] = {}
    for active in sorted(screen.active_bindings.values(), key=_rank):
        binding, node = active.binding, active.node
        if not active.enabled or not isinstance(node, Keyed | App) or binding.id is None:
            continue
        if binding.action.endswith("command_palette"):
            continue
        title = binding.tooltip or binding.description
        if binding.description.lower() not in title.lower():
            title = f"{binding.description}: {title}"
        run = partial(screen.app.run_action, binding.action, node)
        entry = found.setdefault((id(node), binding.action), (title, [], run))
        entry[1].append(shown_key(binding.key))
    return [Command(title, "", " ".join(keys), run) for title, keys, run in found.values()]


def _rank(active: ActiveBinding) -> int:
    if (active.binding.id or "").startswith("screen."):
        return 3
    return 0 if isinstance(active.node, Screen) else 1 if isinstance(active.node, App) else 2
