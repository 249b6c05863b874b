"""A mapping that a person makes: guessed from some records, changed line by line, tried out, saved."""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.atomic_files import make_folder
from engine.base.errors import FormatError
from engine.base.number_format import counted
from engine.conversations.service.mapping_trial import Trial, tried
from engine.formats.detect import choose_reader
from engine.formats.inputs import open_inputs, sample_records
from engine.formats.mappings import fields as of
from engine.formats.mappings.arranging import divided_texts
from engine.formats.mappings.guessing import IN_TURN, Guess, below, divided, guesses
from engine.formats.mappings.mapping import (
    DESTINATIONS,
    FIRST_SPEAKER,
    OTHER_SPEAKERS,
    BadMapping,
    Mapping,
    Transcript,
    as_toml,
    read_mapping,
)
from engine.formats.opening.framing import Frame
from engine.formats.paths import BadPath, as_word, read_path
from engine.formats.records import Account
from engine.formats.registry import built_in, mapping_folder

_CHOICES = 12
_EXAMPLE = 60
_LOOKED_AT = 200
"""Records in which text is looked for that is in no message."""

_MOST_UNSAID = 0.1
"""Of the text of messages, how much a field may have that is in none without being shown."""

_UNSAID_SHOWN = 3
NONE = ""
"""Value of a line that is left open."""

_FILE = "file"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a draft: its key, its question in words, its value, and what the value finds."""

    key: str
    title: str
    value: str
    finds: str

    @property
    def words(self) -> str:
        """The value as a person reads it."""
        return value_words(self.value)


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a line may have, with an example of what it finds."""

    value: str
    example: str

    @property
    def words(self) -> str:
        """The value as a person reads it."""
        return value_words(self.value)


def value_words(value: str) -> str:
    """A line's value as a person reads it: a path as it is, other values in words."""
    if value.startswith("="):
        return "by turns: " + value[1:] if "," in value else value[1:]
    words = {
        NONE: "nothing",
        _FILE: "the file",
        ".": "each record",
        ". alone": "each record by itself",
        ". with answers": "each record",
        ". and replies": "each record and replies",
    }
    return words.get(value, value)


def refusal_of(path: str) -> str | None:
    """Why a file cannot be imported as it is; None if it can be."""
    try:
        open_inputs([path])
    except FormatError as error:
        return error.message
    return None


class MappingDraft:
    """A draft of a mapping for some records of a file.

    Attributes:
        known_as: The format in which the records are read without the draft; None if they are refused.

    Raises:
        FormatError: Nothing in the records looks like messages.
    """

    def __init__(self, frames: Sequence[Frame], label: str) -> None:
        self._frames = [frame for frame in frames if frame.reason is None]
        values = [frame.value for frame in self._frames]
        self._guesses = guesses(values)
        if not self._guesses:
            raise FormatError(
                f"Nothing in {label} looks like messages.",
                "A list of messages, or rows with a text each, is needed.",
            )
        known = choose_reader(values, len(values))
        self.known_as = known[0].name if known is not None else None
        self._label = label
        self._where = ""
        self._table: dict[str, str] = {}
        self._roles: dict[str, str] = {}
        self._fixed: dict[str, Any] = {}
        self._before: list[tuple[str, dict[str, str], dict[str, str], dict[str, Any]]] = []
        self._take(self._guesses[0])

    @classmethod
    def of_file(cls, path: str) -> MappingDraft:
        """A draft for the first records of a file.

        Raises:
            FormatError: The file cannot be read, or nothing in it looks like messages.
        """
        return cls(sample_records(path), os.path.basename(path))

    @property
    def suggested_name(self) -> str:
        """A name for the format, made of the file's; none that is taken."""
        name = format_name(self._label.split(".")[0])
        taken = {file.stem for file in mapping_folder().glob("*.toml")}
        taken |= {reader.name for reader in built_in()}
        return next(
            one for one in (name, *(f"{name}_{n}" for n in range(2, 999))) if one not in taken
        )

    @property
    def changes(self) -> int:
        """How many lines were changed and not changed back."""
        return len(self._before)

    def lines(self) -> list[Line]:
        """The lines of the draft, in the order in which they are asked."""
        lines = [
            Line(key, title, self._table[key], self._finds(key))
            for key, title in _TITLES.items()
            if key in self._table
        ]
        counts, examples = self._role_counts()
        for word, role in self._roles.items():
            finds = counted(counts[word], "speaker" if word in _SPEAKERS else "message")
            if examples.get(word):
                finds += f", such as “{examples[word]}”"
            lines.append(
                Line(f"role {word}", _SPEAKERS.get(word, f"“{word}” speaks as"), role, finds)
            )
        return lines

    def choices(self, key: str) -> list[Choice]:
        """What a line may be changed to: fields that are there, with an example of each."""
        if key.startswith("role "):
            return [Choice(name, _DESTINATION_WORDS.get(name, "")) for name in DESTINATIONS]
        if key == "messages":
            return [
                Choice(one.name, f"{one.text.path}: {one.text.example[:_EXAMPLE]}")
                for one in self._guesses[:_CHOICES]
            ]
        items = self._holders(key)
        first = [] if key in ("role", "text", "asked", "answered") else [Choice(NONE, "")]
        if key == "group":
            first = [Choice(_FILE, "all records of a file are one conversation")]
        if key == "role":
            first = [Choice(IN_TURN, "nothing says who speaks; they take turns")]
        if key in ("calls", "children"):
            paths = of.call_paths(items, self._table["text"]) if key == "calls" else []
            paths = list(dict.fromkeys([*paths, *filter(None, [self._table[key]])]))
            return first + [Choice(path, self._found(path, items)) for path in paths[:_CHOICES]]
        found = of.fields_of(items)
        return first + [
            Choice(field.path, field.example[:_EXAMPLE])
            for field in _fitting(key, found)[: _CHOICES - len(first)]
        ]

    def change(self, key: str, value: str) -> None:
        """Changes a line.

        Raises:
            FormatError: The value is no path, or no role.
        """
        if key.startswith("role ") and value not in DESTINATIONS:
            raise FormatError(f"{value} is no role.", f"Roles: {', '.join(DESTINATIONS)}.")
        if not value and key in ("messages", "role", "text"):
            raise FormatError("This line cannot be empty.", "Choose one of the fields.")
        guessed = next((one for one in self._guesses if one.name == value), None)
        try:
            if not key.startswith("role ") and guessed is None and value and value[0] != "=":
                read_path(value)
        except BadPath as error:
            raise FormatError(
                f"That is no path: {error}.", "docs/mapping-files.md has examples."
            ) from None
        state = (self._where, self._table, self._roles, self._fixed)
        self._before.append(copy.deepcopy(state))
        if key.startswith("role "):
            self._roles[key.removeprefix("role ")] = value
            return
        if key == "messages" and guessed is not None:
            self._take(guessed)
            return
        self._table[key] = value
        if key == "messages":
            self._where = value
        if key in ("messages", "role"):
            self._roles = self._guessed_roles()

    def undo(self) -> bool:
        """Takes the last change back; returns whether there was one."""
        if not self._before:
            return False
        self._where, self._table, self._roles, self._fixed = self._before.pop()
        return True

    def mapping(self, name: str = "draft") -> Mapping:
        """The mapping as it stands.

        Raises:
            BadMapping, BadPath: It cannot be used.
        """
        return read_mapping(self._content(name))

    def try_out(self) -> Trial:
        """Reads the records with the draft, up to some thousand messages."""
        try:
            mapping = self.mapping()
        except (BadMapping, BadPath) as error:
            return Trial(0, 0, len(self._frames), str(error), Account(), ())
        return replace(tried(mapping, self._frames), unsaid=self._unsaid())

    def _unsaid(self) -> tuple[str, ...]:
        """Fields with written text that no line names."""
        lines = self._table
        used = [
            _joined(self._where, lines[key])
            for key in ("text", "asked", "answered", "reasoning", "calls", "role", "time", "order")
            if lines.get(key) and not lines[key].startswith("=")
        ]
        if "transcript" in self._fixed:
            used = [self._fixed["transcript"]["at"]]
        used = [re.sub(r"\[\d+\]", "[]", path) for path in used]
        said = self._found_characters()
        unsaid: list[str] = []
        for one in of.fields_of([frame.value for frame in self._frames[:_LOOKED_AT]]):
            path = one.path
            while (children := lines.get("children")) and f".{children}." in f".{path}.":
                path = path.replace(f"{children}.", "", 1)
            named = any(path == at or path.startswith((f"{at}.", f"{at}[")) for at in used)
            if not named and one.words > 0.3 and one.characters > _MOST_UNSAID * said:
                unsaid.append(one.path)
        return tuple(unsaid[:_UNSAID_SHOWN])

    def _found_characters(self) -> int:
        """Characters of what is said in the first records, as the lines have it."""
        if "transcript" in self._fixed:
            return 0
        paths = [
            read_path(self._table[key])
            for key in ("text", "asked", "answered")
            if self._table.get(key)
        ]
        return sum(
            len(_example(one.value))
            for item in self._items()[: of.MOST_VALUES]
            for path in paths
            for one in path.find(item)
        )

    def toml(self, name: str, by_name: bool = False) -> str:
        """The mapping as a file.

        Args:
            by_name: Whether it is used only where `--format` names it.
        """
        return as_toml(self._content(name, by_name))

    def save(self, name: str, by_name: bool = False) -> Path:
        """Writes the mapping file into the person's folder and returns its path.

        Args:
            by_name: Whether it is used only where `--format` names it.

        Raises:
            FormatError: There is a file of that name already, or it cannot be written.
        """
        folder = mapping_folder()
        file = folder / f"{name}.toml"
        try:
            make_folder(folder)
            with open(file, "x", encoding="utf-8") as written:
                written.write(self.toml(name, by_name))
        except FileExistsError:
            raise FormatError(f"There is a mapping file {file}.", "Choose another name.") from None
        except OSError as error:
            raise FormatError(
                f"{file} cannot be written: {error.strerror}.", "Check the folder."
            ) from None
        return file

    def _content(self, name: str, by_name: bool = False) -> dict[str, Any]:
        """The draft as the content of a mapping file."""
        lines = self._table
        content: dict[str, Any] = {
            "name": name,
            "title": f"records like those of {self._label}",
            "when": self._conditions(),
        }
        if by_name:
            content["by_name"] = True
        split, each = self._divided()
        if split:
            content["split"] = split
        tree = self._tree(each)
        if lines.get("id"):
            at_root = tree.get("nodes") == "."
            content["id"] = f"branch[0].{lines['id']}" if at_root else lines["id"]
        if lines.get("group"):
            content["group"] = {"by": lines["group"]}
            if lines.get("order"):
                content["group"]["order"] = lines["order"]
        if "transcript" in self._fixed:
            content["transcript"] = self._fixed["transcript"]
        if tree:
            content["tree"] = tree
            each = "branch[]"
        if self._roles:
            content["roles"] = self._roles
        content["messages"] = self._messages(each)
        return content

    def _divided(self) -> tuple[str, str]:
        """Paths of the conversations in a record, if there are several, and of the messages in a conversation."""
        if self._table.get("group"):
            return "", "records[]"
        return ("", ".") if self._where == "." else divided(self._where)

    def _tree(self, nodes: str) -> dict[str, str]:
        tree = {"nodes": nodes}
        if self._table.get("children"):
            tree["children"] = self._table["children"]
        elif self._table.get("parent"):
            tree |= {"id": self._fixed["id"], "parent": self._table["parent"]}
        else:
            return {}
        return tree | ({"rank": self._fixed["rank"]} if "rank" in self._fixed else {})

    def _messages(self, each: str) -> list[dict[str, Any]]:
        lines = self._table
        if "asked" in lines:
            turns = [
                {"role": "=user", "text": lines["asked"]},
                {"role": "=assistant", "text": lines["answered"]},
            ]
            return turns if each == "." else [{"each": each, "turns": turns}]
        keys = ("role", "text", "reasoning", "calls", "answers", "time")
        message: dict[str, Any] = {key: lines[key] for key in keys if lines.get(key)}
        if calls := message.get("calls"):
            path = read_path(calls)
            found = (path.first(item) for item in self._items())
            keys_of_calls = next((inner for one in found if (inner := of.call_keys(one))), {})
            if keys_of_calls:
                message["calls"] = {"each": calls, **keys_of_calls}
        return [{"each": each, **message}]

    def _conditions(self) -> list[str]:
        lines = self._table
        transcript = self._fixed.get("transcript")
        if transcript is not None:
            return [f"{transcript['at']}=*{mark.strip()}*" for mark in transcript["marks"][:2]]
        if "asked" in lines:
            wanted = [lines["asked"], lines["answered"]]
        else:
            wanted = [] if lines["role"].startswith("=") else [lines["role"]]
            wanted.append(lines["text"])
        if lines.get("group"):
            by = [] if lines["group"] == _FILE else [lines["group"]]
            return list(dict.fromkeys([*by, *wanted]))
        return list(dict.fromkeys(_joined(self._where, path) for path in wanted))

    def _take(self, guessed: Guess) -> None:
        table = guessed.table
        self._where = guessed.where
        self._table = _flat(guessed)
        self._roles = dict(table.get("roles", {}))
        self._fixed = {
            key: table["tree"][key] for key in ("id", "rank") if key in table.get("tree", ())
        }
        if "transcript" in table:
            self._where = table["messages"][0]["each"]
            self._fixed["transcript"] = table["transcript"]

    def _items(self) -> list[Any]:
        """The items that hold the messages, in the records as they are."""
        frames = self._frames
        if "transcript" in self._fixed:
            transcript = self._fixed["transcript"]
            at = Transcript(read_path(transcript["at"]), tuple(transcript["marks"]))
            frames = list(divided_texts(at, frames))
        values = [frame.value for frame in frames]
        if not self._table.get("group") and self._where != ".":
            path = read_path(self._where)
            values = [one.value for value in values for one in path.find(value)]
        children = self._table.get("children")
        return below(values, children) if children else values

    def _holders(self, key: str) -> list[Any]:
        """What a line's path is looked up in: conversations for an id, messages for what they have."""
        if key != "id":
            return self._items()
        path = read_path(self._divided()[0] or ".")
        return [one.value for frame in self._frames for one in path.find(frame.value)]

    def _role_counts(self) -> tuple[Counter[str], dict[str, str]]:
        """How often each role word stands in the items, and a text said with each."""
        role, text = self._table.get("role", "="), self._table.get("text")
        counts: Counter[str] = Counter()
        examples: dict[str, str] = {}
        if role.startswith("=") or text is None:
            return counts, examples
        role_path, text_path = read_path(role), read_path(text)
        for item in self._items():
            word = as_word(role_path.first(item))
            counts[word] += 1
            said = _example(text_path.first(item))
            if word not in examples and said:
                examples[word] = said[:_EXAMPLE]
        if OTHER_SPEAKERS in self._roles:
            counts[OTHER_SPEAKERS] = len(counts)
            counts[FIRST_SPEAKER] = 1
        return counts, examples

    def _guessed_roles(self) -> dict[str, str]:
        role = self._table.get("role", "=")
        if role.startswith("="):
            return {}
        field = next((one for one in of.fields_of(self._items()) if one.path == role), None)
        return of.roles_of(field) if field is not None else {}

    def _finds(self, key: str) -> str:
        value = self._table[key]
        if key in ("messages", "children"):
            return counted(len(self._items()), "item")
        if key == "calls" and value:
            path = read_path(value)
            names = [_call_name(one.value) for item in self._items() for one in path.find(item)]
            return (
                f"{counted(len(names), 'call')}, such as of {names[0]}"
                if names
                else "nothing is there"
            )
        if not value or value.startswith("=") or value == _FILE:
            return ""
        return self._found(value, self._holders(key)) or "nothing is there"

    def _found(self, path: str, items: Sequence[Any]) -> str:
        """An example of what a path finds."""
        at = read_path(path)
        found = [_example(one.value) for item in items for one in at.find(item)]
        return max(found[:20], key=len)[:_EXAMPLE] if found else ""


_TITLES = {
    "group": "a conversation is told by",
    "messages": "the messages are at",
    "children": "replies to them are at",
    "parent": "they reply to the one at",
    "role": "who speaks is at",
    "text": "what is said is at",
    "asked": "the user says",
    "answered": "the assistant says",
    "reasoning": "what it thinks is at",
    "calls": "tool calls are at",
    "answers": "the call answered is at",
    "order": "they are in the order of",
    "time": "when it is said is at",
    "id": "the conversation's id is at",
}

_SPEAKERS = {
    FIRST_SPEAKER: "the first to speak is",
    OTHER_SPEAKERS: "all others are",
}

_DESTINATION_WORDS = {
    "metadata": "no message, but kept with the conversation",
    "left out": "kept in the original record only",
}

_OPTIONAL = ("reasoning", "answers")
"""Lines that are shown only where something was found."""


def _example(value: Any) -> str:
    """What a path finds, as text; of a message in parts, the texts of these."""
    if of.are_parts(value):
        texts = [as_word(part["text"]) for part in value if "text" in part]
        return " ".join(texts) or as_word(value)
    return as_word(value)


def _call_name(call: Any) -> str:
    """The name of the tool that a call is of; what stands there if it is no call."""
    keys = of.call_keys(call)
    if keys is None:
        return as_word(call)[:_EXAMPLE]
    inner = call.get("function") if isinstance(call.get("function"), dict) else call
    path = keys.get("name") or next(
        (key for key in ("name", "tool_name", "toolName") if key in inner), "name"
    )
    return as_word(read_path(path).first(inner))


def _flat(guessed: Guess) -> dict[str, str]:
    """A guess as lines: each key of `_TITLES` that applies, with its value."""
    table = guessed.table
    first, *more = table["messages"]
    lines = {"messages": guessed.name}
    turns = [first, *more] if more else first.get("turns")
    if turns:
        lines |= {"asked": turns[0]["text"], "answered": turns[1]["text"]}
    else:
        lines |= {"role": first["role"], "text": first["text"], "calls": first.get("calls", NONE)}
        lines["time"] = first.get("time", NONE)
        lines |= {key: first[key] for key in _OPTIONAL if key in first}
    tree = table.get("tree", {})
    lines |= {key: tree[key] for key in ("children", "parent") if key in tree}
    if "group" in table:
        return {**lines, "group": table["group"]["by"], "order": table["group"].get("order", NONE)}
    return {**lines, "id": table.get("id", NONE)}


def _joined(where: str, path: str) -> str:
    """The path of what is at `path` in what is at `where`."""
    if path == "." or where == ".":
        return where if path == "." else path
    return f"{where}{path}" if path.startswith("[") else f"{where}.{path}"


def _fitting(key: str, fields: Sequence[of.Field]) -> list[of.Field]:
    """The fields that a line may name, the likely ones first: few short values for a role, long texts for a text."""
    if key == "role":
        several = [field for field in fields if len(set(field.values)) > 1]
        return sorted(several, key=lambda field: (-of.role_weight(field), len(set(field.values))))
    if key in ("text", "asked", "answered", "reasoning"):
        return sorted(fields, key=lambda field: -of.text_weight(field))
    near = sorted(fields, key=lambda field: (field.path.count("["), len(field.path)))
    return sorted(near, key=lambda field: not of.is_time(field)) if key == "time" else near


def format_name(text: str) -> str:
    """A text as the name of a format: small letters, digits and underscores."""
    return re.sub(r"\W+", "_", text).strip("_").lower() or "my_format"
