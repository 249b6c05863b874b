"""The table of all keys: every place of the program, its actions and their keys. Help, docs/keys.md and the checks of
a keymap are made from it.
"""

from __future__ import annotations

import pkgutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from textual.binding import Binding
from textual.keys import Keys, format_key

import screens
from screens.shell.workbench_screen import MODES
from screens.widgets.keyed import Keyed, place_of, shown_key

_FIRST = ("app", *(name for name, _, _ in MODES), "reader")
_MODIFIERS = {"ctrl", "shift", "alt", "super", "hyper", "meta"}
_NAMED = {key.value for key in Keys}
_OTHER_NAMES = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "low_line": "underscore",
    "hyphen_minus": "minus",
    "commercial_at": "at",
    "plus_sign": "plus",
}
"""Names that Textual uses instead of the Unicode name of a character."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action in one place of the program.

    Attributes:
        id: Name in `keymap.toml`.
        keys: As Textual names them.
        title: A word or two, as in the footer.
        meaning: One line; the title where there is no more to say.
        action: What runs, with its arguments.
    """

    id: str
    keys: tuple[str, ...]
    title: str
    meaning: str
    action: str


@dataclass(frozen=True, slots=True)
class Place:
    """A screen, dialog or pane with the actions it adds; `title` is its name in plain words, `what` its description."""

    name: str
    title: str
    what: str
    actions: tuple[Action, ...]


def key_table(app: type[Keyed], keymap: Mapping[str, str] | None = None) -> list[Place]:
    """All places of the program: the app, the modes, then the others by name.

    Args:
        app: The class of the app, which this floor does not import.
        keymap: Keys in force in place of those the classes name, by id.
    """
    for module in pkgutil.walk_packages(screens.__path__, "screens."):
        import_module(module.name)
    places = [
        _place(cls, keymap or {})
        for cls in {app, *_subclasses(Keyed)}
        if cls is app or cls.__module__.startswith("screens.")
    ]
    return sorted(
        (place for place in places if place.actions),
        key=lambda place: (
            _FIRST.index(place.name) if place.name in _FIRST else len(_FIRST),
            place.name,
        ),
    )


def _subclasses(cls: type[Keyed]) -> Iterator[type[Keyed]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _place(cls: type, keymap: Mapping[str, str]) -> Place:
    name = place_of(cls)
    own: Iterable[Binding] = Binding.make_bindings(cls.__dict__.get("BINDINGS", ()))
    found: dict[str, Action] = {}
    for binding in own:
        key = binding.id or binding.action
        keys = (*found[key].keys, binding.key) if key in found else (binding.key,)
        meaning = binding.tooltip or binding.description
        found[key] = Action(key, keys, binding.description, meaning, binding.action)
    actions = tuple(
        Action(a.id, normal_keys(keymap[a.id]), a.title, a.meaning, a.action)
        if a.id in keymap
        else a
        for a in found.values()
    )
    what = (cls.__doc__ or "").strip().split("\n")[0].split(". ")[0].rstrip(".") + "."
    return Place(name, name.replace("-", " ").capitalize(), what, actions)


# Keys


def normal_keys(keys: str) -> tuple[str, ...]:
    """`/,ctrl+d` as Textual names it: `slash`, `ctrl+d`."""
    return tuple(_normal_key(key.strip()) for key in keys.split(",") if key.strip())


def _normal_key(key: str) -> str:
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    if len(last) == 1 and not last.isalnum():
        last = unicodedata.name(last, last).lower().replace("-", "_").replace(" ", "_")
        last = _OTHER_NAMES.get(last, last)
    return "+".join([*modifiers, last])


def is_key(key: str) -> bool:
    """Whether this is the name of a key, as `normal_keys` gives it."""
    *modifiers, last = key.split("+")
    if not set(modifiers) <= _MODIFIERS:
        return False
    if len(last) == 1 or last in _NAMED:
        return bool(last)
    return format_key(last) != last


def markdown(places: Iterable[Place]) -> str:
    """The table as a page of the documentation."""
    parts = [_HEAD]
    for place in places:
        parts.append(
            f"\n## {place.title}\n\n{place.what}\n\n| keys | what | name |\n|---|---|---|\n"
        )
        for action in place.actions:
            keys = " ".join(f"`{shown_key(key)}`" for key in action.keys).replace("|", "\\|")
            parts.append(f"| {keys} | {action.meaning} | `{action.id}` |\n")
    return "".join(parts)


_HEAD = """\
# Keys

Written by `workbench keys --markdown`: the program's own table. The last column is the name by which `keymap.toml` in
the config folder (`workbench keys` says where) gives an action other keys:

```toml
[preset]
name = "vim"

[keys]
"app.help" = "question_mark,f1"
```
"""
