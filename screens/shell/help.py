"""The keys that work where `?` was pressed, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from screens.shell.dialogs.basic import Dialog, hint_line
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.keyed import shown_key

_TEXTUALS = {
    (binding.action, binding.description)
    for binding in Screen.BINDINGS
    if isinstance(binding, Binding)
}
"""Keys that every screen of Textual has; where they do something, a screen says so in its own words."""


class HelpScreen(Dialog[None]):
    """A list of keys: those that matter first, the screen's others, those of the pane, those that work everywhere."""

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
        """The list."""
        with VerticalScroll(classes="dialog help", can_focus=False) as box:
            box.border_title = Content("Keys")
            for title, lines in self._sections:
                if lines:
                    yield Static(self._section(title, lines))
            yield Static(
                hint_line(
                    ("escape", "closes"),
                    ("ctrl+p", "all commands by name"),
                    ("workbench keys", "every key, and where to change them"),
                )
            )

    def _section(self, title: str, lines: list[tuple[list[str], str]]) -> Content:
        parts: list[tuple[str, str] | str] = [(title, "bold $tone-accent")]
        for keys, meaning in lines:
            shown = " ".join(shown_key(key) for key in keys)
            parts += [(f"\n  {shown:<18}", "bold"), f" {meaning}"]
        return Content.assemble(*parts)

    def action_scroll(self, lines: int) -> None:
        """Scrolls by lines."""
        box = self.query_one(VerticalScroll)
        box.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scrolls by pages."""
        box = self.query_one(VerticalScroll)
        box.scroll_relative(y=pages * max(1, box.size.height - 2), animate=False)


def sections(
    bindings: Iterable[ActiveBinding], first: Sequence[str] = ()
) -> list[tuple[str, list[tuple[list[str], str]]]]:
    """Titles with keys and meanings: keys with the same effect are shown together.

    Args:
        first: Ids of the bindings that come before all others, in this order; those that do not work now are left out.
    """
    foremost: dict[str, list[str]] = {}
    places: dict[str, int] = {}
    here: dict[str, list[str]] = {}
    moving: dict[str, list[str]] = {}
    everywhere: dict[str, list[str]] = {}
    for active in bindings:
        meaning = active.binding.tooltip or active.binding.description
        if not meaning or active.binding.system or (active.binding.action, meaning) in _TEXTUALS:
            continue
        if active.binding.id in first:
            where = foremost
        elif isinstance(active.node, App):
            where = everywhere
        elif isinstance(active.node, Screen) and not (active.binding.id or "").startswith(
            "screen."
        ):
            where = here
        else:
            where = moving
        where.setdefault(meaning, []).append(active.binding.key)
        if where is foremost:
            places[meaning] = first.index(str(active.binding.id))
    foremost = dict(sorted(foremost.items(), key=lambda one: places[one[0]]))
    return [
        (title, [(keys, meaning) for meaning, keys in found.items()])
        for title, found in (
            ("Start with these", foremost),
            ("On this screen", here),
            ("Moving about", moving),
            ("Everywhere", everywhere),
        )
    ]
