"""Mapping files: a format as data, which says where a record has its conversation, messages, roles, truth and metadata.

`docs/formats.md` describes the keys of such a file, `engine.formats.paths` the paths in it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any, Literal, get_args

from engine.base.conversation import Role
from engine.base.errors import FormatError
from engine.formats.paths import BadPath, Condition, Path, read_condition, read_path

Destination = Role | Literal["metadata", "left out"]
"""What a role of a log stands for: a role, or what is no message."""

DESTINATIONS: tuple[Destination, ...] = (*get_args(Role), "metadata", "left out")

OTHER_SPEAKERS = "*"
FIRST_SPEAKER = "first"


@dataclass(frozen=True, slots=True)
class CallMapping:
    """Where the tool calls of a message are; without a name they are read as those of any chat API."""

    each: Path
    name: Path | None = None
    arguments: Path | None = None
    id: Path | None = None


@dataclass(frozen=True, slots=True)
class MessageRule:
    """Where an item of a log has a message; without `text` the item is read as a message of any chat API.

    Attributes:
        each: Where the message, or each of several, is within the item.
        when: Conditions on the item.
        role: Path of the role, or a role itself; of several, the items have one after the other in turn.
        text: Paths of the text; what they find is joined.
        answers: Path of the id of the call that a tool answers.
        join: What stands between several texts; None: they are parts of a message, a line each.
    """

    each: Path | None = None
    when: tuple[Condition, ...] = ()
    role: Path | tuple[Destination, ...] | None = None
    text: tuple[Path, ...] = ()
    name: Path | None = None
    time: Path | None = None
    reasoning: Path | None = None
    calls: CallMapping | None = None
    answers: Path | None = None
    join: str | None = None


@dataclass(frozen=True, slots=True)
class MessageList:
    """A list of items in a record, and the messages in each of them."""

    each: Path
    turns: tuple[MessageRule, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Records of which several are one conversation: those with the same id, all of a file without one.

    Attributes:
        others: Whether records without an id are one conversation, and not broken.
        across_files: Whether those with the same id may lie in several files of a folder.
    """

    by: Path | None
    order: Path | None
    others: bool = False
    across_files: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """Messages that answer each other in a tree; a conversation is one branch of it, put under `branch`.

    Attributes:
        nodes: All nodes that name their parent, or the roots of nodes that hold their children.
        children: Where a node holds its children; None if nodes name their parents.
        leaf: Path of the id of the last node of the current branch; without one the last child is followed.
        rank: Path of a number in a node; the lowest child is followed.
    """

    nodes: Path
    id: Path | None = None
    parent: Path | None = None
    children: Path | None = None
    leaf: Path | None = None
    rank: Path | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """Texts that hold turns; each becomes a list of messages with role and content.

    Attributes:
        marks: What a turn begins with, such as a line break and `Human:`; without blanks and colon it is the role.
    """

    at: Path
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """One format. `when` holds for a record before it is split, and for the rows before they are grouped.

    Attributes:
        split: Paths of the records within an object; of several paths each is a side of the same conversation.
        subrecords: Where records lie within a record that are conversations of their own, as of sub-agents.
        attachments: Path of an object of texts, for which `attachment://` and their keys stand in the record.
        by_name: Whether it is used only where the person names it, and recognises no record.
    """

    name: str
    title: str
    when: tuple[Condition, ...]
    items: tuple[MessageList, ...]
    sample: str = ""
    split: tuple[Path, ...] = ()
    subrecords: Path | None = None
    attachments: Path | None = None
    transcript: Transcript | None = None
    group: Group | None = None
    tree: Tree | None = None
    id: tuple[Path, ...] = ()
    created_at: Path | None = None
    user: Path | None = None
    roles: Table[str, Destination] = field(default_factory=dict)
    truth: Table[str, Path] = field(default_factory=dict)
    metadata: Table[str, Path] = field(default_factory=dict)
    left_out: tuple[Path, ...] = ()
    by_name: bool = False


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
    except (tomllib.TOMLDecodeError, BadMapping, BadPath) as error:
        raise FormatError(
            f"The mapping file {file} cannot be used: {error}.",
            "docs/mapping-files.md describes its keys; `workbench import --map` writes such a file.",
        ) from None


class BadMapping(Exception):
    """A mapping says something wrong; the text says what."""


def read_mapping(table: Table[str, Any]) -> Mapping:
    """Reads the content of a mapping file.

    Raises:
        BadMapping: It says something that no mapping file says.
        BadPath: A path in it is none.
    """
    taken = _Keys(table, "the file")
    name = taken.text("name")
    if not name:
        raise BadMapping("it has no `name`")
    mapping = Mapping(
        name=name,
        title=taken.text("title") or name,
        when=tuple(map(read_condition, taken.texts("when"))),
        items=tuple(_items(entry) for entry in taken.tables("messages")),
        sample=taken.text("sample"),
        split=tuple(map(read_path, taken.texts("split"))),
        subrecords=taken.path("apart"),
        attachments=taken.path("attachments"),
        transcript=_transcript(taken.table("transcript")),
        group=_group(taken.table("group")),
        tree=_tree(taken.table("tree")),
        id=tuple(map(read_path, taken.texts("id"))),
        created_at=taken.path("created_at"),
        user=taken.path("user"),
        roles={
            str(word): _destination(entry, word) for word, entry in taken.table("roles").items()
        },
        truth={key: read_path(str(entry)) for key, entry in taken.table("truth").items()},
        metadata={key: read_path(str(entry)) for key, entry in taken.table("metadata").items()},
        left_out=tuple(map(read_path, taken.texts("left_out"))),
        by_name=taken.truth_value("by_name"),
    )
    taken.end()
    if not mapping.items:
        raise BadMapping("it has no [[messages]]")
    if not mapping.when:
        raise BadMapping("it has no `when`, so that no record could be recognized")
    return mapping


def _items(table: Table[str, Any]) -> MessageList:
    taken = _Keys(table, "[[messages]]")
    turns = taken.tables("turns")
    each = taken.path("each") or read_path(".")
    if not turns:
        return MessageList(each, (_turn(taken),))
    taken.end()
    return MessageList(each, tuple(_turn(_Keys(turn, "`turns`"), inner=True) for turn in turns))


def _turn(taken: _Keys, inner: bool = False) -> MessageRule:
    calls = taken.table_or_path("calls")
    turn = MessageRule(
        taken.path("each") if inner else None,
        tuple(map(read_condition, taken.texts("when"))),
        _role(taken.text("role")),
        tuple(map(read_path, taken.texts("text"))),
        taken.path("name"),
        taken.path("time"),
        taken.path("reasoning"),
        calls,
        taken.path("answers"),
        taken.text("join") if taken.has("join") else None,
    )
    taken.end()
    return turn


def _role(text: str) -> Path | tuple[Destination, ...] | None:
    if text.startswith("="):
        return tuple(_destination(word.strip(), "role") for word in text[1:].split(","))
    return read_path(text) if text else None


def _destination(text: Any, of: object) -> Destination:
    for one in DESTINATIONS:
        if one == text:
            return one
    raise BadMapping(f"`{of}` is {text!r}, not one of {', '.join(DESTINATIONS)}")


def _group(table: Table[str, Any]) -> Group | None:
    if not table:
        return None
    taken = _Keys(table, "[group]")
    by = taken.text("by")
    if not by:
        raise BadMapping('[group] needs `by`: a path, or "file" if a file is one conversation')
    order, others = taken.path("order"), taken.text("others")
    if others not in ("", "file"):
        raise BadMapping('`others` in [group] is not "file"')
    path = None if by == "file" else read_path(by)
    group = Group(path, order, bool(others), taken.truth_value("across_files"))
    taken.end()
    return group


def _transcript(table: Table[str, Any]) -> Transcript | None:
    if not table:
        return None
    taken = _Keys(table, "[transcript]")
    transcript = Transcript(taken.path("at") or read_path("."), tuple(taken.texts("marks")))
    taken.end()
    if not all(mark.strip() for mark in transcript.marks) or not transcript.marks:
        raise BadMapping("[transcript] needs `marks`, the texts with which turns begin")
    return transcript


def _tree(table: Table[str, Any]) -> Tree | None:
    if not table:
        return None
    taken = _Keys(table, "[tree]")
    nodes = taken.path("nodes")
    tree = Tree(
        nodes or read_path("."),
        *(taken.path(key) for key in ("id", "parent", "children", "leaf", "rank")),
    )
    taken.end()
    if tree.children is None and (tree.id is None or tree.parent is None):
        raise BadMapping("[tree] needs `children`, or `id` and `parent`")
    return tree


class _Keys:
    """Takes the keys of a table one by one, so that the unknown ones are left over."""

    def __init__(self, table: Table[str, Any], where: str) -> None:
        self._left = dict(table)
        self._where = where

    def text(self, key: str) -> str:
        value = self._left.pop(key, "")
        if not isinstance(value, str):
            raise BadMapping(f"`{key}` in {self._where} is not text")
        return value

    def truth_value(self, key: str) -> bool:
        value = self._left.pop(key, False)
        if not isinstance(value, bool):
            raise BadMapping(f"`{key}` in {self._where} is neither true nor false")
        return value

    def has(self, key: str) -> bool:
        return key in self._left

    def texts(self, key: str) -> list[str]:
        value = self._left.pop(key, [])
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(entry, str) for entry in texts):
            raise BadMapping(f"`{key}` in {self._where} is neither text nor a list of texts")
        return texts

    def path(self, key: str) -> Path | None:
        text = self.text(key)
        return read_path(text) if text else None

    def table(self, key: str) -> Table[str, Any]:
        value = self._left.pop(key, {})
        if not isinstance(value, dict):
            raise BadMapping(f"`{key}` in {self._where} is not a table")
        return value

    def tables(self, key: str) -> list[Table[str, Any]]:
        value = self._left.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise BadMapping(f"`{key}` in {self._where} is not a list of tables")
        return value

    def table_or_path(self, key: str) -> CallMapping | None:
        value = self._left.get(key)
        if not isinstance(value, dict):
            path = self.path(key)
            return CallMapping(path) if path else None
        taken = _Keys(self._left.pop(key), f"`{key}`")
        calls = CallMapping(
            taken.path("each") or read_path("."),
            *(taken.path(name) for name in ("name", "arguments", "id")),
        )
        taken.end()
        return calls

    def end(self) -> None:
        """Raises BadMapping if a key is left."""
        if self._left:
            keys = ", ".join(f"`{key}`" for key in self._left)
            raise BadMapping(f"{self._where} has {keys}, which no mapping file has")


def as_toml(table: dict[str, Any]) -> str:
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
    """A value as TOML: a text, a truth value, a list, or a table within a line."""
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{_toml_key(key)} = {_toml(one)}" for key, one in value.items())
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON and TOML write texts and truth values alike
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
