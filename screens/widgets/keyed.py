"""Ids of bindings, by which a person gives actions other keys; how keys are written; the footer with the keys.

A place is a class with bindings; it has a name. The id of a binding is the name of its place and that of its action.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.keys import format_key
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_KEBAB = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Finds the places between the words of a class name, where hyphens go: `Row|Table`, `HTML|Page`."""
_WORDS = re.compile("(?<![A-Za-z])[a-z][a-z0-9]*")
"""Finds a word of an action's arguments or of a description; `True` and `None` are no words."""
_SUFFIXES = ("-screen", "-dialog", "-app")
"""Endings of class names that are left out of ids."""
_ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn"}
"""Textual's names of keys -> how they are shown, where Textual would write words."""
ShownKey = tuple[Binding, bool, str]
"""What the footer shows of a key: its binding, whether it works now, its tooltip."""


# Ids of bindings, and keys


class Keyed:
    """Gives every `Binding` of a class that has no id one of place and action: `conversations.sort`, `table.row-up`.

    `PLACE` names the class in ids and in the help. `keymap.toml` uses the ids: they change with `PLACE` or the name of
    the class, with the name of the action, with the words of its arguments, and with the description of an action whose
    arguments are no words.
    """

    PLACE: str

    def __init_subclass__(cls, **arguments: Any) -> None:
        bindings = cls.__dict__.get("BINDINGS")
        if bindings:
            cls.BINDINGS = named(place_of(cls), bindings)  # type: ignore[attr-defined]
        super().__init_subclass__(**arguments)


def place_of(cls: type) -> str:
    """Returns the name of a class in binding ids: its own `PLACE`, else its name in lower case with hyphens, without
    `-screen`, `-dialog` or `-app`."""
    given = cls.__dict__.get("PLACE")
    if given is not None:
        return str(given)
    name = _KEBAB.sub("-", cls.__name__).lower()
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def named(place: str, bindings: Iterable[BindingType]) -> list[BindingType]:
    """Returns the bindings. A `Binding` without an id gets place and action, e.g. `triage.answer-yes`.

    Only such a binding can get another key in a keymap; one that is declared as a tuple has no id.

    An action whose arguments are no words is named after its description: `table.row-up`.
    """
    return [
        dataclasses.replace(binding, id=f"{place}.{_action_name(binding)}")
        if isinstance(binding, Binding) and binding.id is None
        else binding
        for binding in bindings
    ]


def _action_name(binding: Binding) -> str:
    """Returns the part of an id that names the action: `answer-yes`, `row-up`."""
    action, _, arguments = binding.action.removeprefix("app.").partition("(")
    name = action.replace("_", "-")
    if not arguments or arguments in (")", "None)"):
        return name
    words = _WORDS.findall(arguments)
    # `move(1)` has no word, `tab('a', 1)` has only half of its meaning in one
    if words and not any(char.isdigit() for char in arguments):
        return "-".join([name, *words])
    return "-".join(_WORDS.findall(binding.description.lower()))


def shown_key(key: str) -> str:
    """Returns a key as a person reads it: `/`, `ctrl+p`, `↑`."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, _ARROWS.get(last, format_key(last))])


def movement(line: str) -> list[BindingType]:
    """Returns bindings for `action_move(delta)`, `action_page(direction)` and `action_move_to(index)`; -1 is the last.

    Args:
        line: What a line is called, as in `Row up`.
    """
    return [
        Binding("up,k", "move(-1)", f"{line} up", show=False),
        Binding("down,j", "move(1)", f"{line} down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move_to(0)", f"First {line.lower()}", show=False),
        Binding("end", "move_to(-1)", f"Last {line.lower()}", show=False),
    ]


# The footer


class KeyFooter(Footer):
    """Textual's footer in its compact form. It cuts no key in two; help lists those that do not fit.

    It is composed again only when other keys are to be shown or one is disabled, while Textual does so at every change
    of the focus.
    """

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._shown: list[ShownKey] | None = None
        self._width = 0

    def compose(self) -> ComposeResult:
        """Yields each key that fits. It gets its class before it is mounted: afterwards, as Textual does it, its styles
        would be computed twice."""
        keys = [widget for widget in super().compose() if isinstance(widget, FooterKey)]
        # A space follows the key, one the description; that of the last key may be cut off.
        widths = [cell_len(key.key_display) + cell_len(key.description) + 2 for key in keys]
        for index in fitting_indices(widths, self.screen.size.width + 1):
            keys[index].add_class("-compact", update=False)
            yield keys[index]

    def on_resize(self, event: events.Resize) -> None:
        """Composes the keys again, since another width has room for more or fewer."""
        if self._width not in (0, event.size.width):
            self.call_after_refresh(self.recompose)
        self._width = event.size.width

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Composes the keys again if they changed; without the focus of the app, or for another screen, Textual
        decides."""
        if not screen.app.app_focus or not self.is_attached or screen is not self.screen:
            super().bindings_changed(screen)
            return
        shown = [
            (active.binding, active.enabled, active.tooltip)
            for active in screen.active_bindings.values()
            if active.binding.show
        ]
        if shown != self._shown:
            self._shown = shown
            super().bindings_changed(screen)


def fitting_indices(widths: Sequence[int], room: int) -> list[int]:
    """Returns the indices of the first items that fit into `room` together with the last one, and that of the last."""
    if not widths:
        return []
    indices: list[int] = []
    cells_left = room - widths[-1]
    for index, width in enumerate(widths[:-1]):
        if width > cells_left:
            break
        cells_left -= width
        indices.append(index)
    return [*indices, len(widths) - 1]
