"""Defines the path language of mapping files: where in a record something is.

    content                  the value under a key; "a key.with dots" in quotes
    author.role              a key within a key
    messages[]               each element of a list
    mapping{}                each value of an object
    parts[0]  parts[-1]      one element
    parts[type=text]         the elements whose `type` is `text`; `*` stands for any text, and `!=` for any other
    tasks[id=@task_id]       the elements whose `id` is that under `task_id` in the record itself
    .                        the value itself
    ^.info.model             from the object from which the record was split
    content | text           the first of several that is there

A text that holds a JSON list or object is looked into as if it were that value. null counts as absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from engine.formats.json_values import object_or_empty, storable

Trail = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_MAX_WRAPPINGS = 3
"""Number of times that a text may be JSON within JSON."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"[^"]*")
      | (?P<each>\[\]|\{\})
      | \[(?P<index>-?\d+)\]
      | \[(?P<key>[^\[\]=!|]+)(?P<sign>!?=)(?P<pattern>[^\]]*)\]
      | (?P<name>[^\s.|"\[\]{}=!]+(?:\s+[^\s.|"\[\]{}=!]+)*)
      | (?P<mark>[.|])
    )\s*""",
    re.VERBOSE,
)
"""Matches one piece of a path."""

_EMPTIED = object()
"""Stands for an entry of a list or an object of which nothing remains."""


class Target(NamedTuple):
    """A value to which a path leads, and the trail to it in the record; None if it lies outside the record."""

    value: Any
    trail: Trail | None


class BadPath(ValueError):
    """A path that cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class _Filter:
    """A step that keeps the elements whose text at `key` is like `pattern`, or unlike it."""

    key: Path
    pattern: str
    unlike: bool


_Step = str | int | _Filter
"""A step of a path other than a key: `_EACH_ELEMENT`, `_EACH_VALUE`, the index of one element, or a filter."""

_EACH_ELEMENT, _EACH_VALUE = "[]", "{}"


@dataclass(frozen=True, slots=True)
class _Key:
    """A step to the value under a key; a class of its own, since other steps are texts too."""

    name: str


class Path:
    """A path that was read from its text.

    Attributes:
        text: The path as it was written.
        choices: The steps of each alternative; the first one that leads to a value counts.
    """

    __slots__ = ("choices", "text")

    def __init__(self, text: str, choices: tuple[tuple[_Key | _Step, ...], ...]) -> None:
        self.text = text
        self.choices = choices

    @property
    def first_keys(self) -> frozenset[str]:
        """The keys of an object of which it has one wherever the path leads to a value; empty if that is not said."""
        keys = [steps[0].name for steps in self.choices if steps and isinstance(steps[0], _Key)]
        return frozenset(keys) if len(keys) == len(self.choices) else frozenset()

    def find(self, value: Any, record: Any = None, outer: Any = None) -> list[Target]:
        """Returns what the path leads to, without what is null; [] if nothing is there.

        Args:
            value: The value in which it looks.
            record: The record itself, for `@key`.
            outer: The object from which the record was split, for `^`.
        """
        for steps in self.choices:
            outside = steps[:1] == (_Key("^"),)
            start = Target(outer, None) if outside else Target(value, ())
            reached = list(_follow([start], steps[1:] if outside else steps, record))
            if reached:
                return reached
        return []

    def outside(self, outer: Any, record: Any = None) -> list[Trail]:
        """Returns where it leads in the object from which the record was split; [] if it leads elsewhere."""
        for steps in self.choices:
            if steps[:1] == (_Key("^"),):
                reached = list(_follow([Target(outer, ())], steps[1:], record))
                if reached:
                    return [target.trail for target in reached if target.trail]
        return []

    def first(self, value: Any, record: Any = None, outer: Any = None) -> Any:
        """Returns the first value that the path leads to; None if there is none."""
        targets = self.find(value, record, outer)
        return targets[0].value if targets else None


def _follow(
    starts: Iterable[Target], steps: tuple[_Key | _Step, ...], record: Any
) -> Iterator[Target]:
    """Yields the values, except null, to which some steps lead from values."""
    targets = starts
    for step in steps:
        targets = [after for before in targets for after in _take_step(before, step, record)]
    for target in targets:
        if target.value is not None:
            yield target


def _take_step(target: Target, step: _Key | _Step, record: Any) -> Iterator[Target]:
    """Yields the values to which one step leads from a value; none if the value has nothing there."""
    value = decoded(target.value)
    if isinstance(step, _Key):
        if isinstance(value, dict) and value.get(step.name) is not None:
            yield Target(value[step.name], _trail_to(target, step.name))
    elif step == _EACH_VALUE:
        if isinstance(value, dict):
            for key, entry in value.items():
                yield Target(entry, _trail_to(target, key))
    elif isinstance(value, list):
        if isinstance(step, int):
            if -len(value) <= step < len(value):
                yield Target(value[step], _trail_to(target, step % len(value)))
            return
        for position, entry in enumerate(value):
            if isinstance(step, str) or _passes(step, entry, record):
                yield Target(entry, _trail_to(target, position))


def _trail_to(target: Target, step: str | int) -> Trail | None:
    """Returns the trail to an entry of a value; it leads through JSON in a text as through the value itself."""
    return None if target.trail is None else (*target.trail, step)


def _passes(test: _Filter, entry: Any, record: Any) -> bool:
    """Returns whether a filter keeps an element; a pattern that begins with @ names a key of the record."""
    pattern = test.pattern
    if pattern.startswith("@"):
        pattern = as_word((record if isinstance(record, dict) else {}).get(pattern[1:]))
    return _is_any_like(test.key.find(entry), (pattern,)) != test.unlike


def _is_any_like(targets: Iterable[Target], patterns: Sequence[str]) -> bool:
    """Returns whether one of some values is like one of some patterns."""
    words = [as_word(target.value) for target in targets]
    return any(fnmatchcase(word, pattern) for word in words for pattern in patterns)


def as_word(value: Any) -> str:
    """Returns a value as the path language compares it: text as it is, anything else as JSON, and null as nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def decoded(value: Any) -> Any:
    """Returns the list or the object that a text of JSON holds; any other value as it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return storable(json.loads(value))
    except (ValueError, RecursionError):
        return value


def object_in(value: Any) -> dict[str, Any]:
    """Returns a value as an object, also if it is JSON in a text; an empty object if the value is none."""
    return object_or_empty(json_within(value))


def json_within(value: Any) -> Any:
    """Returns what a text of JSON holds, also if it was written as JSON more than once; else the value."""
    for _ in range(_MAX_WRAPPINGS):
        if not isinstance(value, str):
            return value
        inner = decoded(value)
        if inner is value and value[:1] == value[-1:] == '"' and len(value) > 1:
            try:
                inner = storable(json.loads(value))
            except (ValueError, RecursionError):
                return value
        if inner is value:
            return value
        value = inner
    return value


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a record.

    Attributes:
        path: Leads to the values that it is about.
        patterns: What one of them must be like, any of these; () where it is enough that the path leads to a value.
        absent: Whether the opposite must hold.
    """

    path: Path
    patterns: tuple[str, ...]
    absent: bool

    def holds(self, value: Any, record: Any = None, outer: Any = None) -> bool:
        """Returns whether it holds for a value; the arguments are those of `Path.find`."""
        targets = self.path.find(value, record, outer)
        if not self.patterns:
            return bool(targets) != self.absent
        return _is_any_like(targets, self.patterns) != self.absent


def read_path(text: str) -> Path:
    """Returns the path that a text stands for.

    Raises:
        BadPath: The text is no path.
    """
    choices: list[tuple[_Key | _Step, ...]] = []
    steps: list[_Key | _Step] = []
    position = 0
    is_after_name = False
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token.end() == position:
            raise BadPath(f"`{text}` cannot be read from {text[position:]!r} on")
        position = token.end()
        if token["mark"] == "|":
            if not steps:
                raise BadPath(f"`{text}` has nothing before a |")
            choices.append(tuple(steps))
            steps, is_after_name = [], False
            continue
        name = token["name"] or (token["quoted"] or "")[1:-1]
        if name:
            if is_after_name:
                raise BadPath(f"`{text}` needs a dot before {name!r}")
            steps.append(_Key(name))
        elif token["each"]:
            steps.append(token["each"])
        elif token["index"]:
            steps.append(int(token["index"]))
        elif token["key"]:
            key = read_path(token["key"])
            steps.append(_Filter(key, token["pattern"].strip(), token["sign"] == "!="))
        is_after_name = bool(name)
    if not text.strip():
        raise BadPath("a path is empty")
    if text.strip() != "." and text.rstrip().endswith("."):
        raise BadPath(f"`{text}` ends with a dot")
    return Path(text, (*choices, tuple(steps)))


def read_condition(text: str) -> Condition:
    """Returns the condition that a text stands for.

    It is `path`, `!path` (is absent), `path=pattern` or `path!=pattern`; `*` in a pattern is any text, and `|` stands
    between patterns of which one is enough.

    Raises:
        BadPath: The text is no condition.
    """
    absent = text.strip().startswith("!")
    bare = text.strip().removeprefix("!")
    cut = bare.find("=", bare.rfind("]") + 1)
    if cut < 0:
        return Condition(read_path(bare), (), absent)
    unlike = bare[cut - 1 : cut] == "!"
    patterns = tuple(pattern.strip() for pattern in bare[cut + 1 :].split("|"))
    return Condition(read_path(bare[: cut - unlike]), patterns, absent != bool(unlike))


def without(value: Any, trails: Iterable[Trail]) -> Any:
    """Returns a value without what trails lead to, and without the objects and lists that this empties.

    It is None if nothing remains. JSON in a text becomes a value if something was taken out of it.
    """
    tree: dict[str | int, Any] = {}
    for trail in trails:
        if not trail:
            return None
        branch = tree
        for step in trail[:-1]:
            inner = branch.setdefault(step, {})
            if inner is None:  # a shorter trail takes out all of it
                break
            branch = inner
        else:
            branch[trail[-1]] = None
    return _without(value, tree)


def _without(value: Any, tree: dict[str | int, Any]) -> Any:
    """Returns a value without what a tree of steps leads to; None in the tree stands for all below a step."""
    if not tree:
        return value
    value = decoded(value)
    if isinstance(value, dict):
        entries = {
            key: remaining
            for key, entry in value.items()
            if (remaining := _without_entry(entry, key, tree)) is not _EMPTIED
        }
        return entries or None
    if isinstance(value, list):
        elements = [
            remaining
            for position, entry in enumerate(value)
            if (remaining := _without_entry(entry, position, tree)) is not _EMPTIED
        ]
        return elements or None
    return value


def _without_entry(entry: Any, step: str | int, tree: dict[str | int, Any]) -> Any:
    """Returns an entry at a step without what the tree of trails leads to; `_EMPTIED` if nothing remains."""
    if step not in tree:
        return entry
    inner = tree[step]
    remaining = None if inner is None else _without(entry, inner)
    return _EMPTIED if remaining is None else remaining
