"""A mapping that a person makes: guessed from some records, changed line by line, tried out, saved."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.conversation import Conversation
from engine.errors import FormatError
from engine.formats import open_inputs
from engine.formats.inputs import sample_records
from engine.formats.mappings.arranging import arranged
from engine.formats.mappings.guessing import Field, Guess, fields_of, guesses, roles_of
from engine.formats.mappings.mapping import DESTINATIONS, BadMapping, Mapping, read_mapping
from engine.formats.mappings.reading import reader_of
from engine.formats.opening.framing import Frame
from engine.formats.paths import BadPath, as_word, read_path
from engine.formats.readers import mapping_folder
from engine.formats.single import parse
from engine.number_format import counted
from engine.records.imports import Account, Parsed, Rejected

_CHOICES = 8
_EXAMPLE = 60
_SHOWN = 2
NONE = ""
"""Value of a line that is left open."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a draft: its key, its question in words, its value, and what the value finds."""

    key: str
    title: str
    value: str
    finds: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a line may have, with an example of what it finds."""

    value: str
    example: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What a draft reads from the records: where their text went, two conversations, and why a record was rejected."""

    conversations: int
    messages: int
    rejected: int
    reason: str
    account: Account
    shown: tuple[Conversation, ...]


def refusal_of(path: str) -> str | None:
    """Why a file cannot be imported as it is; None if it can be."""
    try:
        open_inputs([path])
    except FormatError as error:
        return error.message
    return None


class MappingDraft:
    """A draft of a mapping for some records of a file.

    Raises:
        FormatError: Nothing in the records looks like messages.
    """

    def __init__(self, frames: Sequence[Frame], label: str) -> None:
        self._frames = [frame for frame in frames if frame.reason is None]
        self._guesses = guesses([frame.value for frame in self._frames])
        if not self._guesses:
            raise FormatError(
                f"Nothing in {label} looks like messages.",
                "A list of messages, or rows with a text each, is needed.",
            )
        self._label = label
        self._table: dict[str, str] = {}
        self._roles: dict[str, str] = {}
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
        """A name for the format, made of the file's."""
        return format_name(self._label.split(".")[0])

    def lines(self) -> list[Line]:
        """The lines of the draft, in the order in which they are asked."""
        lines = [
            Line(key, title, self._table[key], self._finds(key))
            for key, title in _TITLES.items()
            if key in self._table
        ]
        counts = self._role_counts()
        for word, role in self._roles.items():
            lines.append(
                Line(f"role {word}", f"{word!r} speaks as", role, f"{counts[word]:,} messages")
            )
        return lines

    def choices(self, key: str) -> list[Choice]:
        """What a line may be changed to: fields that are there, with an example of each."""
        if key.startswith("role "):
            return [Choice(name, "") for name in DESTINATIONS]
        if key == "messages":
            return [
                Choice(one.where, f"{one.text.path}: {one.text.example[:_EXAMPLE]}")
                for one in self._guesses[:_CHOICES]
            ]
        found = fields_of(self._holders(key))
        open_line = [] if key in ("role", "text") else [Choice(NONE, "nothing")]
        return open_line + [
            Choice(field.path, field.example[:_EXAMPLE])
            for field in _fitting(key, found)[:_CHOICES]
        ]

    def change(self, key: str, value: str) -> None:
        """Changes a line.

        Raises:
            FormatError: The value is no path.
        """
        if key.startswith("role "):
            self._roles[key.removeprefix("role ")] = value
            return
        guessed = next((one for one in self._guesses if one.where == value), None)
        if key == "messages" and guessed is not None:
            self._take(guessed)
            return
        try:
            if value and not value.startswith("="):
                read_path(value)
        except BadPath as error:
            raise FormatError(
                f"That is no path: {error}.", "docs/mapping-files.md has examples."
            ) from None
        self._table[key] = value
        if key in ("messages", "role"):
            self._roles = self._guessed_roles()

    def mapping(self, name: str = "draft") -> Mapping:
        """The mapping as it stands.

        Raises:
            BadMapping, BadPath: It cannot be used.
        """
        return read_mapping(self._content(name))

    def try_out(self) -> Trial:
        """Reads the records with the draft."""
        account = Account()
        shown: list[Conversation] = []
        conversations = messages = rejected = 0
        reason = ""
        try:
            mapping = self.mapping()
        except (BadMapping, BadPath) as error:
            return Trial(0, 0, len(self._frames), str(error), account, ())
        reader = reader_of(mapping)
        for number, frame in enumerate(arranged(mapping, self._frames), 1):
            found = (
                Rejected(frame.line, frame.raw, frame.reason)
                if frame.reason
                else parse(reader, frame, str(number))
            )
            if isinstance(found, Parsed):
                conversations += 1
                messages += len(found.conversation.messages)
                account.include(found.account)
                if len(shown) < _SHOWN:
                    shown.append(found.conversation)
            else:
                rejected += 1
                reason = reason or found.reason
        return Trial(conversations, messages, rejected, reason, account, tuple(shown))

    def toml(self, name: str) -> str:
        """The mapping as a file."""
        return as_toml(self._content(name))

    def save(self, name: str) -> Path:
        """Writes the mapping file into the person's folder and returns its path.

        Raises:
            FormatError: There is a file of that name already, or it cannot be written.
        """
        folder = mapping_folder()
        file = folder / f"{name}.toml"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with open(file, "x", encoding="utf-8") as written:
                written.write(self.toml(name))
        except FileExistsError:
            raise FormatError(f"There is a mapping file {file}.", "Choose another name.") from None
        except OSError as error:
            raise FormatError(
                f"{file} cannot be written: {error.strerror}.", "Check the folder."
            ) from None
        return file

    def _content(self, name: str) -> dict[str, Any]:
        """The draft as the content of a mapping file."""
        lines = self._table
        content: dict[str, Any] = {
            "name": name,
            "title": f"records like those of {self._label}",
            "when": self._conditions(),
        }
        split, each = _divided(lines["messages"]) if "messages" in lines else ("", ".")
        if split:
            content["split"] = split
        if lines.get("id"):
            content["id"] = lines["id"]
        if lines.get("group"):
            content["group"] = {"by": lines["group"]}
            if lines.get("time"):
                content["group"]["order"] = lines["time"]
        if self._roles:
            content["roles"] = self._roles
        if "asked" in lines:
            content["messages"] = [
                {"role": "=user", "text": lines["asked"]},
                {"role": "=assistant", "text": lines["answered"]},
            ]
        else:
            keys = ("role", "text", "time")
            message = {key: lines[key] for key in keys if lines.get(key)}
            content["messages"] = [{"each": "records[]" if lines.get("group") else each, **message}]
        return content

    def _conditions(self) -> list[str]:
        lines = self._table
        if "asked" in lines:
            return [lines["asked"], lines["answered"]]
        role = [] if lines["role"].startswith("=") else [lines["role"]]
        wanted = [*role, lines["text"]]
        if lines.get("group"):
            by = [] if lines["group"] == "file" else [lines["group"]]
            return by + wanted
        where = lines["messages"]
        return [where if path == "." else f"{where}.{path}" for path in wanted]

    def _take(self, guessed: Guess) -> None:
        self._table = _flat(guessed)
        self._roles = dict(guessed.table.get("roles", {}))

    def _items(self) -> list[Any]:
        """The items that hold the messages, in the records as they are."""
        if self._table.get("group") or "asked" in self._table:
            return [frame.value for frame in self._frames]
        path = read_path(self._table["messages"])
        return [one.value for frame in self._frames for one in path.find(frame.value)]

    def _holders(self, key: str) -> list[Any]:
        """What a line's path is looked up in: conversations for an id, messages for what they have."""
        if key != "id":
            return self._items()
        split = _divided(self._table["messages"])[0] if "messages" in self._table else ""
        path = read_path(split or ".")
        return [one.value for frame in self._frames for one in path.find(frame.value)]

    def _role_counts(self) -> Counter[str]:
        role = self._table.get("role", "=")
        if role.startswith("="):
            return Counter()
        path = read_path(role)
        return Counter(as_word(path.first(item)) for item in self._items())

    def _guessed_roles(self) -> dict[str, str]:
        role = self._table.get("role", "=")
        if role.startswith("="):
            return {}
        field = next((one for one in fields_of(self._items()) if one.path == role), None)
        return roles_of(field) if field is not None else {}

    def _finds(self, key: str) -> str:
        value = self._table[key]
        if not value:
            return "nothing"
        if key == "messages":
            return counted(len(self._items()), "item")
        if value.startswith("=") or value == "file":
            return ""
        path = read_path(value)
        found = [as_word(one.value) for item in self._holders(key) for one in path.find(item)]
        return max(found[:20], key=len)[:_EXAMPLE] if found else "nothing"


_TITLES = {
    "group": "a conversation is told by",
    "messages": "the messages are at",
    "role": "who speaks is at",
    "text": "what is said is at",
    "asked": "the user says",
    "answered": "the assistant says",
    "time": "when it is said is at",
    "id": "the conversation's id is at",
}


def _flat(guessed: Guess) -> dict[str, str]:
    """A guess as lines: each key of `_TITLES` that applies, with its value."""
    table = guessed.table
    first, *more = table["messages"]
    if more:
        lines = {"asked": first["text"], "answered": more[0]["text"]}
    else:
        lines = {"messages": guessed.where, "role": first["role"], "text": first["text"]}
        lines["time"] = first.get("time", NONE)
    if "group" in table:
        return {"group": table["group"]["by"], **lines}
    return {**lines, "id": table.get("id", NONE)}


def _divided(where: str) -> tuple[str, str]:
    """Divides the path of messages into that of the conversations, if there are several in a record, and the rest."""
    cut = max(where[:-2].rfind("[]"), where[:-2].rfind("{}")) + 2
    return (where[:cut], where[cut:].removeprefix(".") or ".") if cut > 1 else ("", where)


def _fitting(key: str, fields: Sequence[Field]) -> list[Field]:
    """The fields that a line may name, the likely ones first: few short values for a role, long texts for a text."""
    if key == "role":
        several = [field for field in fields if len(set(field.values)) > 1]
        return sorted(several, key=lambda field: (len(set(field.values)), len(field.path)))
    if key in ("id", "group", "time"):
        return sorted(fields, key=lambda field: (field.path.count("["), len(field.path)))
    return list(fields)


def format_name(text: str) -> str:
    """A text as the name of a format: small letters, digits and underscores."""
    return re.sub(r"\W+", "_", text).strip("_").lower() or "my_format"


def as_toml(table: Table[str, Any]) -> str:
    """A mapping file's content as TOML: plain keys first, then tables, then lists of tables."""
    plain: list[str] = []
    tables: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = [f"{_toml_key(name)} = {_toml(entry)}" for name, entry in value.items()]
            tables.append("\n".join(["", f"[{key}]", *rows]))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                rows = [f"{_toml_key(name)} = {_toml(inner)}" for name, inner in entry.items()]
                tables.append("\n".join(["", f"[[{key}]]", *rows]))
        else:
            plain.append(f"{key} = {_toml(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _toml(value: Any) -> str:
    """A text or a list of texts; JSON and TOML write them alike."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
