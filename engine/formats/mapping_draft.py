"""A mapping that a person makes: guessed from records of a file, edited as text, tried out on them, and saved.

A *mapping* says where the records of a format have their messages (`engine.formats.mappings.mapping`), a *guess* is
one that the program proposes, and a *trial* what a mapping reads from the records.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.base.conversation import Conversation
from engine.base.errors import FormatError
from engine.base.files import create_private_folder
from engine.base.number_format import counted
from engine.base.text import display_safe, one_line
from engine.formats.detect import BYTES_TRIED, RECORDS_TRIED, choose_reader
from engine.formats.inputs import open_inputs, sample_records
from engine.formats.mappings.arranging import arrange_records
from engine.formats.mappings.fields import Field, call_keys, fields_of
from engine.formats.mappings.guessing import Guess, guess_mappings, values_at
from engine.formats.mappings.mapping import DESTINATIONS, BadMapping, Mapping, as_toml, read_mapping
from engine.formats.mappings.toml_reader import reader_of
from engine.formats.opening.framing import Frame
from engine.formats.paths import BadPath, read_path
from engine.formats.records import MOST_LOST, Account, Parsed, Rejected
from engine.formats.registry import built_in_readers, mapping_folder, parse_record

MOST_GUESSES = 12
"""Most guesses at a mapping that are offered."""
_MAX_FIELDS_LISTED = 16
"""Most fields that a guess lists in its comments."""
_MAX_EXAMPLE = 60
"""Most characters of an example of a field."""
_MAX_CONVERSATIONS_SHOWN = 2
"""Number of conversations that are shown of the trial of a mapping."""
_MAX_MESSAGES_TRIED = 5_000
"""Number of messages after which the trial of a mapping ends."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a mapping reads from the records of a file.

    Attributes:
        conversations: Number of conversations.
        messages: Number of messages.
        rejected: Number of records that were not read.
        reason: Why the first of these was not read; empty if all were.
        account: Where the text of the records went.
        shown: The first conversations, at most two.
        whole: Whether all of the file was read, and not its beginning only.
        roles: Number of messages by role.
    """

    conversations: int = 0
    messages: int = 0
    rejected: int = 0
    reason: str = ""
    account: Account = field(default_factory=Account)
    shown: tuple[Conversation, ...] = ()
    whole: bool = True
    roles: Table[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> str:
        """What was read, in words."""
        start = "Read so" if self.whole else "Read so, of the beginning of the file"
        spoken = ", ".join(f"{count:,} {role}" for role, count in self.roles.items())
        conversations_text = counted(self.conversations, "conversation")
        text = f"{start}: {conversations_text}, {counted(self.messages, 'message')}"
        return f"{text} ({spoken})" if spoken else text

    @property
    def doubts(self) -> list[str]:
        """What looks wrong, in words."""
        doubts = []
        if self.rejected:
            doubts.append(f"{self.rejected:,} not read: {self.reason}.")
        silent = [role for role in ("user", "assistant") if not self.roles.get(role)]
        if self.messages:
            doubts += [f"Nothing is said by the {role}." for role in silent]
        if aside := sum(texts.times for texts in self.account.unknown.values()):
            doubts.append(f"{counted(aside, 'item')} not understood, in metadata only.")
        if self.account.lies_aside:
            doubts.append("Far more sentences are in metadata than in messages.")
        if (lost := self.account.share("nowhere")) > MOST_LOST:
            doubts.append(f"{lost:.1%} of the text goes nowhere.")
        return doubts


def refusal_of(path: str) -> str | None:
    """Returns why a file cannot be imported as it is; None if it can be."""
    try:
        open_inputs([path])
    except FormatError as error:
        return error.message
    return None


class MappingDraft:
    """A draft of a mapping for some records of a file.

    Attributes:
        known_as: The format in which the records are read without the draft; None if they are refused.
        texts: The guesses as texts of mapping files, the best first; at least one.

    Raises:
        FormatError: Nothing in the records looks like messages.
    """

    def __init__(self, frames: Sequence[Frame], label: str) -> None:
        self._frames = [frame for frame in frames if frame.reason is None]
        values = [frame.value for frame in self._frames]
        best_guesses = guess_mappings(values)[:MOST_GUESSES]
        if not best_guesses:
            raise FormatError(
                f"Nothing in {label} looks like messages.",
                "A list of messages, or rows with a text each, is needed.",
            )
        choice = choose_reader(values, len(values))
        self.known_as = None if choice is None else choice.reader.name
        self._label = label
        self._name = _free_name(label)
        self.texts = tuple(
            self._text(guess, values_at(guess.where, values)) for guess in best_guesses
        )

    @classmethod
    def of_file(cls, path: str) -> MappingDraft:
        """Returns a draft for the first records of a file.

        Raises:
            FormatError: The file cannot be read, or nothing in it looks like messages.
        """
        return cls(sample_records(path), os.path.basename(path))

    def _text(self, guess: Guess, items: Sequence[Any]) -> str:
        """Returns the guess as the text of a mapping file, with the fields of the items that hold the messages as
        comments."""
        content: dict[str, Any] = {
            "name": self._name,
            "title": f"records like those of {self._label}",
            "when": _common_conditions(guess),
        }
        lines = []
        if self.known_as is not None:
            content["by_name"] = True
            lines += [
                f"# Files like this are read as {self.known_as} already. With by_name this mapping is for this import",
                "# only; without that line it is for all files that it fits.",
            ]
        lines += [f"# Please check: {one_line(question, 160)}" for question in guess.questions]
        lines.append(as_toml(content | _with_call_keys(guess.table, items)))
        if "roles" in guess.table:
            lines.append(f"# A word may speak as: {', '.join(DESTINATIONS)}")
        lines += _field_lines("Fields beside each message", fields_of(items))
        lines += _field_lines("Fields of the conversation, kept as metadata", guess.metadata)
        return _escape_controls("\n".join(lines) + "\n")

    def try_out(self, text: str) -> Trial:
        """Reads the records with the mapping that a text describes, up to some thousand messages."""
        try:
            mapping = _read_text(text)
        except FormatError as error:
            return Trial(rejected=len(self._frames), reason=error.message.rstrip("."))
        return _try_mapping(mapping, self._frames)

    def save(self, text: str) -> str:
        """Writes the mapping file into the person's folder, under the name in the text; returns the name.

        Raises:
            FormatError: The text is no mapping, there is a file of that name already, or it cannot be written.
        """
        name = _read_text(text).name
        if name != format_name(name):
            raise FormatError(
                f"{name} is no name of a format.",
                f"Small letters, digits and underscores, such as {format_name(name)}.",
            )
        file = mapping_folder() / f"{name}.toml"
        try:
            create_private_folder(mapping_folder())
            with open(file, "x", encoding="utf-8") as written:
                written.write(text)
        except FileExistsError:
            raise FormatError(f"There is a mapping file {file}.", "Choose another name.") from None
        except OSError as error:
            raise FormatError(
                f"{file} cannot be written: {error.strerror}.", "Check the folder."
            ) from None
        return name


def format_name(text: str) -> str:
    """Returns a text as the name of a format: small letters, digits and underscores."""
    return re.sub(r"\W+", "_", text).strip("_").lower() or "my_format"


def _free_name(label: str) -> str:
    """Returns a name for the format of a file, made of the name of the file, that no other format has."""
    name = format_name(label.split(".")[0])
    others = {file.stem for file in mapping_folder().glob("*.toml")}
    others |= {reader.name for reader in built_in_readers()}
    names = (name, *(f"{name}_{n}" for n in range(2, 999)))
    return next(free for free in names if free not in others)


def _read_text(text: str) -> Mapping:
    """Returns the mapping that a text describes; raises FormatError with what is wrong in it."""
    try:
        return read_mapping(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, BadMapping, BadPath) as error:
        raise FormatError(f"{error}.", "docs/mapping-files.md describes its keys.") from None
    except RecursionError:
        raise FormatError("It is nested too deeply.", "Check it.") from None


def _field_lines(title: str, fields: Sequence[Field]) -> list[str]:
    """Returns fields as comments of a mapping file, each with an example; [] if there are none."""
    if not fields:
        return []
    return [
        f"# {title}, each with an example:",
        *(
            f"#   {one_line(shown.path, _MAX_EXAMPLE):<20} {one_line(shown.example, _MAX_EXAMPLE)}".rstrip()
            for shown in fields[:_MAX_FIELDS_LISTED]
        ),
    ]


def _escape_controls(text: str) -> str:
    """Returns the text of a mapping file with the escapes of TOML for characters that no terminal may get."""
    return "".join(
        char if char == "\n" or display_safe(char) == char else f"\\U{ord(char):08x}"
        for char in text
    )


def _with_call_keys(table: dict[str, Any], items: Sequence[Any]) -> dict[str, Any]:
    """Returns the content of a mapping file with the keys of its tool calls, if these are not the usual ones."""
    table = dict(table)
    messages = []
    for message in table["messages"]:
        if calls := message.get("calls"):
            path = read_path(calls)
            keys = next((keys for item in items if (keys := call_keys(path.first(item)))), None)
            if keys:
                message = {**message, "calls": {"each": calls, **keys}}
        messages.append(message)
    del table["messages"]
    return {**table, "messages": messages}


def _common_conditions(guess: Guess) -> list[str]:
    """Returns the conditions of a guess on the records, as the `when` of a mapping file: the paths at which they have
    an id, a speaker and a text."""
    table = guess.table
    message, *_ = table["messages"]
    paths = [message["text"]]
    role = message["role"]
    if not role.startswith("="):  # a path, and not roles that are given, as `=user,assistant`
        paths.insert(0, role)
    if "group" in table:
        by = [] if table["group"]["by"] == "file" else [table["group"]["by"]]
        return list(dict.fromkeys([*by, *paths]))
    return list(dict.fromkeys(_join_paths(guess.where, path) for path in paths))


def _join_paths(where: str, path: str) -> str:
    """Returns the path in a record to what is at `path` within what is at `where`."""
    if path == "." or where == ".":
        return where if path == "." else path
    return f"{where}{path}" if path.startswith("[") else f"{where}.{path}"


def _try_mapping(mapping: Mapping, frames: Sequence[Frame]) -> Trial:
    """Reads records with a mapping, up to some thousand messages."""
    account = Account()
    shown: list[Conversation] = []
    roles: Counter[str] = Counter()
    conversations = rejected = 0
    reason = ""
    size = sum(len(frame.raw) for frame in frames)
    is_whole_file = len(frames) < RECORDS_TRIED and size < BYTES_TRIED
    reader = reader_of(mapping)
    for number, frame in enumerate(arrange_records(mapping, frames), 1):
        if roles.total() >= _MAX_MESSAGES_TRIED:
            is_whole_file = False
            break
        record = (
            Rejected(frame.number, frame.raw, frame.reason)
            if frame.reason
            else parse_record(reader, frame, str(number))
        )
        if isinstance(record, Parsed):
            conversations += 1
            roles.update(message.role for message in record.conversation.messages)
            account.include(record.account)
            if len(shown) < _MAX_CONVERSATIONS_SHOWN:
                shown.append(record.conversation)
        else:
            rejected += 1
            reason = reason or record.reason
    return Trial(
        conversations=conversations,
        messages=roles.total(),
        rejected=rejected,
        reason=reason,
        account=account,
        shown=tuple(shown),
        whole=is_whole_file,
        roles=roles,
    )
