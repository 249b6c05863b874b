"""What readers take and return: conversations with their bytes, rejected records, and accounts of where text went.

A *source* is one imported file. A *reader* reads the records of one format; what it returns for one is a *draft*, which
the leak guard has not seen. A *leak* is text that reveals how a conversation ended; the leak guard
(`engine.formats.leaks`) hides it from models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import msgspec

from engine.base.conversation import Conversation
from engine.formats.opening.framing import Frame

Place = Literal["messages", "calls", "reasoning", "truth", "metadata", "left out", "nowhere"]
"""Where text of a source can go. What a format leaves out on purpose stays in the original record only."""

UNKNOWN = "unknown"
"""Name of the format of an input that fits no format."""
SKIPPED = "skipped"
"""Name of the format of the files that hold no conversations."""

PLACES: tuple[Place, ...] = get_args(Place)
"""The places to which text can go, in the order in which accounts name them."""

MOST_LOST = 0.02
"""Largest share of a source's text that may go nowhere without a warning."""

MOST_ASIDE = 5
"""How many times as many characters of sentences the metadata of a source may have as its messages without a warning.
With more the conversations may be in the metadata; of 299 samples none has so many."""

LEAST_ASIDE = 1_000
"""Number of characters of sentences in the metadata of a source below which there is no warning about them
(`MOST_ASIDE`)."""

MOST_REJECTED = 0.1
"""Largest share of a source's records that may be rejected before another mapping is offered."""

_EXAMPLE_CHARACTERS = 80
"""Number of characters of a text that are kept as an example."""

_COUNTED_FIELDS = ("lost", "unknown", "hidden", "undated")
"""Fields of an account that count texts by a name."""


@dataclass(slots=True)
class Unread:
    """Counts of texts of one kind, such as those under one path that were not read.

    Attributes:
        times: Number of texts.
        chars: Number of their characters.
        example: The beginning of one of them.
    """

    times: int
    chars: int
    example: str


@dataclass(slots=True)
class Account:
    """Where the text of a source went.

    Attributes:
        chars: Number of characters by place.
        lost: What went nowhere, by its path in the records.
        unknown: Parts of messages whose kind is unknown, by kind; their JSON was kept as text.
        hidden: What the leak guard hid from models, by its rule; for a field of the record by rule and field name.
        undated: Times of conversations that are no dates as the program knows them, by their shape: each digit as 0.
        said: Number of characters of the sentences in messages.
        aside: Number of characters of the sentences in metadata.
        columns: Of a table with a row a message, what each other column is kept with: `conversation` or `message`.
    """

    chars: dict[Place, int] = field(default_factory=dict)
    lost: dict[str, Unread] = field(default_factory=dict)
    unknown: dict[str, Unread] = field(default_factory=dict)
    hidden: dict[str, Unread] = field(default_factory=dict)
    undated: dict[str, Unread] = field(default_factory=dict)
    said: int = 0
    aside: int = 0
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of all characters."""
        return sum(self.chars.values())

    def share(self, place: Place) -> float:
        """Returns the share of the text that went to a place, from 0 to 1; 0 if there is no text."""
        return self.chars.get(place, 0) / (self.total or 1)

    @property
    def warns(self) -> bool:
        """Whether more text went nowhere than is allowed (`MOST_LOST`), or too much of it lies aside."""
        return self.share("nowhere") > MOST_LOST or self.lies_aside

    @property
    def lies_aside(self) -> bool:
        """Whether the metadata have so many more sentences than the messages that they may be the conversation."""
        return self.aside >= max(LEAST_ASIDE, MOST_ASIDE * self.said)

    def add(self, place: Place, chars: int) -> None:
        """Counts text that went to a place."""
        self.chars[place] = self.chars.get(place, 0) + chars

    def lose(self, path: str, text: str, chars: int) -> None:
        """Counts text that went nowhere."""
        self.add("nowhere", chars)
        _count(self.lost, path, Unread(1, chars, text[:_EXAMPLE_CHARACTERS]))

    def see(self, kind: str, text: str) -> None:
        """Counts a part of an unknown kind."""
        _count(self.unknown, kind, Unread(1, len(text), text[:_EXAMPLE_CHARACTERS]))

    def hide(self, leak: Leak) -> None:
        """Counts what the leak guard hid from models."""
        name = leak.rule
        if leak.message is None:
            name += f" {leak.found.partition(' = ')[0]}"
        _count(self.hidden, name, Unread(1, len(leak.found), leak.found[:_EXAMPLE_CHARACTERS]))

    def see_date(self, text: str) -> None:
        """Counts a conversation whose time is not understood."""
        shape = re.sub(r"\d", "0", text[:_EXAMPLE_CHARACTERS])
        _count(self.undated, shape, Unread(1, len(text), text[:_EXAMPLE_CHARACTERS]))

    def include(self, other: Account) -> None:
        """Adds the counts of another account."""
        self.said += other.said
        self.aside += other.aside
        self.columns |= other.columns
        for place, chars in other.chars.items():
            self.add(place, chars)
        for kind in _COUNTED_FIELDS:
            for name, unread in getattr(other, kind).items():
                _count(getattr(self, kind), name, unread)


def _count(into: dict[str, Unread], name: str, unread: Unread) -> None:
    """Adds counts to those under a name; the first example stays."""
    before = into.setdefault(name, Unread(0, 0, unread.example))
    before.times += unread.times
    before.chars += unread.chars


@dataclass(frozen=True, slots=True)
class Leak:
    """A leak: text that reveals how the conversation ended.

    Attributes:
        message: Index of the message that has it; None for a field of the record.
        rule: Name of the rule that found it.
        found: The text.
    """

    message: int | None
    rule: str
    found: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A record that was read as a conversation.

    Attributes:
        line: Line (JSON Lines) or position in the list (JSON array), from 1; None for a single object.
        raw: The bytes of the record in the decompressed input.
        conversation: The conversation, after the leak guard.
        leaks: What the leak guard hid from models.
        account: Where the text of the record went.
    """

    line: int | None
    raw: bytes
    conversation: Conversation
    leaks: tuple[Leak, ...] = ()
    account: Account = field(default_factory=Account)


@dataclass(frozen=True, slots=True)
class Rejected:
    """One record that is not a conversation, with the reason in words and its bytes."""

    line: int | None
    raw: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Detection:
    """The format that was detected, and the reason in words."""

    format: str
    why: str


@dataclass(slots=True)
class SourceReport:
    """What was read from one input.

    Attributes:
        label: Path of the input, or `standard input`.
        detection: The format that was detected.
        conversations: Number of conversations.
        messages: Number of messages.
        rejected: Number of rejected records.
        account: Where the text went.
        reasons: Why records were rejected, and how many for each reason.
    """

    label: str
    detection: Detection
    conversations: int = 0
    messages: int = 0
    rejected: int = 0
    account: Account = field(default_factory=Account)
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def badly_read(self) -> bool:
        """Whether so much of it was not read that its format is doubtful."""
        records = self.rejected + self.conversations
        return self.account.warns or self.rejected > MOST_REJECTED * records

    def count(self, record: Parsed | Rejected) -> None:
        """Counts one record."""
        if isinstance(record, Rejected):
            self.rejected += 1
            self.reasons[record.reason] = self.reasons.get(record.reason, 0) + 1
            return
        self.conversations += 1
        self.messages += len(record.conversation.messages)
        self.account.include(record.account)

    def to_json(self) -> str:
        """Returns the report as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SourceReport:
        """Returns the report from which `to_json` made a text."""
        # read by json first, which takes half a character of UTF-16 too
        return msgspec.convert(json.loads(text), cls)


class Input:
    """One opened input; a folder or several paths are several inputs. This one has no records.

    Attributes:
        label: Path as the person gave it, or `standard input`.
        size: Bytes on disk; None when it cannot be known.
        detection: The detected format.
        companion_files: Other files from which its conversations have a part, such as the requests of a batch.
    """

    def __init__(
        self,
        label: str,
        size: int | None,
        detection: Detection,
        companion_files: Sequence[str] = (),
    ) -> None:
        self.label = label
        self.size = size
        self.detection = detection
        self.companion_files = companion_files

    def position(self) -> int:
        """Returns the number of bytes of `size` that were read so far."""
        return self.size or 0

    def records(self) -> Iterator[Parsed | Rejected]:
        """Yields the records in order, as a stream; an unreadable rest is yielded as a `Rejected`."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A record with the same messages as a stored conversation: its own id, and the label of its source."""

    external_id: str
    source: str


@dataclass(frozen=True, slots=True)
class Imported:
    """Where a stored conversation came from.

    Attributes:
        conversation_id: Its id in the project.
        external_id: Its id in its source.
        source: Label of the source.
        duplicates: Records with the same messages, in the order of import.
    """

    conversation_id: int
    external_id: str
    source: str
    duplicates: tuple[Duplicate, ...]

    def names(self) -> dict[str, Any]:
        """Returns its id and its duplicates as JSON, as the line of the conversation in an export has them."""
        duplicates = [
            {"id": duplicate.external_id, "source": duplicate.source}
            for duplicate in self.duplicates
        ]
        return {"id": self.external_id, "duplicates": duplicates}


@dataclass(slots=True)
class ParsedRecord:
    """A conversation as its reader returns it, before the leak guard.

    Attributes:
        conversation: What was read from the record.
        fields: The other fields of the record; the leak guard divides them into meta and truth.
        truth_fields: Names in `fields` that are truth in this format, even if not in others.
        left_out: What the reader left in the original record on purpose: the `id()` of a list or an object of the
            record, and the key or position in it.
        unknown: Items of the log that the format does not know; they were kept as metadata.
        pieces: Texts of the log that messages were put together from.
        columns: As in `Account`.
    """

    conversation: Conversation
    fields: dict[str, Any] = field(default_factory=dict)
    truth_fields: frozenset[str] = frozenset()
    left_out: frozenset[tuple[int, str | int]] = frozenset()
    unknown: tuple[Any, ...] = ()
    pieces: frozenset[str] = frozenset()
    columns: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of one format.

    Attributes:
        name: Name of the format, as `--format` takes it.
        recognize: Returns in words why a record looks like this format; None if it does not.
        read: Returns the draft of a conversation; the arguments are the record, the id for a record without one, and
            the object from which the record was split (`_outer` where a reader does not need it). Raises BadRecord.
        arrange: Splits records that are several conversations and groups those of which several are one. None if each
            record is one conversation.
        conditions: How much it asks of a record; of readers that recognize the same, the one that asks most is taken.
        title: What the records are, in words.
        sample: Name of a real file of the format, outside the project; empty if there is none.
        seen: Version of the program, or the month, of which the records have been seen; may be empty.
    """

    name: str
    recognize: Callable[[Any], str | None]
    read: Callable[[Any, str, Any], ParsedRecord]
    arrange: Callable[[Iterable[Frame]], Iterator[Frame]] | None = None
    conditions: int = 0
    title: str = ""
    sample: str = ""
    seen: str = ""
