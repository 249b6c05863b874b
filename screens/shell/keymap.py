"""The keys: the table of all places with their actions, and keymap.toml, in which a person gives actions other keys.

A place is a class with bindings: the app, a screen, a dialog, a pane. An action is called by its id, `place.action`, as
`screens.widgets.keyed` gives it. Keys are named as Textual names them (`slash`, `ctrl+d`) unless they are shown.
"""

from __future__ import annotations

import pkgutil
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from textual.binding import Binding
from textual.keys import Keys, format_key

import screens
from screens.shell.title_line import MODES
from screens.widgets.keyed import Keyed, place_of, shown_key

_FIRST_PLACES = ("app", *(mode.name for mode in MODES), "reader")
"""Places that come first in the table, in this order."""
_MODIFIERS = {"ctrl", "shift", "alt", "super", "hyper", "meta"}
"""What may stand before a key, as in `ctrl+d`."""
_NAMED_KEYS = {key.value for key in Keys}
"""Keys that Textual knows by a name."""
_OTHER_NAMES = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "low_line": "underscore",
    "hyphen_minus": "minus",
    "commercial_at": "at",
    "plus_sign": "plus",
}
"""Names that Textual uses instead of the Unicode name of a character."""
_PAGE_HEAD = """\
# Keys

Written by `workbench keys --markdown`: the program's own table. The last column is the name by which `keymap.toml` in
the config folder (`workbench keys` says where) gives an action other keys:

```toml
[keys]
"app.help" = "question_mark,f1"
```
"""
"""The beginning of the page with the table."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action in one place of the program.

    Attributes:
        id: Its name in `keymap.toml`.
        keys: Its keys, as Textual names them.
        meaning: One line; a word or two where there is no more to say.
        action: The action of Textual that runs, with its arguments.
    """

    id: str
    keys: tuple[str, ...]
    meaning: str
    action: str


@dataclass(frozen=True, slots=True)
class Place:
    """A screen, dialog or pane with the actions that it adds.

    Attributes:
        name: Its name in ids.
        title: Its name in plain words.
        description: What it is, one sentence.
        actions: The actions that it adds.
    """

    name: str
    title: str
    description: str
    actions: tuple[Action, ...]


def key_table(app: type[Keyed], keymap: Mapping[str, str] | None = None) -> list[Place]:
    """Returns all places of the program: the app, the modes, then the others by name.

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
            _FIRST_PLACES.index(place.name) if place.name in _FIRST_PLACES else len(_FIRST_PLACES),
            place.name,
        ),
    )


def _subclasses(cls: type[Keyed]) -> Iterator[type[Keyed]]:
    """Yields the classes below a class, at every level."""
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _place(cls: type, keymap: Mapping[str, str]) -> Place:
    """Returns the place of a class, with the actions that the class itself adds; `keymap` is as in `key_table`."""
    name = place_of(cls)
    bindings: Iterable[Binding] = Binding.make_bindings(cls.__dict__.get("BINDINGS", ()))
    actions: dict[str, Action] = {}
    for binding in bindings:
        action_id = binding.id or binding.action
        # A binding of several keys comes as several bindings with one id.
        keys_before = actions[action_id].keys if action_id in actions else ()
        actions[action_id] = Action(
            id=action_id,
            keys=(*keys_before, binding.key),
            meaning=binding.tooltip or binding.description,
            action=binding.action,
        )
    in_force = tuple(
        replace(action, keys=normal_keys(keymap[action.id])) if action.id in keymap else action
        for action in actions.values()
    )
    first_line = (cls.__doc__ or "").strip().split("\n")[0]
    first_sentence = first_line.split(". ")[0].rstrip(".") + "."
    return Place(name, name.replace("-", " ").capitalize(), first_sentence, in_force)


def normal_keys(keys: str) -> tuple[str, ...]:
    """Returns keys as Textual names them: `slash` and `ctrl+d` for `/,ctrl+d`."""
    return tuple(_normal_key(key.strip()) for key in keys.split(",") if key.strip())


def _normal_key(key: str) -> str:
    """Returns one key as Textual names it."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    if len(last) == 1 and not last.isalnum():
        last = unicodedata.name(last, last).lower().replace("-", "_").replace(" ", "_")
        last = _OTHER_NAMES.get(last, last)
    return "+".join([*modifiers, last])


def is_key(key: str) -> bool:
    """Returns whether this is the name of a key, as `normal_keys` gives it."""
    *modifiers, last = key.split("+")
    if not set(modifiers) <= _MODIFIERS:
        return False
    if len(last) == 1 or last in _NAMED_KEYS:
        return bool(last)
    # The Unicode name of a character: Textual writes it as that character.
    return format_key(last) != last


def markdown(places: Iterable[Place]) -> str:
    """Returns the table as a page of the documentation."""
    parts = [_PAGE_HEAD]
    for place in places:
        parts.append(
            f"\n## {place.title}\n\n{place.description}\n\n| keys | what | name |\n|---|---|---|\n"
        )
        for action in place.actions:
            keys = " ".join(f"`{shown_key(key)}`" for key in action.keys).replace("|", "\\|")
            parts.append(f"| {keys} | {action.meaning} | `{action.id}` |\n")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Keymap:
    """The keys that a file sets, by the ids of actions, and what was wrong with the file, a line for each problem."""

    keys: Mapping[str, str]
    problems: Sequence[str]


def read_keymap(text: str, name: str, places: Sequence[Place]) -> Keymap:
    """Reads the keys that a file sets.

    Args:
        name: What to call the file in problems.
        places: The table with the default keys, all places.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Keymap(
            {}, [f"{name} is not TOML: {error}. Correct that line; the default keys are in force."]
        )
    reader = _Reader(text, name, places)
    reader.read(content)
    return Keymap(reader.keys, reader.problems)


class _Reader:
    """Reads a keymap file entry by entry.

    Attributes:
        keys: The keys that can be used, by the ids of actions.
        problems: What was wrong, a line for each problem.
    """

    def __init__(self, text: str, name: str, places: Sequence[Place]) -> None:
        self._lines = text.splitlines()
        self._name = name
        self._places = places
        self._defaults = {action.id: action.keys for place in places for action in place.actions}
        self.keys: dict[str, str] = {}
        self.problems: list[str] = []

    def read(self, content: dict[str, object]) -> None:
        """Reads the content of the file."""
        for section in content:
            if section != "keys":
                self._complain(section, f"there is no section [{section}]", "[keys] is")
        keys = content.get("keys", {})
        if not isinstance(keys, dict):
            self._complain("keys", "[keys] is no table", 'write lines like "app.help" = "f1"')
            return
        for action, value in _flat(keys):
            self._read_entry(action, value)

    def _read_entry(self, action: str, value: object) -> None:
        """Reads the keys of one action, or notes what is wrong with them."""
        if action not in self._defaults:
            self._complain(
                action, f"there is no action {action!r}", "`workbench keys` lists the names"
            )
            return
        keys = normal_keys(value) if isinstance(value, str) else ()
        wrong = next((key for key in keys if not is_key(key)), None)
        if not keys or wrong is not None:
            problem = repr(value) if wrong is None else repr(wrong)
            self._complain(
                action, f"{problem} is no key", 'write keys like "f1", "ctrl+d" or "a,/"'
            )
            return
        conflict = self._action_with_key(action, keys)
        if conflict is not None:
            other_action, key = conflict
            problem = f"{shown_key(key)!r} is the key of {other_action} already"
            self._complain(action, problem, "give one of the two another key")
            return
        self.keys[action] = ",".join(keys)

    def _action_with_key(self, action: str, keys: tuple[str, ...]) -> tuple[str, str] | None:
        """Returns another action that has one of the keys already, and that key; None where none has.

        It looks at the actions of the same place and of the app; for an action of the app, at those of every place. A
        default key of the action itself may be shared: the program shares it too.
        """
        here = action.partition(".")[0]
        for place in self._places:
            if place.name not in (here, "app") and here != "app":
                continue
            for other in place.actions:
                in_force = normal_keys(self.keys[other.id]) if other.id in self.keys else other.keys
                for key in keys:
                    if other.id != action and key in in_force and key not in self._defaults[action]:
                        return other.id, key
        return None

    def _complain(self, entry: str, problem: str, hint: str) -> None:
        """Notes a problem, with the number of the line that has the entry, where one has."""
        last_word = re.escape(entry.rpartition(".")[2])
        # `[last_word]`, `last_word =`, `"place.last_word" =` or `place.last_word =`.
        pattern = re.compile(rf"^\s*\[?\s*(.*\.)?\"?(.*\.)?{last_word}\"?\s*[\]=]")
        line = next(
            (number for number, text in enumerate(self._lines, 1) if pattern.match(text)), None
        )
        where = f"{self._name}, line {line}" if line is not None else self._name
        self.problems.append(f"{where}: {problem}; {hint}. The default key stays.")


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Yields the entries of a table, those of inner tables too: `a.b = 1` has the same name as `"a.b" = 1`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value
