"""`keymap.toml`: the keys a person wants. Reads, checks and explains; what is wrong leaves the default keys in force.

[preset]
name = "vim"

[keys]
"conversations.sort" = "o"
"app.help" = "f1,question_mark"
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from screens.shell.key_table import Place, is_key, normal_keys
from screens.widgets.keyed import shown_key

PRESETS: dict[str, dict[str, str]] = {
    "vim": {
        "table.first-row": "g",
        "table.last-row": "G",
        "table.page-up": "ctrl+b,ctrl+u",
        "table.page-down": "ctrl+f,ctrl+d",
        "table.open": "l",
        "choices.first": "g",
        "choices.last": "G",
        "choices.page-up": "ctrl+b,ctrl+u",
        "choices.page-down": "ctrl+f,ctrl+d",
        "choices.select": "l",
        "transcript.page-up": "ctrl+b,ctrl+u",
        "transcript.page-down": "ctrl+f,ctrl+d",
        "transcript.end": "G",
        "reader.leave": "h",
    }
}
"""Keys that a named set adds to the default ones; `k` and `j` are among the defaults."""


@dataclass(frozen=True, slots=True)
class Keymap:
    """Keys by id, for `App.set_keymap`, and what was wrong in one sentence each."""

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
    def __init__(self, text: str, name: str, places: Sequence[Place]) -> None:
        self._lines = text.splitlines()
        self._name = name
        self._places = places
        self._defaults = {a.id: a.keys for place in places for a in place.actions}
        self.keys: dict[str, str] = {}
        self.problems: list[str] = []

    def read(self, content: dict[str, object]) -> None:
        for section in content:
            if section not in ("preset", "keys"):
                self._complain(
                    section, f"there is no section [{section}]", "[preset] and [keys] are"
                )
        preset = content.get("preset", {})
        chosen = preset.get("name") if isinstance(preset, dict) else preset
        if chosen is not None:
            if isinstance(chosen, str) and chosen in PRESETS:
                for action, more in PRESETS[chosen].items():
                    self.keys[action] = ",".join([*self._defaults[action], *normal_keys(more)])
            else:
                self._complain(
                    "name", f"there is no preset {chosen!r}", f"try {', '.join(PRESETS)}"
                )
        keys = content.get("keys", {})
        if not isinstance(keys, dict):
            self._complain("keys", "[keys] is no table", 'write lines like "app.help" = "f1"')
            return
        for action, value in _flat(keys):
            self._entry(action, value)

    def _entry(self, action: str, value: object) -> None:
        if action not in self._defaults:
            near = difflib.get_close_matches(action, self._defaults, 1)
            hint = f"did you mean {near[0]}?" if near else "`workbench keys` lists the names"
            self._complain(action, f"there is no action {action!r}", hint)
            return
        keys = normal_keys(value) if isinstance(value, str) else ()
        wrong = [key for key in keys if not is_key(key)]
        if not keys or wrong:
            problem = repr(wrong[0]) if wrong else repr(value)
            self._complain(
                action, f"{problem} is no key", 'write keys like "f1", "ctrl+d" or "a,/"'
            )
            return
        if (other := self._taken(action, keys)) is not None:
            other_action, key = other
            problem = f"{shown_key(key)!r} is the key of {other_action} already"
            self._complain(action, problem, "give one of the two another key")
            return
        self.keys[action] = ",".join(keys)

    def _taken(self, action: str, keys: tuple[str, ...]) -> tuple[str, str] | None:
        """Another action with one of the keys, in the same place or, for what works everywhere, in any."""
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

    def _complain(self, entry: str, what: str, hint: str) -> None:
        end = re.escape(entry.rpartition(".")[2])
        pattern = re.compile(rf"^\s*\[?\s*(.*\.)?\"?(.*\.)?{end}\"?\s*[\]=]")
        line = next((n for n, text in enumerate(self._lines, 1) if pattern.match(text)), None)
        where = f"{self._name}, line {line}" if line is not None else self._name
        self.problems.append(f"{where}: {what}; {hint}. The default key stays.")


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """`a.b = 1` and `"a.b" = 1` as the same name."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value
