"""Two lists of what can be done on a screen: the palette of all commands, and the help with the keys."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import unwrap
from typing import Any, ClassVar, cast

from textual import work
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.containers import VerticalScroll
from textual.content import Content
from textual.fuzzy import Matcher
from textual.markup import escape
from textual.screen import Screen
from textual.widgets import Input, Static

from engine.base import number_format
from engine.base.text import PATH_LIMIT, one_line
from screens.shell.app_interface import PaletteApp
from screens.shell.dialogs import Dialog, IgnoresLateEvents, key_hints
from screens.shell.themes import THEMES
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import in_thread
from screens.widgets.controls import MAX_TYPED_CHARACTERS, titled
from screens.widgets.keyed import Keyed, shown_key

HELP_WIDTH = 70
"""Cells of a line of help before its width is known."""

KEYS_WIDTH = 18
"""Cells for the keys of a line of the help."""

_KEYS_OF_TEXTUAL = {
    (binding.action, binding.description)
    for binding in Screen.BINDINGS
    if isinstance(binding, Binding)
}
"""Action and description of the keys that every screen of Textual has; the help leaves them out."""
SECTIONS = ("Start with these", "On this screen", "Moving about", "Everywhere")
"""Titles of the sections of the help."""
HelpLine = tuple[list[str], str]
"""Keys with one effect, and the effect."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line of the palette.

    Attributes:
        title: What the command does; display-safe.
        help: A line below the title, display-safe; empty for none.
        keys: Its keys as they are shown, with spaces between; empty without a key.
        run: Runs the command.
    """

    title: str
    help: str
    keys: str
    run: Callable[[], Any]


# The palette


class Palette(IgnoresLateEvents, CommandPalette):
    """Textual's palette. After it is closed, a search that still runs does not look up its list, which is removed."""

    def on_mount(self) -> None:
        """Bounds the length of what is typed, as in `LineInput`."""
        self.query_one(Input).max_length = MAX_TYPED_CHARACTERS

    def _has_list(self) -> bool:
        """Returns whether the list of the palette exists: not after it is closed."""
        return self.is_running and bool(self.query(CommandList))

    def _watch__list_visible(self) -> None:
        """Shows or hides the list, as Textual does, unless it is gone."""
        if self._has_list():
            super()._watch__list_visible()

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP)
    async def _gather_commands(self, search_value: str) -> None:
        """Searches, as Textual does, unless the list is gone."""
        # A key that was typed just before the palette closed starts this afterwards.
        if self._has_list():
            # without its decorator, which would start a second worker
            await unwrap(CommandPalette._gather_commands)(self, search_value)

    def _action_command_list(self, action: str) -> None:
        """Passes a key on to the list, as Textual does."""
        with suppress(KeyError):  # a page down before the list is laid out
            super()._action_command_list(action)


class WorkbenchCommands(Provider):
    """Collects the commands once, when the palette opens; typing only filters them."""

    async def startup(self) -> None:
        """Collects the commands; the files of other projects are looked at off the UI thread."""
        app = cast(PaletteApp, self.app)
        self._commands = [*binding_commands(self.screen), *map(self._theme, THEMES)]
        open_path = self.screen.services.path if isinstance(self.screen, WorkbenchScreen) else ""
        for project in await in_thread(app.shell.recent):
            if project.size is not None and project.path != open_path:
                self._commands.append(
                    Command(
                        f"Open project {one_line(project.path, PATH_LIMIT)}",
                        f"{number_format.amount(project.size)} bytes",
                        "",
                        partial(app.open_project, project.path),
                    )
                )

    def _theme(self, name: str) -> Command:
        """Returns the command that changes to a theme."""
        app = cast(PaletteApp, self.app)
        return Command(f"Theme: {name}", "Change the colors", "", partial(app.use_theme, name))

    async def discover(self) -> Hits:
        """Returns all commands, before anything is typed."""
        for command in self._commands:
            yield DiscoveryHit(
                _with_keys(Content(command.title), command),
                command.run,
                text=command.title,
                help=escape(command.help),
            )

    async def search(self, query: str) -> Hits:
        """Returns the commands that match."""
        matcher = self.matcher(query)
        for command in self._commands:
            score = matcher.match(command.title)
            if score > 0:
                yield Hit(
                    score,
                    _with_keys(_highlighted(matcher, command.title), command),
                    command.run,
                    text=command.title,
                    help=escape(command.help),
                )


def _highlighted(matcher: Matcher, title: str) -> Content:
    """Returns the title with the matched characters highlighted; `Matcher.highlight` would read it as markup."""
    content = Content(title)
    _, offsets = matcher.fuzzy_search.match(matcher.query, title)
    for offset in offsets:
        content = content.stylize(matcher.match_style, offset, offset + 1)
    return content


def _with_keys(title: Content, command: Command) -> Content:
    """Returns the title of a command with its keys."""
    return Content.assemble(title, (f"  {command.keys}", "$tone-accent")) if command.keys else title


def binding_commands(screen: Screen[Any]) -> list[Command]:
    """Returns the actions with a key that works now, each once with all its keys, in the order of `_rank`."""
    # by the id of the node that has the action, and by the action
    commands: dict[tuple[int, str], Command] = {}
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
        place = id(node), binding.action
        command = commands.get(place, Command(title, help="", keys="", run=run))
        keys = f"{command.keys} {shown_key(binding.key)}".lstrip()
        commands[place] = replace(command, keys=keys)
    return list(commands.values())


def _rank(active: ActiveBinding) -> int:
    """Returns a number to sort commands by: those of the screen come first, then the app's, then those of panes.

    Those that every screen has come last: they move the focus, or fill an empty screen.
    """
    if (active.binding.id or "").startswith("screen."):
        return 3
    if isinstance(active.node, Screen):
        return 0
    return 1 if isinstance(active.node, App) else 2


# The help


class HelpScreen(Dialog[None]):
    """Lists keys: those that matter first, the screen's others, those of the pane, those that work everywhere.

    The sections are `SECTIONS`; those of the pane stand beside the keys that every screen has.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss(None)", "Close"),
        Binding("down,j", "scroll(1)", "Line down", show=False),
        Binding("up,k", "scroll(-1)", "Line up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
    ]

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        first = screen.FIRST_KEYS if isinstance(screen, WorkbenchScreen) else ()
        self._sections = sections(screen.active_bindings.values(), first)

    def compose(self) -> ComposeResult:
        """Yields a text for each section, and the keys of the help itself."""
        with titled(VerticalScroll(classes="dialog help", can_focus=False), "Keys"):
            for title, lines in self._sections:
                yield Static(self._section(title, lines, HELP_WIDTH), classes="keys")
            yield key_hints(
                ("escape", "closes"),
                ("ctrl+p", "all commands by name"),
                ("workbench keys", "every key, and where to change them"),
            )

    def on_resize(self) -> None:
        """Wraps the meanings in the width there is."""
        self.call_after_refresh(self._wrap)

    def _wrap(self) -> None:
        """Shows the sections, each meaning wrapped beside its keys."""
        texts = self.query(".keys").results(Static)
        for shown, (title, lines) in zip(texts, self._sections, strict=True):
            shown.update(self._section(title, lines, shown.size.width))

    def _section(self, title: str, lines: list[HelpLine], cells: int) -> Content:
        """Returns a title and below it the keys with their meanings, `cells` wide."""
        parts: list[tuple[str, str] | str] = [(title, "bold $tone-accent")]
        margin = KEYS_WIDTH + len("   ")
        for keys, meaning in lines:
            shown = " ".join(shown_key(key) for key in keys)
            wrapped = f"\n{'':{margin}}".join(textwrap.wrap(meaning, max(1, cells - margin)))
            parts += [(f"\n  {shown:<{KEYS_WIDTH}}", "bold"), f" {wrapped}"]
        return Content.assemble(*parts)

    def action_scroll(self, lines: int) -> None:
        """Scrolls by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scrolls by pages."""
        box = self.query_one(VerticalScroll)
        box.scroll_relative(y=pages * max(1, box.size.height - 2), animate=False)


def sections(
    bindings: Iterable[ActiveBinding], first: Sequence[str] = ()
) -> list[tuple[str, list[HelpLine]]]:
    """Returns the title of each section of the help that has lines, and these lines.

    Args:
        first: Ids of the bindings that come before all others, in this order; those that do not work now are left out.
    """
    order = {binding_id: index for index, binding_id in enumerate(first)}
    keys_by_meaning: dict[str, dict[str, list[str]]] = {title: {} for title in SECTIONS}
    for active in sorted(
        bindings, key=lambda active: order.get(active.binding.id or "", len(order))
    ):
        binding = active.binding
        meaning = binding.tooltip or binding.description
        if meaning and not binding.system and (binding.action, meaning) not in _KEYS_OF_TEXTUAL:
            title = _section_of(active, first)
            keys_by_meaning[title].setdefault(meaning, []).append(binding.key)
    return [
        (title, [(keys, meaning) for meaning, keys in lines.items()])
        for title, lines in keys_by_meaning.items()
        if lines
    ]


def _section_of(active: ActiveBinding, first: Sequence[str]) -> str:
    """Returns the title of the section that has a binding; `first` are the ids of those that come first."""
    start, screen, moving, everywhere = SECTIONS
    binding_id = active.binding.id or ""
    if binding_id in first:
        return start
    if isinstance(active.node, App):
        return everywhere
    moves_focus = binding_id.startswith("screen.") and binding_id != "screen.fill"
    is_of_screen = isinstance(active.node, Screen) and not moves_focus
    return screen if is_of_screen else moving
