"""Names for bindings, so that a person can give them other keys: `conversations.sort`, `table.row-up`.

A class that lists `Keyed` among its bases need not name its bindings: each gets an id of its place and its action.
The ids are what `keymap.toml` uses, so they change only with an action's name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from textual.binding import Binding, BindingType
from textual.keys import format_key

_KEBAB = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORDS = re.compile("[a-z][a-z0-9]*")
_SUFFIXES = ("-screen", "-dialog", "-app")


class Keyed:
    """Gives an id to every binding of a class that has none. `PLACE` names the class in ids and in the help."""

    PLACE: str

    def __init_subclass__(cls, **arguments: Any) -> None:
        own = cls.__dict__.get("BINDINGS")
        if own:
            cls.BINDINGS = named(place_of(cls), own)  # type: ignore[attr-defined]
        super().__init_subclass__(**arguments)


def place_of(cls: type) -> str:
    """The name of a class in binding ids: its own `PLACE`, else its name in lower case with hyphens."""
    given = cls.__dict__.get("PLACE")
    if given is not None:
        return str(given)
    name = _KEBAB.sub("-", cls.__name__).lower()
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def named(place: str, bindings: Iterable[BindingType]) -> list[BindingType]:
    """The bindings, each with an id. One without an id gets place and action, e.g. `triage.verdict-complete`.

    An action whose arguments are no words is named after its description: `table.row-up`.
    """
    return [
        dataclasses.replace(binding, id=f"{place}.{_action_name(binding)}")
        if isinstance(binding, Binding) and binding.id is None
        else binding
        for binding in bindings
    ]


def _action_name(binding: Binding) -> str:
    action, _, arguments = binding.action.removeprefix("app.").partition("(")
    name = action.replace("_", "-")
    if not arguments or arguments in (")", "None)"):
        return name
    words = _WORDS.findall(arguments)
    if words and not any(char.isdigit() for char in arguments):
        return "-".join([name, *words])
    return "-".join(_WORDS.findall(binding.description.lower()))


def shown_key(key: str) -> str:
    """A key as a person reads it: `/`, `ctrl+p`, `↑`."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, _ARROWS.get(last, format_key(last))])


_ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn"}
