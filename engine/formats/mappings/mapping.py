"""Mapping files: a format as data, which says where a record has its conversation, messages, roles, truth and metadata.

`docs/mapping-files.md` describes the keys of such a file, `engine.formats.paths` the paths in it. The classes here have
the keys as fields, so msgspec checks a file and names the key that is wrong. A path is from the record, or from the
item of a list of messages where that is said.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping as Table
from pathlib import Path as File
from typing import Any, Literal, get_args

import msgspec

from engine.base.conversation import Role
from engine.base.errors import FormatError
from engine.formats.paths import Condition, Path, as_word, read_condition, read_path

# What a mapping file says

Destination = Role | Literal["metadata", "left out"]
"""What a role of a log stands for: a role, or what is no message."""

DESTINATIONS: tuple[Destination, ...] = (*get_args(Role), "metadata", "left out")
"""What a role of a log can stand for, in the order in which it is offered."""

OTHER_SPEAKERS = "*"
"""Word for all speakers whose role is not said."""

FIRST_SPEAKER = "first"
"""Word for the first speaker whose role is not said."""

ITSELF = read_path(".")
"""Path of the value itself."""


class Paths(tuple[Path, ...]):
    """Paths that a file gives as a text, or as a list of texts."""


class Conditions(tuple[Condition, ...]):
    """Conditions that a file gives as a text, or as a list of texts."""


class Roles(dict[str, Destination]):
    """What words of a log for a speaker stand for."""


class SpeakerRole:
    """Who speaks in an item.

    Attributes:
        path: Where the item has the word for its speaker; None where the items say nothing.
        in_turn: The roles that the items have one after the other then, from the first again after the last.
    """

    def __init__(self, path: Path | None, in_turn: tuple[Destination, ...]) -> None:
        self.path = path
        self.in_turn = in_turn


class CallMapping:
    """Where the tool calls of a message are.

    Attributes:
        each: Path of the calls in an item.
        name: Path of the name in a call; None: a call is read as those of any chat API.
        arguments: Path of the arguments in a call.
        id: Path of the id in a call.
    """

    def __init__(
        self,
        each: Path = ITSELF,
        name: Path | None = None,
        arguments: Path | None = None,
        id: Path | None = None,
    ) -> None:
        self.each = each
        self.name = name
        self.arguments = arguments
        self.id = id


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a mapping file."""


_MESSAGE_KEYS = ("role", "text", "name", "time", "reasoning", "calls", "answers", "join")
"""Keys that say what a message has."""


class MessageRule(_Section, frozen=True):
    """Where an item of a log has a message; without `text` the item is read as a message of any chat API.

    Attributes:
        each: Where the message, or each of several, is within the item.
        when: Conditions on the item.
        role: Who speaks; None: the item has `role` or `from`.
        text: Paths of the text; what they find is joined.
        name: Path of the name of the speaker or the tool.
        time: Path of the time of the message.
        reasoning: Path of what the model thought.
        calls: Where the tool calls are; None for no calls.
        answers: Path of the id of the call that a tool answers.
        join: What stands between several texts; None: they are parts of a message, a line each.
        turns: Rules for what is at `each`, in its order, in place of the other keys.
    """

    each: Path | None = None
    when: Conditions = Conditions()
    role: SpeakerRole | None = None
    text: Paths = Paths()
    name: Path | None = None
    time: Path | None = None
    reasoning: Path | None = None
    calls: CallMapping | None = None
    answers: Path | None = None
    join: str | None = None
    turns: tuple[MessageRule, ...] = ()

    def __post_init__(self) -> None:
        others = [key for key in _MESSAGE_KEYS if getattr(self, key)]
        if self.turns and others:
            raise ValueError(f"beside `turns` there is `{others[0]}`, which belongs into a turn")


class MessageList(MessageRule, frozen=True):
    """A list of items in a record, at `each`, and the messages in each of them: by several rules, or by this one.

    Attributes:
        merge: What stands between the texts of messages of a speaker that follow each other and are one; None: they are
            messages of their own.
    """

    merge: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turns and self.when:
            raise ValueError("beside `turns` there is `when`, which belongs into a turn")

    @property
    def rules(self) -> tuple[MessageRule, ...]:
        """The rules for each item; `each` of a rule is within the item."""
        return self.turns or (msgspec.structs.replace(self, each=None),)


class Group(_Section, frozen=True):
    """Records of which several are one conversation: those with the same id, all of a file without one.

    Attributes:
        by: Paths of the id, whose values are joined, or `file`.
        order: Path of the value by which the records of a group are sorted; None: as they are.
        others: What records without an id are: `file`, a conversation of the file; `shared`, known of all conversations
            of the file; broken if it is empty.
    """

    by: Paths = Paths()
    order: Path | None = None
    others: Literal["", "file", "shared"] = ""

    def __post_init__(self) -> None:
        if not self.by:
            raise ValueError('it needs `by`: a path, or "file" if a file is one conversation')

    @property
    def is_file(self) -> bool:
        """Whether all records of a file are one conversation."""
        return self.by[0].text == "file"

    def id_of(self, record: Any) -> str:
        """Returns the id of the conversation of a record; "" without one."""
        words = [as_word(path.first(record)) for path in self.by]
        return "/".join(words).rstrip("/")


class Tree(_Section, frozen=True):
    """Messages that answer each other in a tree; a conversation is one branch of it, put under `branch`.

    Attributes:
        nodes: All nodes that name their parent, or the roots of nodes that hold their children.
        id: Path of the id in a node.
        parent: Path of the id of the parent in a node.
        children: Where a node holds its children; None if nodes name their parents.
        leaf: Path of the id of the last node of the current branch; without one the last child is followed.
        rank: Path of a number in a node; the lowest child is followed.
    """

    nodes: Path = ITSELF
    id: Path | None = None
    parent: Path | None = None
    children: Path | None = None
    leaf: Path | None = None
    rank: Path | None = None

    def __post_init__(self) -> None:
        if self.children is None and (self.id is None or self.parent is None):
            raise ValueError("it needs `children`, or `id` and `parent`")


class Transcript(_Section, frozen=True):
    """Texts that hold turns; each becomes a list of messages with role and content.

    Attributes:
        at: Path of the texts.
        marks: What a turn begins with, such as a line break and `Human:`; without blanks and colon it is the role.
    """

    at: Path = ITSELF
    marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.marks or not all(mark.strip() for mark in self.marks):
            raise ValueError("it needs `marks`, the texts with which turns begin")


class Mapping(_Section, frozen=True):
    """One format. `when` holds for a record before it is split, and for the rows before they are grouped.

    Attributes:
        name: Name of the format, as `--format` takes it.
        title: What the records are, in words.
        seen: Version of the program, or the month, of which the records have been seen; may be empty.
        when: Conditions on a record; all must hold.
        items: The lists of messages in a record.
        sample: Name of a real file of the format, outside the project; may be empty.
        split: Paths of the records within an object; of several paths each is a side of the same conversation.
        attachments: Path of an object of texts, for which `attachment://` and their keys stand in the record.
        transcript: Texts that hold turns.
        group: Which records are one conversation; None: each is one.
        tree: Messages of which one branch is the conversation; None: they are no tree.
        id: Paths of the id of the conversation, whose values are joined.
        created_at: Path of the time at which the conversation began.
        user: Path of the name of the speaker who is the user; all others are the assistant.
        roles: What the words for speakers stand for.
        truth: Names of truth, and the paths of its values.
        metadata: Names of metadata, and the paths of its values.
        left_out: Paths of what stays in the original record only.
        by_name: Whether it is used only where the person names it, and recognizes no record.
        context_apart: Whether blocks that a program put into messages of the user become messages of the system.
        day_first: Whether the day comes before the month in `created_at`, as in 31/12/2026; None if it does not say.
    """

    name: str = ""
    title: str = ""
    seen: str = ""
    when: Conditions = Conditions()
    items: tuple[MessageList, ...] = msgspec.field(default=(), name="messages")
    sample: str = ""
    split: Paths = Paths()
    attachments: Path | None = None
    transcript: Transcript | None = None
    group: Group | None = None
    tree: Tree | None = None
    id: Paths = Paths()
    created_at: Path | None = None
    user: Path | None = None
    roles: Roles = msgspec.field(default_factory=Roles)
    truth: dict[str, Path] = msgspec.field(default_factory=dict)
    metadata: dict[str, Path] = msgspec.field(default_factory=dict)
    left_out: Paths = Paths()
    by_name: bool = False
    context_apart: bool = False
    day_first: bool | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("it has no `name`")
        if not self.items:
            raise ValueError("it has no [[messages]]")
        if not self.when:
            raise ValueError("it has no `when`, so that no record could be recognized")


# Reading


class BadMapping(Exception):
    """A mapping says something wrong; the text says what."""


def load_mapping(file: File) -> Mapping:
    """Reads a mapping file.

    Raises:
        FormatError: It cannot be read, or says something that no mapping file says.
    """
    try:
        return read_mapping(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror}.", "Check the path.") from None
    except UnicodeDecodeError:
        raise FormatError(f"{file} is not text in UTF-8.", "Save it as UTF-8.") from None
    except RecursionError:
        raise FormatError(f"The mapping file {file} is nested too deeply.", "Check it.") from None
    except (tomllib.TOMLDecodeError, BadMapping) as error:
        raise FormatError(
            f"The mapping file {file} cannot be used: {error}.",
            "docs/mapping-files.md describes its keys; `workbench import --map` writes such a file.",
        ) from None


def read_mapping(table: Table[str, Any]) -> Mapping:
    """Returns the mapping that a file with this content says.

    Raises:
        BadMapping: It says something that no mapping file says; the text names the key.
    """
    try:
        mapping = msgspec.convert(table, Mapping, dec_hook=_decode_value)
    except msgspec.ValidationError as error:
        raise BadMapping(_error_in_words(str(error))) from None
    return mapping if mapping.title else msgspec.structs.replace(mapping, title=mapping.name)


def _decode_value(kind: type, value: Any) -> Any:
    """Returns what the value of a key of a mapping file is in the types of this module, for msgspec.

    Args:
        kind: The type that the key takes.
        value: The value as TOML has it.

    Raises:
        ValueError: The value is not what the key takes.
    """
    if kind is Paths:
        return Paths(map(read_path, _texts(value)))
    if kind is Conditions:
        return Conditions(map(read_condition, _texts(value)))
    if kind is Roles and isinstance(value, dict):
        return Roles({word: _read_destination(name, f"`{word}`") for word, name in value.items()})
    if kind is CallMapping and isinstance(value, dict):
        return CallMapping(**{key: _call_path(key, entry) for key, entry in value.items()})
    if not isinstance(value, str):
        raise ValueError("it is not text" if kind is not Roles else "it is not a table")
    if kind is SpeakerRole and value.startswith("="):
        words = [word.strip() for word in value[1:].split(",")]
        return SpeakerRole(None, tuple(_read_destination(word, "it") for word in words))
    path = read_path(value)
    if kind is SpeakerRole:
        return SpeakerRole(path, ())
    return CallMapping(path) if kind is CallMapping else path


def _texts(value: Any) -> list[str]:
    """Returns the texts of a key that may have one or a list of them; raises ValueError for anything else."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("it is neither text nor a list of texts")
    return texts


def _read_destination(name: Any, key: str) -> Destination:
    """Returns a name as the destination that it is; raises ValueError, which names the key, for another."""
    for destination in DESTINATIONS:
        if destination == name:
            return destination
    raise ValueError(f"{key} is {name!r}, not one of {', '.join(DESTINATIONS)}")


def _call_path(key: str, text: Any) -> Path:
    """Returns the path under a key of `calls`; raises ValueError for another key or what is no path."""
    if key not in ("each", "name", "arguments", "id"):
        raise ValueError(f"no mapping file has the key `{key}`")
    if not isinstance(text, str):
        raise ValueError(f"`{key}` is not text")
    return read_path(text)


_WORDS_FOR_MSGSPEC = {
    "Object contains unknown field": "no mapping file has the key",
    "Expected `str`, got": "it is not text but",
    "Expected `bool`, got": "it is neither true nor false but",
    "Expected `bool | null`, got": "it is neither true nor false but",
    "Expected `array`, got": "it is not a list but",
    "Expected `object`, got": "it is not a table but",
    "Expected `object | null`, got": "it is not a table but",
    "`object`": "a table",
    "`array`": "a list",
    "`str`": "text",
    "`int`": "a number",
    "`float`": "a number",
    "`bool`": "true or false",
}
"""What msgspec says of an error in a mapping file -> how a person says it."""


def _error_in_words(error: str) -> str:
    """Returns an error of msgspec as a person reads it: the key, and what is wrong there."""
    what, _, place = error.partition(" - at `$")
    for msgspec_words, words in _WORDS_FOR_MSGSPEC.items():
        what = what.replace(msgspec_words, words)
    key = place.removesuffix("`").removeprefix(".")
    return f"`{key}`: {what}" if key else what


# Writing


def as_toml(table: dict[str, Any]) -> str:
    """Returns a mapping file's content as TOML: plain keys first, then tables, then lists of tables."""
    plain: list[str] = []
    tables: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = [f"{_toml_key(name)} = {_toml_value(entry)}" for name, entry in value.items()]
            tables.append("\n".join(["", f"[{key}]", *rows]))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                rows = [
                    f"{_toml_key(name)} = {_toml_value(inner)}" for name, inner in entry.items()
                ]
                tables.append("\n".join(["", f"[[{key}]]", *rows]))
        else:
            plain.append(f"{key} = {_toml_value(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _toml_value(value: Any) -> str:
    """Returns a value as TOML: a text, a truth value, a list, or a table within a line."""
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{_toml_key(key)} = {_toml_value(entry)}" for key, entry in value.items())
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    # JSON and TOML write texts and truth values alike
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    """Returns a key as TOML, in quotation marks where it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)
